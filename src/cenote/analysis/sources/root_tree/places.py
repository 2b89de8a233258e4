"""Note where the baskets of a file are, and at which entries reading may start."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import cramjam
import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from cenote.analysis.sources.interface import find_column
from cenote.analysis.sources.root_tree.baskets import PlainBranch, PlainType

_LEVEL = 1


class _Noted(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """Every plain column of a file. What many columns have in common is there once."""

    stamp: str
    names: list[str]
    types: list[PlainType]
    counters: list[str]
    boundaries: list[bytes]
    """First entries of baskets, and the end, as 64-bit numbers."""
    traits: bytes
    """Of each column the numbers of its type, counter and boundaries, in 32 bits each."""
    seeks: bytes
    """Of all baskets, column after column: differences to the one before, in 64 bits."""
    sizes: bytes
    """The same, in 32 bits, as they are."""

    @cached_property
    def positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def of_columns(self) -> list[list[int]]:
        found: list[list[int]] = np.frombuffer(self.traits, np.int32).reshape(-1, 3).tolist()
        return found

    @cached_property
    def entries(self) -> list[list[int]]:
        return [np.frombuffer(boundaries, np.int64).tolist() for boundaries in self.boundaries]

    @cached_property
    def starts(self) -> list[int]:
        """Where the baskets of each column are among those of all."""
        counts = [len(self.entries[boundaries]) - 1 for _, _, boundaries in self.of_columns]
        return [0, *np.cumsum(counts).tolist()]

    def branch(self, position: int, start: int, stop: int) -> PlainBranch:
        """A column, with those of its baskets that hold entries of [start, stop)."""
        kind, counter, boundaries = self.of_columns[position]
        entries, before = self.entries[boundaries], self.starts[position]
        first = max(0, bisect_right(entries, start) - 1)
        last = max(first, min(bisect_left(entries, stop), len(entries) - 1))
        some = slice(before + first, before + last)
        return PlainBranch(
            self.types[kind],
            self.counters[counter],
            entries[first : last + 1],
            self._seeks[some].tolist(),
            self._sizes[some].tolist(),
        )

    @cached_property
    def _seeks(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.cumsum(np.frombuffer(self.seeks, np.int64))

    @cached_property
    def _sizes(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.frombuffer(self.sizes, np.int32)


class Places(msgspec.Struct, frozen=True, array_like=True):
    """What a task is told: where the baskets of its columns and entries are."""

    stamp: str
    """Of the file that they were found in."""
    branches: dict[str, PlainBranch]


_NOTED = msgspec.msgpack.Decoder(_Noted)
_PLACES = msgspec.msgpack.Decoder(Places)


def note(stamp: str, branches: Mapping[str, PlainBranch]) -> bytes:
    """All places of a file, as they are kept."""
    types: dict[PlainType, int] = {}
    counters: dict[str, int] = {}
    boundaries: dict[bytes, int] = {}
    traits = []
    for branch in branches.values():
        entries = np.asarray(branch.entries, np.int64).tobytes()
        traits += [
            types.setdefault(branch.type, len(types)),
            counters.setdefault(branch.counter, len(counters)),
            boundaries.setdefault(entries, len(boundaries)),
        ]
    seeks = np.fromiter(_all(branch.seeks for branch in branches.values()), np.int64)
    noted = _Noted(
        stamp,
        list(branches),
        list(types),
        list(counters),
        list(boundaries),
        np.array(traits, np.int32).tobytes(),
        np.diff(seeks, prepend=0).tobytes(),
        np.fromiter(_all(branch.sizes for branch in branches.values()), np.int32).tobytes(),
    )
    return bytes(cramjam.zstd.compress(msgspec.msgpack.encode(noted), level=_LEVEL))


def _all(numbers: Iterable[Sequence[int]]) -> Iterable[int]:
    return (number for some in numbers for number in some)


def cut(noted: bytes, columns: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    """For each range of entries, the places of these columns, as far as they are known."""
    whole = _NOTED.decode(bytes(cramjam.zstd.decompress(noted)))
    known = {name: find_column(name, whole.positions) for name in columns}
    positions = {name: whole.positions[found] for name, found in known.items() if found is not None}
    return [
        msgspec.msgpack.encode(
            Places(whole.stamp, {name: whole.branch(position, *some) for name, position in positions.items()})
        )
        for some in ranges
    ]


def read_places(written: bytes) -> Places:
    """What a task was told."""
    return _PLACES.decode(written)


# Find the entries at which reading may start without decompressing anything twice.


SHARE_OF_BYTES = 0.9
"""A boundary counts when branches with this share of the bytes have a basket that starts there."""


def boundaries(branches: Iterable[tuple[ArrayLike, int]], entries: int) -> tuple[int, ...]:
    """Entries at which (nearly) all baskets start, or else those of the largest branch.

    Of each branch: where its baskets start, the end included, and its size in bytes.
    """
    sizes: dict[bytes, int] = {}
    largest: tuple[int, bytes] = (-1, b"")
    for starts, size in branches:
        key = np.asarray(starts, np.int64).tobytes()
        sizes[key] = sizes.get(key, 0) + size  # most have the same: what is done for each is done for few
        if size > largest[0]:
            largest = (size, key)
    if not sizes or not entries:
        return (0, entries) if entries else (0,)
    alike = {key: _numbers(key) for key in sizes}
    places, which = np.unique(np.concatenate(list(alike.values())), return_inverse=True)
    weights = np.concatenate([np.full(len(starts), float(sizes[key])) for key, starts in alike.items()])
    shared = places[np.bincount(which, weights=weights) >= SHARE_OF_BYTES * sum(sizes.values())]
    if len(shared) <= 2:
        shared = alike[largest[1]]
    inner = (int(place) for place in shared if 0 < place < entries)
    return (0, *inner, entries)


def _numbers(key: bytes) -> NDArray[Any]:
    return np.unique(np.frombuffer(key, np.int64))
