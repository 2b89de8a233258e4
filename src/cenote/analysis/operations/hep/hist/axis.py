"""State how the axes of a histogram are written in settings, and what is assumed where little is said."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AliasChoices, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.operations.support.lookup import regular_edges
from cenote.language.plugins.quantities import Shown
from cenote.language.plugins.settings import AlsoWritten, Settings

AxisType = Literal["regular", "variable", "integer", "category", "boolean"]
_TYPE_NAMES = {"int": "integer", "bool": "boolean"}
_RESERVED_NAMES = frozenset({"weight", "sample", "threads"})
CUSTOMARY: tuple[tuple[str, tuple[int, float, float]], ...] = (
    (r"(^|_)(pt|et|ht|met|energy|e)$", (50, 0.0, 200.0)),
    (r"(^|_)eta$", (50, -5.0, 5.0)),
    (r"(^|_)phi$", (50, -math.pi, math.pi)),
    (r"(^|_)(mass|m|mll|mt)$", (50, 0.0, 200.0)),
    (r"(^|_)(score|prob|probability|output|disc|discriminant)$", (50, 0.0, 1.0)),
    (r"", (50, 0.0, 100.0)),
)
"""Bins that are taken when none are given, by how the column's name ends (capital letters do not matter)."""
_COUNTED = re.compile(r"^(n_?[A-Z]\w*|n_\w+|\w*_?(count|multiplicity))$")
_COUNTS = (20, 0.0, 20.0)
MOST_BINS = 10_000_000
"""Of one axis: more is a slip of the pen, and would fill the memory."""


MOST_EDGES = 10_000
"""Of an axis whose edges are known before there is a histogram."""


