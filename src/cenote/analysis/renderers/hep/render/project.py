"""Draw a part of a histogram of several variables: projected onto some axes, within ranges of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.renderers.interface import DrawContext, Renderer
from cenote.analysis.renderers.support import bins
from cenote.analysis.renderers.support.picture import Picture, must_hold
from cenote.common import errors
from cenote.common.errors import ErrorKind
from cenote.common.text import did_you_mean
from cenote.language.checks.validation import known_keys
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.settings import Settings

USUAL = {1: "hep.render.hist1d", 2: "hep.render.heatmap2d"}
"""What draws one axis, and two, where nothing else is said."""
NOT_THE_RENDERERS = ("op", "out", "when")
"""Keys of `then` that are not settings of its renderer."""


class ProjectBlock(Settings):
    """Settings of `project`."""

    axis: str | Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    """The axis that is kept, or two of them; all others are summed over, under- and overflow included."""
    keep_dataset: bool = True
    """Datasets stay apart; false adds them up."""
    ranges: Mapping[str, tuple[float | None, float | None]] = Field(default_factory=dict)
    """Axis → from where to where it is summed over: `{eta: [-1.5, 1.5]}`; null has no end. Ends are edges of bins."""
    then: Mapping[str, Any] = Field(default_factory=dict)
    """The renderer (`op`) that draws the result, and its settings; those beside `project` hold for it too. Without it,
    `hep.render.hist1d` draws one axis and `hep.render.heatmap2d` two."""

    @field_validator("then")
    @classmethod
    def _fits_its_renderer(cls, then: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        """What is wrong with the settings of the renderer that draws is reported at its place in the file."""
        many = 1 if isinstance(axis := info.data.get("axis"), str) else len(axis or ())
        factory = _factory(str(then.get("op") or USUAL.get(many, "")))
        try:
            factory.model_validate(_settings(then))
        except ValidationError as problem:
            raise _with_nearest_keys(problem, factory) from None
        return then

    @property
    def kept(self) -> tuple[str, ...]:
        """The axes that are kept."""
        return (self.axis,) if isinstance(self.axis, str) else self.axis

    @property
    def op(self) -> str:
        """The name of the renderer that draws."""
        return str(self.then.get("op") or USUAL[len(self.kept)])


class ProjectPicture(Picture):
    """Draws a histogram of several variables as one of fewer: projected onto axes, within ranges of the others."""

    example: ClassVar[str] = """
    render:
      op: hep.render.project
      out: pt_central
      project:
        axis: x
        ranges: {y: [0, 2]}
        then: {op: hep.render.hist1d, axes: {y: {scale: log}}}
    """

    project: ProjectBlock
    """What is special to this renderer."""

    @property
    def _renderer(self) -> Renderer:
        """The renderer that draws, with the settings beside `project` under its own."""
        factory = _factory(self.project.op)
        beside = self.model_dump(exclude_unset=True, exclude={"project", "select"})
        shared = {key: value for key, value in beside.items() if key in factory.model_fields}
        made: Renderer = factory.model_validate(_merged(shared, _settings(self.project.then)))
        return made

    @property
    def endings(self) -> tuple[str, ...]:
        """Those of the renderer that draws."""
        return self._renderer.endings

    def stems(self, stem: str, axes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002  # those that are kept are drawn
        """Those of the renderer that draws."""
        return self._renderer.stems(stem, self.project.kept)

    def check(self, shape: ProductShape, context: DrawContext) -> None:
        """The axes must be there, and the renderer content with what is left; see `Renderer.check`."""
        self.check_selected(shape, context)
        if shape.axes is None:
            return
        for name in (*self.project.kept, *self.project.ranges):
            must_hold(name, shape.axes, "axis", stage=context.stage, listed_as="axes")
        for name, ends in self.project.ranges.items():
            if name in shape.edges:
                _places(name, shape.edges[name], ends, errors.BAD_VALUE)
        kept = self.project.kept
        apart = shape.per_dataset if self.project.keep_dataset else False
        self._renderer.check(replace(shape, axes=kept, drawn=kept, binning=(), per_dataset=apart), context)

    def draw(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """Write the pictures of the projection; see `Renderer.draw`."""
        block = self.project
        histogram = self.histogram(product, context)
        roles = bins.roles(histogram, context.datasets, wanted=[*block.kept, *block.ranges])
        cuts: dict[int, slice] = {}
        for name, ends in block.ranges.items():
            index = bins.axis_called(histogram, name, roles.free, stage=context.stage)
            cuts[index] = _bins_within(histogram.axes[index], ends, summed=name not in block.kept)
        first = [roles.dataset] if block.keep_dataset else []
        kept = [bins.axis_called(histogram, name, roles.free, stage=context.stage) for name in block.kept]
        names = [histogram.axes[index].name for index in (*first, roles.variation, *kept) if index is not None]
        return self._renderer.draw(histogram[cuts].project(*names), target, context)


def _bins_within(axis: Any, ends: tuple[float | None, float | None], *, summed: bool) -> slice:
    """The bins between two edges of an axis; without an end, all that is beyond it too."""
    import hist

    if not (axis.traits.continuous or axis.traits.ordered):
        raise errors.error(
            errors.RENDER_FAILED,
            f"the axis '{axis.name}' has categories, not a range",
            hint=f"choose some of them with `select: {{{axis.name}: […]}}`",
        )
    first, last = _places(axis.name, axis.edges, ends, errors.RENDER_FAILED)
    return slice(first, last, hist.sum) if summed else slice(first, last)


def _places(
    name: str, written: Sequence[float], ends: tuple[float | None, float | None], kind: ErrorKind
) -> tuple[int | None, int | None]:
    """Which edges the ends of a range are."""
    edges = np.asarray(written, dtype=np.float64)
    places: list[int | None] = []
    for end in ends:
        at = None if end is None else int(np.abs(edges - end).argmin())
        if at is not None and end is not None and not np.isclose(edges[at], end, rtol=1e-9, atol=1e-9):
            near = sorted(edges[np.argsort(np.abs(edges - end))[:2]])
            raise errors.error(
                kind,
                f"{end:g} is not an edge of a bin of the axis '{name}': a bin cannot be cut in two",
                hint="the nearest edges are " + " and ".join(f"{edge:g}" for edge in near),
            )
        places.append(at)
    return places[0], places[1]


def _factory(name: str) -> type[Renderer]:
    """The renderer of this name; it may not be another projection."""
    known = [one for one in registry.names(PluginKind.RENDERER) if one != "hep.render.project"]
    if name in known:
        found: type[Renderer] = registry.load(PluginKind.RENDERER, name)
        return found
    near = did_you_mean(name, known)
    words = f"there is no renderer '{name}' that draws a projection" + (f"; {near}" if near else "")
    raise PydanticCustomError("then", "{problem}", {"problem": words})


def _settings(then: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in then.items() if key not in NOT_THE_RENDERERS}


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, key by key; the second wins."""
    both = {key: _merged(under[key], value) for key, value in over.items() if _are_mappings(under.get(key), value)}
    return {**under, **over, **both}


def _are_mappings(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _with_nearest_keys(problem: ValidationError, factory: type[Renderer]) -> ValidationError:
    """The same errors, in which an unknown key has the nearest known one beside it."""
    found: list[InitErrorDetails] = []
    for error in problem.errors(include_url=False):
        words, loc = error["msg"].removeprefix("Value error, "), error["loc"]
        if error["type"] == "extra_forbidden":
            near = did_you_mean(str(loc[-1]), known_keys(factory, loc[:-1]))
            words = "there is no such key in the renderer's settings" + (f"; {near}" if near else "")
        kind = PydanticCustomError("then", "{problem}", {"problem": words})
        found.append({"type": kind, "loc": loc, "input": error["input"]})
    return ValidationError.from_exception_data("then", found)
