"""Pack events that leave a task: flat arrays with nothing beside them, offsets that columns share only once."""

from __future__ import annotations

import mmap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cenote.jagged import ak, is_awkward
from cenote.operations.support.events import Column, Events
from cenote.values import dataclass

FlatArray: TypeAlias = NDArray[Any]
_TOO_LARGE = 2
"""How many times the bytes used of an array may be what it keeps in memory: an array or a file that it is a view of."""


@dataclass(frozen=True)
class Nested:
    """A column of awkward as its flat arrays, by the names that its form gives them."""

    form: dict[str, Any]  # as awkward writes it
    length: int
    arrays: Mapping[str, FlatArray]

    def column(self) -> Column:
        return ak.from_buffers(self.form, self.length, self.arrays)


@dataclass(frozen=True)
class PackedEvents:
    """Events as they travel: unpacked without a copy, as often as needed."""

    _bare: Events
    columns: Mapping[str, Nested | Column]

    def unpacked(self) -> Events:
        """The events, with columns that lie in these arrays."""
        columns = {name: one.column() if isinstance(one, Nested) else one for name, one in self.columns.items()}
        return replace(self._bare, columns=columns)

    @property
    def nbytes(self) -> int:
        """What the columns take in memory."""
        return sum({id(array): array.nbytes for _, _, array in _arrays_of(self.columns)}.values())


def packed(events: Events) -> PackedEvents:
    """Pack these events. Arrays that are packed already are not copied."""
    columns = {name: _flattened(column) for name, column in events.columns.items()}
    found = [array for _, _, array in _arrays_of(columns)]
    chosen = dict(zip(map(id, found), _trimmed(_shared(found)), strict=True))
    return PackedEvents(replace(events, columns={}), {name: _with(one, chosen) for name, one in columns.items()})


def _flattened(column: Column) -> Nested | Column:
    """As flat arrays where that is possible: not on devices, and not where somebody gave it a behaviour of its own."""
    if isinstance(column, np.ndarray):
        return column if column.flags.c_contiguous or column.dtype.hasobject else np.ascontiguousarray(column)
    if not is_awkward(column) or ak.backend(column) != "cpu":
        return column
    column = ak.to_packed(column)
    form, length, arrays = ak.to_buffers(column)
    plain = column.behavior in (None, ak.behavior) and not column.attrs
    if plain and all(type(array) is np.ndarray for array in arrays.values()):
        return Nested(form.to_dict(), length, arrays)
    return column


def _arrays_of(columns: Mapping[str, Nested | Column]) -> Iterator[tuple[str, str, FlatArray]]:
    """Every flat array, with its column and its name there."""
    for name, column in columns.items():
        if isinstance(column, Nested):
            yield from ((name, part, array) for part, array in column.arrays.items())
        elif isinstance(column, np.ndarray):
            yield name, "", column


def _with(column: Nested | Column, chosen: Mapping[int, FlatArray]) -> Nested | Column:
    if isinstance(column, Nested):
        return replace(column, arrays={part: chosen[id(array)] for part, array in column.arrays.items()})
    return chosen.get(id(column), column)


def _shared(arrays: Sequence[FlatArray]) -> list[FlatArray]:
    """The same arrays, and for several that are equal the first. Only integers are compared: most are offsets."""
    known: dict[tuple[object, ...], list[FlatArray]] = defaultdict(list)
    found: list[FlatArray] = []
    for array in arrays:
        first = array
        if array.dtype.kind in "iu" and array.size:
            alike = known[array.dtype, array.shape, int(array.flat[-1]), int(array.flat[array.size // 2])]
            first = next((one for one in alike if np.array_equal(one, array)), array)
            if first is array:
                alike.append(array)
        found.append(first)
    return found


def _trimmed(arrays: Sequence[FlatArray]) -> list[FlatArray]:
    """The same arrays, without what they are views of where hardly any of that is used."""
    owners = {id(array): _owner(array) for array in arrays}
    used: dict[int, int] = defaultdict(int)
    for array in {id(array): array for array in arrays}.values():
        used[owners[id(array)][0]] += array.nbytes
    copies = {
        id(array): array.copy()
        for array in {id(array): array for array in arrays}.values()
        if owners[id(array)][1] > _TOO_LARGE * used[owners[id(array)][0]]
    }
    return [copies.get(id(array), array) for array in arrays]


def _owner(array: FlatArray) -> tuple[int, int]:
    """What an array keeps in memory: who that is, and how many bytes."""
    kept: object = array
    while True:
        below = kept.obj if isinstance(kept, memoryview) else kept.base if isinstance(kept, np.ndarray) else None
        if below is None:
            break
        kept = below
    size = kept.nbytes if isinstance(kept, np.ndarray | memoryview) else 0
    return id(kept), len(kept) if isinstance(kept, bytes | bytearray | mmap.mmap) else size
