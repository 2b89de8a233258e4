"""Read a histogram for drawing: which axes it has, and the numbers along the ones that are drawn."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cenote.common import errors
from cenote.common.values import dataclass

Flow = Literal["none", "show", "sum", "hint"]
"""Under- and overflow: left out, shown as bins of their own, added to the outermost bins, or marked by arrows."""
Floats = NDArray[np.float64]

DATASET_AXES = frozenset({"dataset", "dataset_name"})
NOMINAL = "nominal"
MOST_TICKS = 25
"""Whole-number axes with more bins than this get ordinary ticks."""


@dataclass(frozen=True, eq=False)
class BinAxis:
    """An axis as it is drawn."""

    name: str
    label: str
    edges: Floats
    ticks: tuple[str, ...] | None = None
    """A label for each bin, for axes of categories; None for a continuous axis."""
    flow: tuple[bool, bool] = (False, False)
    """Whether the first and the last bin are the underflow and the overflow, drawn as bins of their own."""

    @property
    def centres(self) -> Floats:
        """The middle of each bin."""
        return (self.edges[1:] + self.edges[:-1]) / 2

    @property
    def widths(self) -> Floats:
        """The width of each bin."""
        return np.diff(self.edges)

    @property
    def unit(self) -> str | None:
        """`GeV` of a label `m [GeV]`."""
        found = re.search(r"[\[(]\s*([^\])]+?)\s*[\])]\s*$", self.label)
        return found.group(1) if found else None

    @property
    def per_bin(self) -> str:
        """What one bin covers, for the label of the vertical axis: ` / 2 GeV`."""
        if self.ticks is not None:
            return ""
        widths = self.widths[self.flow[0] : len(self.widths) - self.flow[1]]
        if not np.allclose(widths, widths[0], rtol=1e-6):
            return " / bin"
        width = f"{self.widths[len(self.widths) // 2]:.4g}"
        parts = [width] if width != "1" else []
        return " ".join([" /", *parts, self.unit]) if self.unit else "".join(f" / {part}" for part in parts)


@dataclass(frozen=True, eq=False)
class BinCounts:
    """Contents of the bins and their variances; all finite."""

    values: Floats
    variances: Floats
    weighted: bool = False
    broken: int = 0
    """Bins that were not finite and are drawn as empty."""

    @property
    def total(self) -> float:
        """The sum of all bins."""
        return float(self.values.sum())

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it."""
        return not self.values.any() and not self.variances.any()

    @property
    def errors(self) -> Floats:
        """One standard deviation of each bin, symmetric."""
        return np.sqrt(self.variances)

    @property
    def are_counts(self) -> bool:
        """Whether the bins hold whole numbers of unweighted events."""
        return bool((self.values >= 0).all() and (self.values == np.rint(self.values)).all()) and bool(
            np.array_equal(self.values, self.variances)
        )

    def plus(self, other: BinCounts) -> BinCounts:
        """Both together."""
        return BinCounts(
            self.values + other.values,
            self.variances + other.variances,
            self.weighted or other.weighted,
            self.broken + other.broken,
        )

    def times(self, factor: float | Floats) -> BinCounts:
        """Scaled; the uncertainties scale along."""
        return BinCounts(self.values * factor, self.variances * np.square(factor), weighted=True, broken=self.broken)


@dataclass(frozen=True)
class Roles:
    """Which axis of a histogram (by position) plays which part."""

    dataset: int | None
    variation: int | None
    free: tuple[int, ...]
    """The axes that can be drawn."""


def roles(histogram: Any, datasets: Collection[str], *, wanted: Collection[str] = ()) -> Roles:
    """Tell apart the dataset axis, the axis of variations (it has a `nominal`), and the rest.

    Axes that a style asks for by name (`wanted`) are drawn, whatever they look like.
    """
    dataset = variation = None
    free = []
    for index, axis in enumerate(histogram.axes):
        categories = _categories(axis)
        is_dataset = axis.name in DATASET_AXES or (bool(categories) and set(categories or ()) <= set(datasets))
        if axis.name in wanted or categories is None:
            free.append(index)
        elif is_dataset and dataset is None:
            dataset = index
        elif NOMINAL in categories and variation is None:
            variation = index
        else:
            free.append(index)
    return Roles(dataset, variation, tuple(free))


def _categories(axis: Any) -> list[str] | None:
    """The names along an axis of text categories; None for every other axis."""
    names = [] if axis.size == 0 and not axis.traits.ordered else list(axis)
    if axis.traits.ordered or axis.traits.continuous or not all(isinstance(name, str) for name in names):
        return None
    return names


def axis_called(histogram: Any, name: str, free: Sequence[int], *, stage: str) -> int:
    """The position of the axis of this name; a name that is not there is an error that lists those that are."""
    names = {histogram.axes[index].name: index for index in free}
    if name in names:
        return names[name]
    message = f"the histogram of stage '{stage}' has no axis '{name}' to draw"
    raise errors.CenoteError(errors.unknown_name(errors.RENDER_FAILED, message, name, names, what="axes"))


def only(histogram: Any, name: str, wanted: Sequence[str], *, stage: str) -> Any:
    """The histogram with these categories of an axis alone, in this order."""
    axes = {axis.name: axis for axis in histogram.axes if _categories(axis) is not None}
    if name not in axes:
        words = f"the histogram of stage '{stage}' has no axis of categories '{name}' to select from"
        raise errors.CenoteError(errors.unknown_name(errors.RENDER_FAILED, words, name, axes, what="axes"))
    there = list(axes[name])
    for one in wanted:
        if one not in there:
            words = f"the axis '{name}' of the histogram of stage '{stage}' has no '{one}'"
            raise errors.CenoteError(errors.unknown_name(errors.RENDER_FAILED, words, one, there, what="categories"))
    return _of_categories(histogram, [axis.name for axis in histogram.axes].index(name), wanted)


