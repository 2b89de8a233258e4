"""Decode the baskets of plain branches: numbers, arrays of a fixed size, and lists of either.

It does what uproot does, for the branches that most of the time is spent on: values are swapped straight into the
array that is returned, and branches of one collection share their offsets. Whatever is not plain is left to uproot.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cenote.jagged import ak
from cenote.operations.support.events import Column
from cenote.sources.root_tree.blocks import Bytes, DamagedError, decompressed
from cenote.values import dataclass

Offsets = NDArray[np.int64]
SharedOffsets = dict[object, Any]
"""Counter branch and its baskets → the offsets that were decoded for it, within one read."""
Fetch = Callable[[int, int], memoryview]
"""The bytes of a file: from this one on, so many."""

_KEY = struct.Struct(">ihiIhh")
"""fNbytes, fVersion, fObjlen, fDatime, fKeylen, fCycle: how a TKey starts."""
_BASKET = struct.Struct(">Hiiii")
"""fVersion, fBufferSize, fNevBufSize, fNevBuf, fLast: how the header of a TBasket ends, but for one byte."""


class NotPlainError(Exception):
    """A basket that only uproot reads."""


class PlainType(msgspec.Struct, frozen=True, array_like=True):
    """What each entry of a branch holds."""

    stored: str
    """numpy's word for a number in the file: `>f4`, big-endian."""
    in_memory: str
    """And as ROOT holds it: a `Double32_t` is stored in four bytes and has eight."""
    jagged: bool = False
    shape: tuple[int, ...] = ()
    """Of every item, where these are arrays of a fixed size."""
    header: int = 0
    """Bytes before each list: a `std::vector` has some."""

    @property
    def item_size(self) -> int:
        """Bytes of an item in the file."""
        return np.dtype(self.stored).itemsize * math.prod(self.shape)


class PlainBranch(msgspec.Struct, frozen=True, array_like=True):
    """Where the baskets of a branch are, and what is in them."""

    type: PlainType
    counter: str
    """What tells the lengths of the lists; branches with the same one share their offsets."""
    entries: Sequence[int]
    """First entry of each basket, and the end."""
    seeks: Sequence[int]
    sizes: Sequence[int]

    def baskets(self, start: int, stop: int) -> range:
        """The numbers of those that hold entries of [start, stop). Raises `NotPlainError` where some lack them."""
        if not self.entries[0] <= start <= stop <= self.entries[-1]:
            raise NotPlainError
        if start == stop:
            return range(0)
        return range(bisect_right(self.entries, start) - 1, bisect_left(self.entries, stop))


def read_plain(fetch: Fetch, branch: PlainBranch, start: int, stop: int, shared: SharedOffsets) -> Column:
    """Entries [start, stop). Raises `NotPlainError` where a basket turns out to be of another kind."""
    numbers = branch.baskets(start, stop)
    read = _read_lists if branch.type.jagged else _read_numbers
    return read(fetch, branch, numbers, (start, stop), shared)


def _read_numbers(
    fetch: Fetch, branch: PlainBranch, numbers: range, asked: tuple[int, int], shared: SharedOffsets
) -> Column:
    del shared
    kind, per_entry = branch.type, math.prod(branch.type.shape)
    pieces = []
    for number in numbers:
        basket, low, high = _basket(fetch, branch, number, asked)
        if basket.border != basket.entries * kind.item_size:
            raise DamagedError(f"a basket of {basket.entries} entries has {basket.border} bytes")
        pieces.append(basket.values(kind)[low * per_entry : high * per_entry])
    content = _joined(pieces, kind)
    return content if not kind.shape else ak.Array(_nested(content, kind.shape))


def _read_lists(
    fetch: Fetch, branch: PlainBranch, numbers: range, asked: tuple[int, int], shared: SharedOffsets
) -> Column:
    kind = branch.type
    per_item = math.prod(kind.shape)
    pieces, of_baskets = [], []
    for number in numbers:
        basket, low, high = _basket(fetch, branch, number, asked)
        key = (branch.counter, number, *branch.entries[number : number + 2])
        offsets = shared.get(key)
        if kind.header:
            byte_offsets = basket.byte_offsets()
            offsets = _without_headers(byte_offsets, kind)
            values = basket.values_between_headers(byte_offsets, kind)
        else:
            if offsets is None:
                offsets = shared[key] = _in_items(basket.byte_offsets(), kind.item_size)
            values = basket.values(kind)
        if offsets[-1] * per_item != len(values):
            raise DamagedError(f"a basket has {len(values)} numbers, and lists for {offsets[-1] * per_item}")
        if high - low < basket.entries:
            offsets = offsets[low : high + 1]
            values = values[offsets[0] * per_item : offsets[-1] * per_item]
        pieces.append(values)
        of_baskets.append(offsets)
    whole = (branch.counter, numbers, *asked, *branch.entries[numbers.start : numbers.stop + 1])
    index = shared.get(whole)
    if index is None:
        index = shared[whole] = ak.index.Index64(_chained(of_baskets))
    content = _nested(_joined(pieces, kind), kind.shape)
    return ak.Array(ak.contents.ListOffsetArray(index, content))


