"""Put events together: branches of the workflow side by side, partitions one after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.analysis.operations.support.events import Column, Events
from cenote.common.arrays import ak


def side_by_side(branches: Sequence[Events]) -> Events:
    """The events that every branch kept, with the columns of all of them."""
    first, *others = branches
    for other in others:
        first = _joined(first, other)
    return first


def _joined(one: Events, other: Events) -> Events:
    if _same_events(one.index, other.index):
        return replace(one, columns={**one.columns, **other.columns})
    rows_one, rows_other = _rows(one), _rows(other)
    if any(len(rows) and np.any(np.diff(rows) <= 0) for rows in (rows_one, rows_other)):
        raise ValueError("one of the branches has several rows for an event (explode): they cannot be joined again")
    common = np.intersect1d(rows_one, rows_other, assume_unique=True)
    from_one = _taken(one, np.searchsorted(rows_one, common))
    from_other = _taken(other, np.searchsorted(rows_other, common))
    return replace(one, columns={**from_one, **from_other}, size=len(common), index=common)


def _same_events(one: Column | None, other: Column | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _rows(events: Events) -> Any:
    return np.arange(events.size) if events.index is None else events.index


def _taken(events: Events, rows: Any) -> dict[str, Column]:
    return {name: column[rows] for name, column in events.columns.items()}


def rows_of(events: Events, first: int, last: int) -> Events:
    """The events of a partition whose entry numbers within it are in [first, last)."""
    rows = _rows(events)
    return replace(events, index=rows).where((rows >= first) & (rows < last))


def put_together(pieces: Sequence[Events]) -> Events:
    """The events of a partition again, from pieces of it in order."""
    columns = {name: _concatenated([piece[name] for piece in pieces]) for name in pieces[0].columns}
    index = np.concatenate([_rows(piece) for piece in pieces])
    return replace(pieces[0], columns=columns, size=len(index), index=index)


def one_after_the_other(parts: Sequence[Events], names: Collection[str]) -> Events:
    """All events of several partitions, with these columns."""
    columns = {name: _concatenated([part[name] for part in parts]) for name in names if name in parts[0]}
    return replace(parts[0], columns=columns, size=sum(part.size for part in parts), index=None)


def _concatenated(columns: Sequence[Column]) -> Column:
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.concatenate(columns)
    return ak.concatenate(columns)