class Bins(Settings):
    """Bins of equal width."""

    nbins: int | None = Field(default=None, gt=0, le=MOST_BINS)
    """How many; for whole numbers one per number."""
    low: float = Field(validation_alias=AliasChoices("low", "start"), allow_inf_nan=False)
    """Where the first begins."""
    high: float = Field(validation_alias=AliasChoices("high", "stop"), allow_inf_nan=False)
    """Where the last ends."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.low < self.high:
            raise _bad("'low' ({low}) must be below 'high' ({high})", low=self.low, high=self.high)
        if not math.isfinite(self.high - self.low):
            raise _bad("from 'low' ({low}) to 'high' ({high}) is too far for bins", low=self.low, high=self.high)
        return self


BinsOrList = Annotated[
    Annotated[Bins, Tag("bins")] | Annotated[tuple[int | float | str, ...], Tag("list")],
    Discriminator(lambda given: "bins" if isinstance(given, Mapping | Bins) else "list"),
]


class Axis(Settings):
    """An axis. A plain text is short for `{source: <text>}`; without bins, those customary for the name are taken."""

    short_forms: ClassVar = ({"type": "string"},)
    filled_in: ClassVar = ("name", "type", "source")

    name: str
    """In the histogram; the source if that is a plain column."""
    type: Annotated[AxisType, AlsoWritten({"enum": list(_TYPE_NAMES)})]
    """`regular`, `variable` (edges), `integer`, `category` or `boolean`; mostly clear from `bins`."""
    source: ExpressionText
    """A column or any expression; several values per event are all filled."""
    bins: BinsOrList | None = None
    """`{nbins, low, high}` or `[nbins, low, high]`; a list of edges; a list of categories. Categories and whole
    numbers without bins grow as values appear."""
    label: Annotated[str | None, Shown()] = None
    """For pictures, such as `m [GeV]`."""
    overflow: bool = True
    """Whether values outside the bins are counted beside them."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, given: Any) -> Any:  # Any: whatever the YAML holds
        if isinstance(given, str):
            given = {"source": given}
        if not isinstance(given, Mapping):
            return given
        axis = dict(given)
        if isinstance(axis.get("type"), str):
            axis["type"] = _TYPE_NAMES.get(axis["type"], axis["type"])
        if "source" not in axis and "name" in axis:
            axis["source"] = axis["name"]
        if "name" not in axis and isinstance(axis.get("source"), str):
            axis["name"] = re.sub(r"\W+", "_", axis["source"]).strip("_")
        if "type" not in axis:
            axis |= _assumed(str(axis.get("source", "")), axis.get("bins"))
        if axis["type"] in ("regular", "integer") and isinstance(axis.get("bins"), list | tuple):
            axis["bins"] = _from_list(axis["bins"])
        return axis

    @model_validator(mode="after")
    def _bins_fit(self) -> Self:
        if self.name in _RESERVED_NAMES:
            raise _bad("an axis cannot be named '{name}'", name=self.name)
        check = {"regular": self._regular, "variable": self._variable, "integer": self._integer}.get(self.type)
        if check is not None:
            check()
        elif self.type == "category" and isinstance(self.bins, Bins):
            raise _bad("the bins of a category axis are a list of categories")
        return self

    def _regular(self) -> None:
        if not isinstance(self.bins, Bins) or self.bins.nbins is None:
            raise _bad("a regular axis needs bins: {nbins, low, high} or [nbins, low, high]")

    def _variable(self) -> None:
        edges = self.bins if isinstance(self.bins, tuple) else ()
        numbers = [edge for edge in edges if isinstance(edge, int | float)]
        rising = all(a < b for a, b in pairwise(numbers))  # which it is not where one is not a number at all
        if len(numbers) < 2 or len(numbers) != len(edges) or not rising:
            raise _bad("a variable axis needs bins: a list of edges, each larger than the one before")
        if not all(map(math.isfinite, numbers)):
            raise _bad("the edges of a variable axis are finite: values beyond the last edge go to the overflow bin")

    def _integer(self) -> None:
        if self.bins is None:
            return
        if not isinstance(self.bins, Bins):
            raise _bad("an integer axis needs bins: {low, high}, or none at all")
        width = self.bins.high - self.bins.low
        if width > MOST_BINS:
            raise _bad("an integer axis has one bin per number: {width} are too many", width=int(width))
        if width != int(width) or self.bins.low != int(self.bins.low) or self.bins.nbins not in (None, int(width)):
            raise _bad("an integer axis has one bin per number: {low: 0, high: 20} has 20")

    @property
    def growing(self) -> bool:
        """Whether its categories are the values that appear."""
        return self.bins is None and self.type in ("category", "integer")

    @property
    def cut(self) -> str:
        """How it is cut into bins, in words; empty where the data decides."""
        match self.bins:
            case Bins(low=low, high=high, nbins=nbins):
                return f"{int(high - low) if nbins is None else nbins} bins from {low:g} to {high:g}"
            case tuple() as edges:
                return "edges " + ", ".join(str(float(edge)) for edge in edges)
        return "true and false" if self.type == "boolean" else ""

    @property
    def edges(self) -> tuple[float, ...] | None:
        """Where its bins begin and end; None where the data decides, or where there are very many."""
        match self.bins:
            case Bins(low=low, high=high, nbins=nbins):
                many = int(high - low) if nbins is None else nbins
                return tuple(regular_edges(many, low, high).tolist()) if many <= MOST_EDGES else None
            case tuple() as edges if self.type == "variable":
                return tuple(map(float, edges))
        return None


def _assumed(source: str, bins: Any) -> dict[str, Any]:  # Any: whatever the YAML holds
    """The type that the bins tell; with no bins, what is customary for the name."""
    if bins is None:
        return customary(source)
    if isinstance(bins, list | tuple):
        if any(isinstance(value, str) for value in bins):
            return {"type": "category"}
        rising = all(a < b for a, b in pairwise(bins))
        if len(bins) == 3 and isinstance(bins[0], int) and rising and bins[0] > 0:
            raise _bad("[{bins}] may be edges or nbins, low, high: set type: variable or regular", bins=str(bins)[1:-1])
        return {"type": "variable" if rising else "regular"}
    return {"type": "regular"}


def customary(column: str) -> dict[str, Any]:
    """Type and bins for a column of which only the name is known."""
    if _COUNTED.match(column):
        nbins, low, high = _COUNTS
        return {"type": "integer", "bins": {"nbins": nbins, "low": low, "high": high}}
    limits = next(limits for pattern, limits in CUSTOMARY if re.search(pattern, column.lower()))
    return {"type": "regular", "bins": dict(zip(("nbins", "low", "high"), limits, strict=True))}


def _from_list(bins: Any) -> Any:  # Any: whatever the YAML holds
    if len(bins) == 3:
        return dict(zip(("nbins", "low", "high"), bins, strict=True))
    return dict(zip(("low", "high"), bins, strict=True)) if len(bins) == 2 else bins


def _bad(message: str, **values: Any) -> PydanticCustomError:
    return PydanticCustomError("bad_axis", message, values or None)