@dataclass(frozen=True)
class _Basket:
    data: Bytes
    border: int
    """Where the values end, and the offsets start."""
    key_length: int
    entries: int

    def values(self, kind: PlainType) -> NDArray[Any]:
        if self.border % kind.item_size:
            raise DamagedError(f"the {self.border} bytes of a basket are no whole number of values")
        return self.data[: self.border].view(kind.stored)

    def byte_offsets(self) -> Offsets:
        """Where each entry starts, and the end; stored are positions with the key counted in."""
        if len(self.data) == self.border:
            raise NotPlainError  # ROOT can leave them out, as the counter tells them too
        end = self.border + 4 * (self.entries + 2)
        if len(self.data) < end or int.from_bytes(self.data[self.border : self.border + 4], "big") != self.entries + 1:
            raise DamagedError(f"the places of its {self.entries} lists are not all in a basket")
        offsets: Offsets = self.data[self.border + 4 : end].view(">i4").astype(np.int64)
        offsets -= self.key_length
        offsets[-1] = self.border
        if offsets[0] or (offsets[1:] < offsets[:-1]).any():
            raise DamagedError("the lists of a basket are not one after the other")
        return offsets

    def values_between_headers(self, byte_offsets: Offsets, kind: PlainType) -> NDArray[Any]:
        """All values, without what is before each list."""
        unit = math.gcd(kind.header, kind.item_size)
        headers, lengths = kind.header // unit, np.diff(byte_offsets) // unit - kind.header // unit
        places = np.repeat(np.arange(headers, headers * (len(lengths) + 1), headers), lengths)
        places += np.arange(len(places))
        units = self.data[: self.border].view(np.dtype(f"V{unit}" if unit > 2 else f"u{unit}"))
        return units[places].view(kind.stored)


def _in_items(byte_offsets: Offsets, item_size: int) -> Offsets:
    """Offsets counted in items."""
    if item_size & (item_size - 1) == 0:  # shifting is much faster than dividing
        if np.bitwise_or.reduce(byte_offsets) & (item_size - 1):
            raise DamagedError("a list in a basket is no whole number of values")
        byte_offsets >>= item_size.bit_length() - 1
        return byte_offsets
    offsets, rest = np.divmod(byte_offsets, item_size)
    if rest.any():
        raise DamagedError("a list in a basket is no whole number of values")
    return offsets


def _without_headers(byte_offsets: Offsets, kind: PlainType) -> Offsets:
    if (np.diff(byte_offsets) < kind.header).any():
        raise DamagedError("a list in a basket has no room for its header")
    return _in_items(byte_offsets - kind.header * np.arange(len(byte_offsets)), kind.item_size)


def _basket(fetch: Fetch, branch: PlainBranch, number: int, asked: tuple[int, int]) -> tuple[_Basket, int, int]:
    """A basket, and which of its entries are asked for."""
    begin, end = branch.entries[number : number + 2]
    basket = _decoded(fetch(branch.seeks[number], branch.sizes[number]), branch.sizes[number])
    if basket.entries != end - begin:
        raise DamagedError(f"a basket has {basket.entries} entries instead of {end - begin}")
    return basket, max(asked[0] - begin, 0), min(asked[1], end) - begin


def _decoded(raw: memoryview, expected: int) -> _Basket:
    if len(raw) < _KEY.size:
        raise DamagedError("a basket is cut short")
    size, _, data_size, _, key_length, _ = _KEY.unpack_from(raw)
    if size != expected or not _KEY.size + _BASKET.size < key_length <= size or data_size < 0:
        raise DamagedError("there is no basket where one should be")
    _, _, _, entries, last = _BASKET.unpack_from(raw, key_length - _BASKET.size - 1)
    border = last - key_length
    if not 0 <= border <= data_size or entries < 0:
        raise DamagedError("the header of a basket is damaged")
    if size - key_length == data_size:
        data = np.frombuffer(raw, np.uint8, data_size, key_length)
    else:
        data = decompressed(raw[key_length:], data_size)
    return _Basket(data, border, key_length, entries)


def _nested(content: NDArray[Any], shape: tuple[int, ...]) -> Any:  # Any: awkward publishes no types
    """Arrays of a fixed size, as lists."""
    layout = ak.contents.NumpyArray(content)
    length = len(content)
    for size in reversed(shape):
        length //= size
        layout = ak.contents.ListOffsetArray(ak.index.Index64(np.arange(0, size * length + 1, size)), layout)
    return layout


def _joined(pieces: Sequence[NDArray[Any]], kind: PlainType) -> NDArray[Any]:
    """One after the other, as in memory."""
    joined = np.empty(sum(map(len, pieces)), kind.in_memory)
    done = 0
    for piece in pieces:
        joined[done : done + len(piece)] = piece
        done += len(piece)
    return joined


def _chained(of_baskets: Sequence[Offsets]) -> Offsets:
    """Offsets of baskets one after the other, as offsets of them all."""
    if len(of_baskets) == 1 and of_baskets[0][0] == 0:
        return of_baskets[0]
    chained = np.zeros(1 + sum(len(offsets) - 1 for offsets in of_baskets), np.int64)
    done = 0
    for offsets in of_baskets:
        np.add(offsets[1:], chained[done] - offsets[0], out=chained[done + 1 : done + len(offsets)])
        done += len(offsets) - 1
    return chained
