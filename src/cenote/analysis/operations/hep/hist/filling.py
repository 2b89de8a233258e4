"""Build histograms and fill them, at the speed of a hand-written fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.analysis.expressions.arrays import is_array, is_text
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.hist.axis import Axis, Bins
from cenote.analysis.operations.support.events import Column
from cenote.analysis.operations.support.lookup import regular_places
from cenote.analysis.products.histogram import MOST_CATEGORIES, too_many_categories
from cenote.analysis.products.support import fill_sums
from cenote.common.arrays import later
from cenote.common.values import dataclass

if TYPE_CHECKING:
    import boost_histogram as bh
    import hist
else:
    bh, hist = later("boost_histogram"), later("hist")

HistAxis = Any
"""Any axis of hist or boost-histogram; they have no common type."""

_NO_CATEGORY = int(np.iinfo(np.int64).min)
_LARGEST_CATEGORY = 2**31 - 1


@dataclass(frozen=True)
class AxisFill:
    """An axis as it will be, and what fills it."""

    axis: HistAxis
    """In the product."""
    working: HistAxis
    """While filling: categories are numbered, so that no text is compared per entry, and so are bins of equal width."""
    values: Column
    numbers: Column = None
    """What the entries are along a numeric axis, for their mean and spread; None along an axis of categories."""
    limits: tuple[float, float] = (0.0, 0.0)
    """Which `values` lie in the bins: from the first up to the second."""
    last_edge: bool = False
    """Whether the second limit itself belongs to the bins."""


def axis_fill(axis: Axis, values: Column) -> AxisFill:
    """Build an axis for these values (growing categories are those that appear, sorted: the order cannot depend
    on how the data were cut)."""
    names: dict[str, Any] = {"name": axis.name, "label": axis.label or ""}  # Any: hist's overloads
    flow: dict[str, Any] = {"underflow": axis.overflow, "overflow": axis.overflow}
    built: HistAxis
    match axis.type:
        case "regular" if isinstance(axis.bins, Bins) and axis.bins.nbins is not None:
            count, low, high = axis.bins.nbins, axis.bins.low, axis.bins.high
            built = hist.axis.Regular(count, low, high, **names, **flow)
            numbers = _numbers(axis, values)
            places = regular_places(numbers, count, low, high, overflow=axis.overflow)
            return AxisFill(built, bh.axis.Integer(0, count, **flow), places, numbers, (0, count))
        case "variable" if isinstance(axis.bins, tuple):
            edges = [float(edge) for edge in axis.bins]
            built, numbers = hist.axis.Variable(edges, **names, **flow), _numbers(axis, values)
            limits = edges[0], edges[-1]
            return AxisFill(built, built, numbers, numbers, limits, last_edge=not axis.overflow)
        case "integer" if isinstance(axis.bins, Bins):
            low, high = int(axis.bins.low), int(axis.bins.high)
            built = hist.axis.Integer(low, high, **names, **flow)
            whole = _whole_numbers(axis, _within(low, high, values), missing=high)
            return AxisFill(built, built, whole, _numbers(axis, values), (low, high))
        case "boolean":
            built = hist.axis.Boolean(**names)
            true = np.asarray(_numbers(axis, values)) != 0
            return AxisFill(built, built, true, true, (0, 2))
        case _:
            return _category_fill(axis, values, names)


def _category_fill(axis: Axis, values: Column, names: dict[str, Any]) -> AxisFill:
    texts = is_text(values)
    present = np.asarray(values if texts else _whole_numbers(axis, values, missing=_NO_CATEGORY))
    categories = list(axis.bins) if isinstance(axis.bins, tuple) else _appearing(axis, present)
    if categories:
        texts = isinstance(categories[0], str)
    kind: Any = hist.axis.StrCategory if texts else hist.axis.IntCategory
    flow = {"growth": True} if axis.growing else {"overflow": axis.overflow}
    built = kind(categories, **names, **flow)
    working = bh.axis.Integer(0, len(categories), underflow=False, overflow=not axis.growing and axis.overflow)
    return AxisFill(built, working, _positions(present, categories))


def _appearing(axis: Axis, present: Column) -> list[Any]:
    """The different values, sorted."""
    found = [value for value in np.unique(present).tolist() if value != _NO_CATEGORY]
    if len(found) > MOST_CATEGORIES:
        raise EvaluationError(too_many_categories(axis.name, len(found)))
    if found and not isinstance(found[0], str) and not -_LARGEST_CATEGORY <= found[0] <= found[-1] <= _LARGEST_CATEGORY:
        raise EvaluationError(f"axis '{axis.name}' has values that are too large for categories: give it type: regular")
    return found


def named_category(name: str, label: str, categories: Sequence[str], value: str) -> AxisFill:
    """An axis of known names (datasets, variations), filled at one of them."""
    built = hist.axis.StrCategory(list(categories), name=name, label=label, overflow=False)
    working = bh.axis.Integer(0, len(categories), underflow=False, overflow=False)
    return AxisFill(built, working, list(categories).index(value))


def _positions(present: Column, categories: list[Any]) -> Column:
    """Where each value stands among the categories; unknown ones come after the last."""
    order = np.argsort(categories, kind="stable") if categories else np.zeros(0, dtype=np.int64)
    known = np.asarray(categories)[order] if categories else np.zeros(0, dtype=present.dtype)
    if known.dtype.kind != present.dtype.kind and {known.dtype.kind, present.dtype.kind} & {"U"}:
        return np.full(present.shape, len(categories))
    places = np.searchsorted(known, present)
    inside = np.minimum(places, max(len(known) - 1, 0))
    found = known[inside] == present if len(known) else np.zeros(present.shape, dtype=np.bool_)
    positions = np.where(found, order[inside] if len(known) else 0, len(categories))
    return positions if positions.ndim else int(positions)


def _numbers(axis: Axis, values: Column) -> Column:
    if is_text(values):
        raise EvaluationError(f"axis '{axis.name}' is {axis.type}, but '{axis.source}' holds text: set type: category")
    return values.astype(np.uint8) if is_array(values) and values.dtype == np.bool_ else values


def as_weight(values: Column) -> Column:
    """A weight as a number; a condition weighs 1 where it holds."""
    if is_text(values):
        raise EvaluationError("a weight must be a number, this is text")
    return np.asarray(values, dtype=np.float64) if is_array(values) else float(values)


def _whole_numbers(axis: Axis, values: Column, *, missing: int) -> Column:
    numbers = np.asarray(_numbers(axis, values))
    if numbers.dtype.kind != "f":
        return numbers
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(numbers), np.floor(numbers), missing).astype(np.int64)


def _within(low: int, high: int, values: Column) -> Column:
    """Numbers beyond the bins, infinity and those of more than 32 bits among them, as the nearest one beyond."""
    if is_text(values):
        return values
    numbers = np.asarray(values)
    if numbers.dtype.kind == "u":
        numbers = np.minimum(numbers.astype(np.uint64), np.uint64(_LARGEST_CATEGORY))
    if numbers.dtype.kind != "f":
        numbers = numbers.astype(np.int64)
    return np.clip(numbers, low - 1, high)


def empty_histogram(axes: Sequence[HistAxis], *, weighted: bool) -> hist.Hist[Any]:
    """With sums of weights, or with counts; it carries sums of what will fill it."""
    made: hist.Hist[Any] = hist.Hist(*axes, storage=hist.storage.Weight() if weighted else hist.storage.Int64())
    fill_sums.begin(made)
    return made


def fill(product: hist.Hist[Any], fills: Sequence[AxisFill], weight: Column, size: int, place: int | None) -> int:
    """`hist.Hist.fill` costs 20 µs a call for naming axes; boost-histogram's own is called instead.

    What one of many variations costs does not depend on how many there are: only its `place` is touched. Returns how
    many entries there were.
    """
    values = [fill.values for fill in fills]
    if size == 0 or not all(np.size(value) for value in values):
        return 0
    if not any(is_array(value) for value in values):
        values[0] = np.full(np.shape(weight) if is_array(weight) else size, values[0])
    entries = max(np.size(value) for value in values)
    weighing = {} if weight is None else {"weight": weight}
    if place is None and all(fill.axis is fill.working for fill in fills):
        bh.Histogram.fill(product, *values, **weighing)
        return entries
    working = bh.Histogram(*(fill.working for fill in fills), storage=product.storage_type())
    working.fill(*values, **weighing)
    whole = product.view(flow=True)
    whole[... if place is None else (..., place)] += working.view(flow=True)
    return entries
