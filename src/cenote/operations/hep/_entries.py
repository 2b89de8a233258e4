"""This file lines up columns for filling: lists flattened, event values repeated, missing ones dropped, as plain numpy.

Columns stay views of what was read wherever that is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions, is_array
from cenote.expressions.problems import EvaluationError
from cenote.operations.events import Column

Values = NDArray[Any]


@dataclass(frozen=True)
class _Lists:
    """A jagged column taken apart."""

    content: Column
    """One-dimensional, maybe with missing values."""
    counts: NDArray[np.int64]


def aligned(columns: Sequence[Column], names: Sequence[str], size: int) -> list[Column]:
    """Columns as numpy arrays of one length, entry for entry; scalars stay scalars. `names` are for errors."""
    if any(dimensions(column) > 2 for column in columns):
        columns = _same_depth(columns)
    lists = {place: _lists(column) for place, column in enumerate(columns) if dimensions(column) > 1}
    counts = _common_counts([(names[place], lists[place]) for place in lists])
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
    return _where_all_there(found)


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
    if not isinstance(column, ak.Array):
        return np.asarray(column), None
    if not column.layout.is_option and not column.layout.is_indexed:
        return ak.to_numpy(column), None
    masked = ak.to_numpy(column)
    if not isinstance(masked, np.ma.MaskedArray):
        return masked, None
    return np.asarray(masked.data), ~np.ma.getmaskarray(masked)


def _lists(column: Column) -> _Lists:
    if isinstance(column, np.ndarray):
        rows, width = column.shape
        return _Lists(column.reshape(-1), np.full(rows, width, dtype=np.int64))
    layout = column.layout
    if isinstance(layout, ak.contents.ListArray):
        layout = layout.to_ListOffsetArray64(True)
    if isinstance(layout, ak.contents.ListOffsetArray):
        offsets = np.asarray(layout.offsets)
        content = layout.content[int(offsets[0]) : int(offsets[-1])]
        return _Lists(ak.Array(content), np.diff(offsets))
    counts = ak.to_numpy(ak.fill_none(ak.num(column, axis=1), 0))
    return _Lists(ak.flatten(column, axis=1), counts)


def _common_counts(lists: Sequence[tuple[str, _Lists]]) -> NDArray[np.int64] | None:
    if not lists:
        return None
    first_name, first = lists[0]
    for name, other in lists[1:]:
        if other.counts is not first.counts and not np.array_equal(other.counts, first.counts):
            raise EvaluationError(f"'{first_name}' and '{name}' have different numbers of elements in the same event")
    return first.counts


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
