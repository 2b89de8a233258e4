"""Write the compiled form of `hep.hist`: how axes find their bins, and what fills them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from cenote.analysis.compiled.stage import BinSearch, StageResults
from cenote.analysis.compiled.values import NotCompiledError, Value
from cenote.analysis.operations.hep.hist import axis as settings
from cenote.analysis.operations.hep.hist.axis import Axis
from cenote.analysis.operations.hep.hist.filling import empty_histogram, named_category
from cenote.analysis.operations.hep.hist.fillings import Filling
from cenote.analysis.operations.hep.hist.operation import Hist, is_dataset
from cenote.analysis.operations.support.lookup import guess_is_near, regular_edges
from cenote.analysis.operations.support.stage_form import StageForm
from cenote.analysis.operations.support.varied import with_replaced
from cenote.analysis.products.support import fill_sums
from cenote.analysis.products.support.fill_sums import Moment

_EXACT = 2**24
"""Whole numbers up to here are exact in fractions of 32 bits."""


def write_compiled(operation: Hist, form: StageForm) -> None:
    """Fill one histogram for these events."""
    axes, events, labels = operation.all_axes, form.events, operation.labels
    if not axes and operation.dataset_axis is not True:
        raise NotCompiledError("a histogram needs axes")
    fills = operation.axis_fills([np.zeros(0)] * len(axes), events)
    if labels:
        fills.append(named_category(operation.variation_axis, "", labels, labels[0]))
    if len({fill.axis.name for fill in fills}) < len(fills):
        raise NotCompiledError("two axes have one name")
    form.histograms.append(partial(empty_histogram, [fill.axis for fill in fills], weighted=operation.weighted))
    fillings = operation.fillings_for(events.dataset)
    own = [one for one in fillings if not one.shifted]
    for together in [*([own] if own else []), *([one] for one in fillings if one.shifted)]:
        _fill_together(operation, form, together)
    form.product = lambda results: operation.completed(_with_sums(results), events.dataset)


def _with_sums(results: StageResults) -> Any:  # Any: hist publishes no types
    """The histogram, with the sums of what filled it."""
    histogram = results.histograms[0]
    for fill, found in results.fills.items():
        place = tuple(int(bins.low) for bins in fill.bins if bins.kind == "fixed")
        fill_sums.add(histogram, place, found.entries, found.sums)
    fill_sums.seal(histogram)
    return histogram


def _fill_together(operation: Hist, form: StageForm, fillings: Sequence[Filling]) -> None:
    """Fill with the same entries: lists of one weight decide about those of all of them."""
    events, labels = form.events, operation.labels
    form.events = with_replaced(events, fillings[0].columns)
    hist = fillings[0].hist or operation
    along = [_axis(axis, form) for axis in hist.all_axes]
    if hist.dataset_axis is True:
        along.insert(0, _at_dataset(form))
    weights = [None if one.weight is None else form.number(form.value(one.weight)) for one in fillings]
    space = form.lists([*(value for _, value in along), *(weight for weight in weights if weight is not None)])
    for one, weight in zip(fillings, weights, strict=True):
        place = [] if one.label is None else [(_fixed(len(labels), labels.index(one.label)), form.number(0))]
        axes = [*along, *place]
        form.fill(0, axes, weight, space, weighted=operation.weighted, moments=_moments([bins for bins, _ in axes]))
    form.events = events


def _moments(along: Sequence[BinSearch]) -> tuple[Moment, ...]:
    """Those of the numeric axes, as places among all axes."""
    numeric = [number for number, bins in enumerate(along) if bins.kind != "fixed"]
    return tuple(tuple(numeric[axis] for axis in moment) for moment in fill_sums.moments_of(len(numeric)))


def _axis(axis: Axis, form: StageForm) -> tuple[BinSearch, Value]:
    if is_dataset(axis):
        return _at_dataset(form)
    value = form.value(axis.source)
    column = value if isinstance(value, Value) else form.number(value)
    return _bins(axis, column), column


def _at_dataset(form: StageForm) -> tuple[BinSearch, Value]:
    names = form.events.datasets or (form.events.dataset.name,)
    return _fixed(len(names), names.index(form.events.dataset.name)), form.number(0)


def _bins(axis: Axis, value: Value) -> BinSearch:
    """How an axis finds the bin of a value."""
    match axis.type, axis.bins:
        case "regular", settings.Bins(nbins=int(count), low=low, high=high):
            kind = "regular" if guess_is_near(count, low, high) else "variable"
            return BinSearch(kind, count, axis.overflow, low, high, regular_edges(count, low, high))
        case "variable", tuple(edges):
            return BinSearch("variable", len(edges) - 1, axis.overflow, edges=np.array(edges, dtype=np.float64))
        case "integer", settings.Bins(low=low, high=high):
            if value.dtype.kind == "f" and max(abs(low), abs(high)) >= _EXACT:
                raise NotCompiledError(f"axis '{axis.name}' has large whole numbers")
            return BinSearch("integer", int(high) - int(low), axis.overflow, low, high)
        case "boolean", _:
            return BinSearch("boolean", 2, flow=False)
    raise NotCompiledError(f"axis '{axis.name}' has categories")


def _fixed(count: int, place: int) -> BinSearch:
    """An axis of known names, filled at one of them."""
    return BinSearch("fixed", count, flow=False, low=place)
