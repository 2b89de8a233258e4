"""Declare how pictures may look: the style keys that every renderer of pictures understands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.common.text import nearest
from cenote.language.plugins.settings import Settings

Format = Literal["png", "pdf", "svg"]
LegendPlace = Literal[
    "best",
    "outside",
    "upper right",
    "upper left",
    "upper center",
    "lower right",
    "lower left",
    "lower center",
    "center right",
    "center left",
    "center",
    "right",
]

_EXPERIMENTS = {name.lower(): name for name in ("CMS", "ATLAS", "LHCb", "ALICE", "ROOT", "none")}
_HEX = re.compile(r"#(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})|C\d+")


def _experiment(value: Any) -> Any:  # Any: whatever the YAML holds
    return "none" if value is None else _EXPERIMENTS.get(str(value).lower(), value)


def look_of(experiment: str) -> str:
    """Whose look a picture has: that of the known experiment that the name begins with (`CMS HGCAL`), else `none`."""
    first = re.split(r"[^A-Za-z]", experiment.strip(), maxsplit=1)[0]
    return _EXPERIMENTS.get(first.lower(), "none")


def _colour(value: str) -> str:
    if _HEX.fullmatch(value):
        return value
    from matplotlib import colors  # only for colours given by name: the import takes its time

    if colors.is_color_like(value):
        return value
    near = nearest(value, colors.get_named_colors_mapping())
    meant = f"; did you mean '{near}'?" if near else ""
    raise PydanticCustomError(
        "colour", "{problem}", {"problem": f"'{value}' is not a colour, write #5790fc or a name such as navy{meant}"}
    )


Colour = Annotated[str, AfterValidator(_colour)]
"""`#5790fc`, a name such as `navy`, or `C0` for the first of the style's own cycle."""


class FigureStyle(Settings):
    """The sheet of paper."""

    size: tuple[Annotated[float, Field(gt=0.5, le=200)], Annotated[float, Field(gt=0.5, le=200)]] | None = None
    """Width and height in inches; fonts and lines grow and shrink with it."""
    dpi: int = Field(default=150, ge=20, le=1200)
    """Dots per inch of the png."""


_Ends = TypeVar("_Ends", bound=tuple[float | None, float | None])


def _ascending(ends: _Ends) -> _Ends:
    low, high = ends
    if low is not None and high is not None and low >= high:
        raise PydanticCustomError("range", "the lower end of a range comes first, the higher one second")
    return ends


Range = Annotated[tuple[float, float], AfterValidator(_ascending)]
"""Lowest and highest value."""
OpenRange = Annotated[tuple[float | None, float | None], AfterValidator(_ascending)]
"""Lowest and highest value; None leaves an end to the data."""


class AxisStyle(Settings):
    """One axis of a picture."""

    name: str | None = None
    """The axis of the histogram that is meant, where there are several."""
    label: str | None = None
    """Text beside the axis, `$…$` for mathematics; without it, the label that the histogram's axis has."""
    scale: Literal["linear", "log"] = "linear"
    """Linear or logarithmic."""
    limits: OpenRange | None = None
    """Lowest and highest value shown; null leaves that end to the data."""


class AxesStyle(Settings):
    """The axes of a picture."""

    x: AxisStyle = AxisStyle()
    """The horizontal axis."""
    y: AxisStyle = AxisStyle()
    """The vertical axis."""
    z: AxisStyle = AxisStyle()
    """The colour scale of a heat map."""
    ratio: AxisStyle = AxisStyle()
    """The vertical axis of the lower panel."""


class LegendStyle(Settings):
    """The legend. The range of the vertical axis grows until the legend covers no data."""

    show: bool = True
    """Whether there is one."""
    loc: LegendPlace = "upper right"
    """Where it stands; `outside` is to the right of the frame."""
    ncol: int | None = Field(default=None, ge=1)
    """Columns; null chooses by the number of entries."""
    frameon: bool = False
    """Whether it has a frame."""
    fontsize: float | str | None = None
    """Points, or a word such as `small`."""
    title: str | None = None
    """A line above the entries."""


