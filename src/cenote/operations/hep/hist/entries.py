"""Line up columns for filling: lists flattened, event values repeated, missing ones dropped, as plain numpy.

Columns stay views of what was read wherever that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions, is_array
from cenote.expressions.lists import common_counts, lists_of
from cenote.expressions.problems import EvaluationError
from cenote.jagged import ak, is_awkward
from cenote.operations.support.events import Column
from cenote.operations.support.missing_values import missing_values


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
