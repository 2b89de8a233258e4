"""Sum up the values that fill a histogram, beside the bins: what ROOT's mean, spread and number of entries are made of.

Compiled stages do the same, to the bit (`compiled/emit.py`): entry i is added to lane i % LANES, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.compiled.stage import LANES, lanes_added
from cenote.operations.hep.hist.filling import AxisFill
from cenote.operations.support.events import Column
from cenote.products.support import fill_sums
from cenote.products.support.fill_sums import Moment

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
    for fill in fills:
        if fill.numbers is None:
            extent = next(named)
            if np.max(fill.values, initial=0) >= extent:
                found.append(np.asarray(fill.values) < extent)
        elif not fill.working.traits.overflow:
            found.append(_inside(fill, fill.values))
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