class DatasetStyle(Settings):
    """How one dataset (or group) is drawn."""

    label: str | None = None
    """Its name in the legend."""
    color: Colour | None = None
    """Its colour."""
    hatch: str | None = None
    """A pattern over the area, such as `//`."""
    alpha: float | None = Field(default=None, ge=0, le=1)
    """How opaque the area is, from 0 to 1."""
    kind: Literal["data", "background", "signal"] | None = None
    """What it is drawn as; without it, its `eventtype` decides."""
    stack: bool | None = None
    """Whether it is part of the stack; false overlays it as a line."""


class ExperimentStyle(Settings):
    """The look of an experiment, and what its label says."""

    experiment: Annotated[str, BeforeValidator(_experiment)] = "none"
    """Whose style and label: `CMS`, `ATLAS`, `LHCb`, `ALICE` and `ROOT` have looks of their own; any other name is the
    label of a plain look; `none` is a plain look without a label."""
    label: str = ""
    """Text after the name of the experiment, such as `Preliminary`."""
    lumi: float | str | None = None
    """Integrated luminosity in inverse femtobarns."""
    com: float | str | None = None
    """Centre-of-mass energy in TeV, or with its unit (`900 GeV`)."""
    year: int | str | None = None
    """Year or period of data taking."""
    color_cycle: tuple[Colour, ...] = ()
    """Colours for datasets that name none, in order; without it, those of the experiment's style."""
    datasets: Mapping[str, DatasetStyle] = Field(default_factory=dict)
    """Looks of datasets or groups, by name."""


class SampleGroup(Settings):
    """Add datasets up before drawing."""

    kind: Literal["group"]
    """`group`."""
    by: Literal["dataset_group"] | dict[str, list[str]] = "dataset_group"
    """`dataset_group` for the groups of the datasets, or a mapping from each new name to its datasets."""

    spelt_out: ClassVar = {"group": {"type": "object", "properties": {"by": {}}, "additionalProperties": False}}

    @model_validator(mode="before")
    @classmethod
    def _in_a_block(cls, given: Any) -> Any:  # Any: whatever the YAML holds
        """FAST-HEP also takes `group: {by: …}`."""
        block = given.get("group") if isinstance(given, Mapping) else None
        if not isinstance(block, Mapping) or set(block) != {"by"}:
            return given
        return {"by": block["by"], **{key: value for key, value in given.items() if key != "group"}}


class Scale(Settings):
    """Multiply datasets before drawing."""

    kind: Literal["scale"]
    """`scale`."""
    by: Literal["dataset_name", "dataset_group"] = "dataset_name"
    """Whether the factors are given per dataset or per group."""
    mode: Literal["overall", "bin_by_bin"] = "overall"
    """One factor for all bins, or a list with one factor per bin."""
    factors: dict[str, float | list[float]] = Field(default_factory=dict)
    """The factors by name; what is not named stays as it is."""


class Luminosity(Settings):
    """Scale simulation to the events that are expected in real data, by the cross section of each dataset."""

    kind: Literal["luminosity"]
    """`luminosity`."""
    lumi: float = Field(gt=0)
    """Integrated luminosity in inverse femtobarns."""
    cross_section: str = "xsec"
    """The key of datasets that has their cross section, in picobarns."""
    generated: str = "nevents"
    """The key of datasets that has how many events were generated, or the sum of their weights."""


Transform = Annotated[SampleGroup | Scale | Luminosity, Field(discriminator="kind")]


class MarkedBox(Settings):
    """A rectangle around a part of the picture, such as a signal region."""

    kind: Literal["box"]
    """`box`."""
    x: tuple[float, float]
    """From where to where, along the horizontal axis."""
    y: tuple[float, float] | None = None
    """From where to where, along the vertical axis; null is the whole height."""
    label: str | None = None
    """Its name in the legend."""
    color: Colour = "#c1121f"
    """Its colour."""


class MarkedLine(Settings):
    """A straight line across the picture, such as a cut."""

    kind: Literal["line"]
    """`line`."""
    x: float | None = None
    """Where it crosses the horizontal axis."""
    y: float | None = None
    """Where it crosses the vertical axis."""
    label: str | None = None
    """Its name in the legend."""
    color: Colour = "#c1121f"
    """Its colour."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.x is None) == (self.y is None):
            raise PydanticCustomError("line", "a line has either 'x' or 'y'")
        return self


Mark = Annotated[MarkedBox | MarkedLine, Field(discriminator="kind")]
