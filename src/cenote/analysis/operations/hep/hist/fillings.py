"""Fill one histogram several times, per weight and per variation, and sum up what filled it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.compiled.stage import LANES, lanes_added
from cenote.analysis.expressions.arrays import common_counts, dimensions, is_array, lists_of
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.hist.filling import AxisFill, as_weight, empty_histogram, fill, named_category
from cenote.analysis.operations.support.evaluation import missing_values
from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.analysis.operations.support.varied import with_replaced
from cenote.analysis.products.histogram import HistogramProduct
from cenote.analysis.products.support import fill_sums
from cenote.analysis.products.support.fill_sums import Moment
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass
from cenote.language.systematics import NOMINAL, Fillings, Shift

if TYPE_CHECKING:
    from cenote.analysis.operations.hep.hist.operation import Hist


# Sum up the values that fill a histogram, beside the bins: what ROOT's mean, spread and number of entries are made
# of.
#
# Compiled stages do the same, to the bit (`compiled/emit.py`): entry i is added to lane i % LANES, in order.


_ROWS = 512
"""Rows of lanes that are added together: what is computed on the way stays in the processor's cache."""
Floats = NDArray[np.float64]


def add_sums(product: Any, fills: Sequence[AxisFill], weight: Column, size: int, place: int | None) -> None:
    """Add the entries of one filling to the sums that a histogram carries. Any: hist publishes no types.

    There are `size` of them; `place` is where along the axis of variations, if there is one.
    """
    moments = fill_sums.moments(product.axes)
    if not moments or not size:
        return
    extents = [axis.extent for axis in product.axes if fill_sums.is_category(axis)]
    there = _with_bins(fills, extents)
    if there is not None:
        there = np.broadcast_to(there, size)
        size, weight = int(np.count_nonzero(there)), _of(weight, there)
        fills = [replace(fill, values=_of(fill.values, there), numbers=_of(fill.numbers, there)) for fill in fills]
        if not size:
            return
    numeric = [fill for fill in fills if fill.numbers is not None]
    names = [fill.values for fill in fills if fill.numbers is None]
    places = () if place is None else (place,)
    if any(np.ndim(name) for name in names):
        along = extents[: len(names)]
        flat = np.ravel_multi_index([np.broadcast_to(name, size) for name in names], along)
        terms = np.empty((len(moments), size))
        _write_terms(numeric, weight, moments, slice(None), terms)
        many = int(np.prod(along))
        sums = np.stack([np.bincount(flat, term, minlength=many) for term in terms], axis=-1)
        entries = np.bincount(flat, minlength=many).reshape(along)
        fill_sums.add(product, (..., *places), entries, sums.reshape(*along, len(moments)))
    else:
        where = (*(int(name) for name in names), *places)
        fill_sums.add(product, where, size, lanes_added(_in_lanes(numeric, weight, moments, size)))


def _with_bins(fills: Sequence[AxisFill], extents: Sequence[int]) -> Any:
    """Which entries have a bin at all: without overflow, not all do. None where all of them have."""
    found: list[Any] = []
    named = iter(extents)
    for one in fills:
        if one.numbers is None:
            extent = next(named)
            if np.max(one.values, initial=0) >= extent:
                found.append(np.asarray(one.values) < extent)
        elif not one.working.traits.overflow:
            found.append(_inside(one, one.values))
    return np.logical_and.reduce(np.broadcast_arrays(*found)) if found else None


def _inside(fill: AxisFill, values: Any) -> Any:
    """Which values lie in the bins: an array, or one answer for all."""
    low, high = fill.limits
    inside = (values >= low) & (values < high)
    return inside | (values == high) if fill.last_edge else inside


def _of(values: Column, there: Any) -> Column:
    return values[there] if np.ndim(values) else values


