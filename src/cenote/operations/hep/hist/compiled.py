"""Write the compiled form of `hep.hist`: how axes find their bins, and what fills them."""

from __future__ import annotations

from functools import partial

import numpy as np

from cenote.compiled.problems import NotCompiledError
from cenote.compiled.stage import BinSearch
from cenote.compiled.values import Value
from cenote.operations.hep.hist import axis as settings
from cenote.operations.hep.hist.axis import Axis
from cenote.operations.hep.hist.filling import empty_histogram, named_category
from cenote.operations.hep.hist.operation import Hist, dataset_fill, is_dataset
from cenote.operations.support.stage_form import StageForm

_EXACT = 2**24
"""Whole numbers up to here are exact in fractions of 32 bits."""


def write_compiled(operation: Hist, form: StageForm) -> None:
    """Fill one histogram for these events."""
    axes, events, variations = operation.all_axes, form.events, operation.variations
    if not axes and operation.dataset_axis is not True:
        raise NotCompiledError("a histogram needs axes")
    along = [_axis(axis, form) for axis in axes]
    fills = [operation.axis_fill_of(axis, np.zeros(0), events) for axis in axes]
    if operation.dataset_axis is True:
        fills.insert(0, dataset_fill("dataset", "", events))
        along.insert(0, _at_dataset(form))
    labels = variations.labels if variations else ()
    if variations:
        fills.append(named_category(variations.axis, "", labels, labels[0]))
    if len({fill.axis.name for fill in fills}) < len(fills):
        raise NotCompiledError("two axes have one name")
    form.histograms.append(partial(empty_histogram, [fill.axis for fill in fills], weighted=operation.weighted))
    texts = operation.weights(events.dataset)
    weights = {label: None if text is None else form.number(form.value(text)) for label, text in texts.items()}
    given = [*(value for _, value in along), *(weight for weight in weights.values() if weight is not None)]
    space = form.lists(given)  # lists of one weight decide about the entries of all of them
    for label, weight in weights.items():
        varied = [] if label is None else [(_fixed(len(labels), labels.index(label)), form.number(0))]
        form.fill(0, [*along, *varied], weight, space, weighted=operation.weighted)
    form.product = lambda results: results.histograms[0]


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
            return BinSearch("regular", count, axis.overflow, low, high)
        case "variable", tuple(edges):
            return BinSearch("variable", len(edges) - 1, axis.overflow, edges=tuple(map(float, edges)))
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