def _of_categories(histogram: Any, position: int, wanted: Sequence[str]) -> Any:
    """A copy with these categories of the axis at this position; hist's own way to pick them is called experimental."""
    import hist

    axis, axes = histogram.axes[position], list(histogram.axes)
    axes[position] = hist.axis.StrCategory(list(wanted), name=axis.name, label=axis.label, growth=True)  # no overflow
    found = hist.Hist(*axes, storage=histogram.storage_type())
    taken = [list(axis).index(one) for one in wanted]
    found.view(flow=True)[...] = np.take(histogram.view(flow=True), taken, axis=position)
    return found


def dataset_names(histogram: Any, roles: Roles) -> list[str]:
    """The datasets along the dataset axis; empty without one."""
    return [] if roles.dataset is None else list(histogram.axes[roles.dataset])


def bin_axis(axis: Any, *, label: str | None = None, flow: Flow = "none") -> BinAxis:
    """An axis of a histogram as it is drawn."""
    text = label or axis.label or axis.name
    if axis.traits.continuous:
        edges = np.asarray(axis.edges, dtype=np.float64)
        under, over = (flow == "show" and bool(there) for there in (axis.traits.underflow, axis.traits.overflow))
        pad = (edges[-1] - edges[0]) / max(12, min(len(edges) - 1, 20))
        outer = [edges[0] - pad] * under, [edges[-1] + pad] * over
        return BinAxis(axis.name, text, np.array([*outer[0], *edges, *outer[1]]), flow=(under, over))
    if axis.traits.ordered and axis.size > MOST_TICKS:
        return BinAxis(axis.name, text, np.asarray(axis.edges, dtype=np.float64) - 0.5)
    return BinAxis(axis.name, text, np.arange(max(axis.size, 1) + 1) - 0.5, ticks=_tick_labels(axis))


def _tick_labels(axis: Any) -> tuple[str, ...]:
    if axis.size == 0:
        return ("",)
    values = [list(axis)[index] for index in _drawing_order(axis)]
    if type(axis).__name__ == "Boolean":
        return tuple("true" if value else "false" for value in values)
    return tuple(str(value) for value in values)


def _drawing_order(axis: Any) -> list[int]:
    """Numbers in ascending order, whatever came first when filling; texts as they are."""
    values = list(axis)
    if all(isinstance(value, int) for value in values):
        return sorted(range(len(values)), key=values.__getitem__)
    return list(range(len(values)))


def counts_along(
    histogram: Any, drawn: Sequence[int], picked: Mapping[int, str | None], *, flow: Flow = "none"
) -> BinCounts:
    """The numbers along the drawn axes. Of a picked axis one category is taken, all others are summed over."""
    values = np.asarray(histogram.values(flow=True), dtype=np.float64)
    found = histogram.variances(flow=True)
    variances = np.abs(values) if found is None else np.asarray(found, dtype=np.float64)
    broken = ~(np.isfinite(values) & np.isfinite(variances))
    planes = [np.where(broken, 0.0, values), np.where(broken, 0.0, variances), broken.astype(np.float64)]
    for index in reversed(range(len(histogram.axes))):
        if index in drawn:
            continue
        name = picked.get(index)
        if name is None:
            planes = [plane.sum(axis=index) for plane in planes]
        else:
            position = list(histogram.axes[index]).index(name)
            planes = [plane.take(position, axis=index) for plane in planes]
    for position, index in enumerate(sorted(drawn)):
        planes = [_arranged(plane, histogram.axes[index], position, flow) for plane in planes]
    if list(drawn) != sorted(drawn):
        planes = [plane.T for plane in planes]
    weighted = "Weight" in histogram.storage_type.__name__
    return BinCounts(planes[0], planes[1], weighted, int(np.count_nonzero(planes[2])))


def _arranged(plane: Floats, axis: Any, position: int, flow: Flow) -> Floats:
    """The bins of one axis in drawing order, with its under- and overflow kept, folded in, or left out."""
    under, over = bool(axis.traits.underflow), bool(axis.traits.overflow)
    moved = np.moveaxis(plane, position, 0)
    if axis.size == 0:
        return np.moveaxis(np.zeros((1, *moved.shape[1:])), 0, position)
    inner = moved[under : under + axis.size].copy()
    if not axis.traits.continuous:
        if not (axis.traits.ordered and axis.size > MOST_TICKS):
            inner = inner[_drawing_order(axis)]
    elif flow == "sum":
        inner[0] += moved[0] if under else 0.0
        inner[-1] += moved[-1] if over else 0.0
    elif flow == "show":
        inner = moved
    return np.moveaxis(inner, 0, position)


def beyond(histogram: Any, index: int) -> tuple[bool, bool]:
    """Whether there is anything below and above the bins of an axis."""
    axis, values = histogram.axes[index], np.moveaxis(np.asarray(histogram.values(flow=True)), index, 0)
    under, over = axis.traits.underflow, axis.traits.overflow and axis.traits.continuous
    return bool(under and values[0].any()), bool(over and values[-1].any())


def nice_number(value: float) -> str:
    """`12 345`, `3.21`, `1.2e+07`: short enough for a legend."""
    if value == 0 or not math.isfinite(value):
        return "0"
    if 100 <= abs(value) < 1e7:
        return f"{value:,.0f}".replace(",", "\N{THIN SPACE}" if abs(value) >= 1e4 else "")
    return f"{value:.3g}"