def _in_lanes(numeric: Sequence[AxisFill], weight: Column, moments: Sequence[Moment], size: int) -> Floats:
    """The sums of each moment, lane by lane. The first of the rows has what was added up before."""
    rows = np.empty((len(moments), min(_ROWS, -(-size // LANES)) + 1, LANES))
    flat, step = rows.reshape(len(moments), -1), (rows.shape[1] - 1) * LANES
    rows[:, 0] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, size, step):
            used = LANES + min(step, size - start)
            _write_terms(numeric, weight, moments, slice(start, start + step), flat[:, LANES:used])
            flat[:, used:] = 0.0
            for own in rows:
                own[0] = np.add.reduce(own, axis=0)  # row by row, as a loop over entries would
    return rows[:, 0]


def _write_terms(
    numeric: Sequence[AxisFill], weight: Column, moments: Sequence[Moment], part: slice, terms: Floats
) -> None:
    """Write what each of these entries adds to each moment: nothing where it lies beyond the bins."""
    values = [np.array(_of(fill.numbers, part), dtype=np.float64) for fill in numeric]
    within: Any = np.logical_and.reduce([_inside(fill, _of(fill.values, part)) for fill in numeric])
    weights = None if weight is None else np.asarray(_of(weight, part))
    if not within.all():
        beyond = ~within
        values = [np.where(within, one, 0.0) if not one.ndim else one for one in values]
        for one in values:
            np.copyto(one, 0.0, where=beyond)
        weights = None if weights is None else np.where(within, weights, 0.0)
    done: dict[Moment, Floats] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for moment, term in zip(moments, terms, strict=True):
            before, last = done.get(moment[:-1], weights), values[moment[-1]]
            if before is None:
                term[...] = last
            else:
                np.multiply(before, last, out=term)
            done[moment] = term


_AT_ONCE = 16
"""Weights that are evaluated together, where nothing but their own values depends on them."""


@dataclass(frozen=True)
class Weight:
    """What entries count in a filling."""

    text: str
    label: str | None

    @property
    def in_words(self) -> str:
        """As errors call it."""
        return f"the weight '{self.text}'" + (f" of '{self.label}'" if self.label is not None else "")


@dataclass(frozen=True)
class Filling:
    """One filling of a histogram."""

    label: str | None
    """Where along the axis of variations; None where there is no such axis."""
    weight: str | None
    """None: every entry counts 1."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Column → the column that is read instead."""
    hist: Hist | None = None
    """The operation whose axes are filled, where the variation changes its settings."""
    shifted: bool = False
    """Whether it is a variation's of the workflow: equal to what a workflow of its own would fill."""

    @property
    def plain(self) -> bool:
        """Whether the axes are filled as usual."""
        return not self.columns and self.hist is None


def with_systematics(
    operation: Hist, own: Sequence[Filling], fillings: Fillings, dataset: DatasetInfo
) -> list[Filling]:
    """How a dataset fills a histogram that variations of the workflow change."""
    if fillings.label is not None:
        return [
            Filling(fillings.label, _multiplied(_nominal_weight(operation), fillings.factors, operation), shifted=True)
        ]
    shifts = {shift.label: shift for shift in fillings.shifts if dataset.own_name in shift.datasets}
    if dataset.stands_in:
        nominal = Shift(NOMINAL)
        labels = fillings.instead.get(dataset.own_name, ())
        return [_shifted(operation, shifts.get(label, nominal), label) for label in labels]
    usual = [Filling(NOMINAL if one.label is None else one.label, one.weight) for one in own]
    return [*usual, *(_shifted(operation, shift, shift.label) for shift in shifts.values())]


def _shifted(operation: Hist, shift: Shift, label: str) -> Filling:
    changed = None if shift.params is None else type(operation).model_validate(shift.params).for_stage(operation.stage)
    weight = _multiplied(_nominal_weight(changed or operation), shift.factors, operation)
    return Filling(label, weight, shift.columns, changed, shifted=True)


def _nominal_weight(operation: Hist) -> str | None:
    if not operation.weighted:
        return None
    varied = operation.variations.weights if operation.variations else {}
    return varied.get(NOMINAL, operation.weight_expr)


def _multiplied(weight: str | None, factors: Sequence[str], operation: Hist) -> str | None:
    """A weight times factors, as one would write it."""
    if not factors or not operation.weighted:
        return weight
    return " * ".join(f"({text})" for text in (*([weight] if weight is not None else []), *factors))


def filled_with(operation: Hist, fillings: Sequence[Filling], events: Events) -> Any:  # Any: hist publishes no types
    """The histogram of these events, filled one after the other: weights need not be in memory at the same time."""
    parts: list[Any] = []
    for batch in _batches(fillings, events):
        seen = with_replaced(events, batch[0].columns)
        hist = batch[0].hist or operation
        groups = _groups([Weight(one.weight, one.label) for one in batch if one.weight is not None], seen) or [[]]
        first = hist.aligned(groups[0], seen)
        fills = hist.axis_fills(first, seen)
        if not parts or any(one.axis.traits.growth for one in fills):
            parts.append(_empty(operation, [one.axis for one in fills]))
        weights = _weights(hist, groups, first, seen)
        for one in batch:
            weight = None if one.weight is None else as_weight(next(weights))
            place = None if one.label is None else operation.labels.index(one.label)
            entries = fill(parts[-1], fills, weight, events.size, place=place)
            add_sums(parts[-1], fills, weight, entries, place)
    if not parts:
        fills = operation.axis_fills(operation.aligned([], events), events)
        return _empty(operation, [one.axis for one in fills])
    for part in parts:
        fill_sums.seal(part)
    return HistogramProduct().merge(parts)


def _weights(hist: Hist, groups: Sequence[Sequence[Weight]], first: Sequence[Column], seen: Events) -> Iterator[Column]:
    """The weights of all groups; those of the first were lined up with the axes."""
    axes = len(hist.all_axes)
    yield from first[axes:]
    for group in groups[1:]:
        yield from hist.aligned(group, seen)[axes:]


def _empty(operation: Hist, axes: Sequence[Any]) -> Any:
    labels = operation.labels
    varied = [named_category(operation.variation_axis, "", labels, labels[0]).axis] if labels else []
    return empty_histogram([*axes, *varied], weighted=operation.weighted)


def _batches(fillings: Sequence[Filling], events: Events) -> Iterator[Sequence[Filling]]:
    """Fillings whose axes have the same entries."""
    usual = [one for one in fillings if one.plain]
    alone = all(_is_plain(one.weight, events) for one in usual)
    together = [one for one in usual if alone or not one.shifted]
    if together:
        yield together
    yield from ([one] for one in fillings if one not in together)


def _is_plain(weight: str | None, events: Events) -> bool:
    """Whether a weight is one number per event: it decides about no entries then."""
    names = [] if weight is None else [name for name in expression(weight).names if name in events]
    return all(isinstance(events[name], np.ndarray) and events[name].ndim == 1 for name in names)


def _groups(weights: Sequence[Weight], events: Events) -> list[Sequence[Weight]]:
    """Weights of one number per event in groups, to be in memory one group after the other.

    Lists and missing values of one weight decide about the entries of all of them: these stay together.
    """
    alone = all(_is_plain(weight.text, events) for weight in weights)
    step = _AT_ONCE if alone else max(1, len(weights))
    return [weights[start : start + step] for start in range(0, len(weights), step)]


# Line up columns for filling: lists flattened, event values repeated, missing ones dropped, as plain numpy.
#
# Columns stay views of what was read wherever that is possible.


def aligned(columns: Sequence[Column], names: Sequence[str], size: int, weights: Sequence[str] = ()) -> list[Column]:
    """Columns as numpy arrays of one length, entry for entry; scalars stay scalars. `names` are for errors.

    The last columns are `weights`, by what errors call them: one that is missing for an entry would drop it silently.
    """
    if any(dimensions(column) > 2 for column in columns):
        columns = _same_depth(columns)
    lists = {place: lists_of(column) for place, column in enumerate(columns) if dimensions(column) > 1}
    counts = common_counts([(names[place], lists[place]) for place in lists])
    found: list[tuple[Column, NDArray[np.bool_] | None]] = []
    for place, column in enumerate(columns):
        if place in lists:
            found.append(_without_missing(lists[place].content))
        elif is_array(column):
            if len(column) != size:
                raise EvaluationError(f"'{names[place]}' has {len(column)} values for {size} events")
            values, there = _without_missing(column)
            found.append((values, there) if counts is None else (_repeated(values, counts), _repeated(there, counts)))
        else:
            found.append((column, None))
    _demand_weights(found, weights)
    return _where_all_there(found)


def _demand_weights(found: list[tuple[Column, NDArray[np.bool_] | None]], weights: Sequence[str]) -> None:
    masks = [there for _, there in found]
    axes = len(found) - len(weights)
    for what, there in zip(weights, masks[axes:], strict=True):
        if there is None:
            continue
        entries: NDArray[np.bool_] = reduce(
            np.logical_and, (mask for mask in masks[:axes] if mask is not None), np.ones(len(there), np.bool_)
        )
        if missing := int(np.count_nonzero(entries & ~there)):
            raise missing_values(what, missing, int(np.count_nonzero(entries)), "entries")


def _repeated(values: Column, counts: NDArray[np.int64]) -> Column:
    return None if values is None else np.repeat(values, counts)


def _where_all_there(found: list[tuple[Column, NDArray[np.bool_] | None]]) -> list[Column]:
    masks = [there for _, there in found if there is not None]
    if not masks:
        return [values for values, _ in found]
    there = np.logical_and.reduce(masks)
    return [values[there] if is_array(values) else values for values, _ in found]


def _without_missing(column: Column) -> tuple[Column, NDArray[np.bool_] | None]:
    """Values, and which of them are there (None: all)."""
    if not is_awkward(column):
        return np.asarray(column), None
    if not column.layout.is_option and not column.layout.is_indexed:
        return ak.to_numpy(column), None
    masked = ak.to_numpy(column)
    if not isinstance(masked, np.ma.MaskedArray):
        return masked, None
    return np.asarray(masked.data), ~np.ma.getmaskarray(masked)


def _same_depth(columns: Sequence[Column]) -> list[Column]:
    """Lists of lists: everything is repeated to the deepest level, then opened down to one list per event."""
    arrays = {place: column for place, column in enumerate(columns) if is_array(column)}
    broadcast = dict(zip(arrays, ak.broadcast_arrays(*arrays.values()), strict=True))
    return [
        _one_list_per_event(broadcast[place]) if place in arrays else column for place, column in enumerate(columns)
    ]


def _one_list_per_event(column: Column) -> Column:
    while dimensions(column) > 2:
        column = ak.flatten(column, axis=2)
    return column
