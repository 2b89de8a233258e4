"""Decompress and decode the baskets of plain branches: numbers, arrays of a fixed size, and lists of either.

It does what uproot does, for the branches that most of the time is spent on: values are swapped straight into the
array that is returned, and branches of one collection share their offsets. Whatever is not plain is left to uproot.
"""

from __future__ import annotations

import lzma
import math
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import cramjam
import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from cenote.analysis.operations.support.events import Column
from cenote.common.arrays import ak
from cenote.common.values import dataclass

# Decompress what ROOT compressed: blocks of any of its algorithms, one after the other.
#
# Each block has nine bytes before it: two letters and a number for the algorithm, both sizes in three bytes each.


Bytes = NDArray[np.uint8]
Unpacked = Any  # some buffer: the types of cramjam do not say that theirs is one
_HEADER = 9
_CHECKSUM = 8


def _libdeflate() -> Any:  # Any: the module, or None
    """Twice as fast as the standard library; environments of workers that were made for an older Cenote lack it."""
    try:
        import deflate
    except ImportError:
        return None
    return deflate


_DEFLATE = _libdeflate()


class DamagedError(ValueError):
    """Bytes of a file are not what its format demands; in words that follow a colon."""


class UnknownAlgorithmError(ValueError):
    """Something compressed in a way that is not known here."""


def decompressed(blocks: memoryview, size: int) -> Bytes:
    """The `size` bytes that are in these blocks."""
    first = _next_block(blocks, size)
    if first.size == size:
        return first.unpack()
    data = np.empty(size, np.uint8)
    done = 0
    while done < size:
        block = _next_block(blocks, size - done)
        data[done : done + block.size] = block.unpack()
        done += block.size
        blocks = blocks[block.end :]
    return data


class _Block:
    """A block that lies within the bytes that were read."""

    __slots__ = ("_packed", "_unpack", "end", "size")

    def __init__(self, unpack: Callable[[memoryview, int], Unpacked], packed: memoryview, size: int) -> None:
        self._unpack, self._packed, self.size = unpack, packed, size
        self.end = _HEADER + len(packed)

    def unpack(self) -> Bytes:
        """What is in it."""
        try:
            data: Bytes = np.frombuffer(self._unpack(self._packed, self.size), np.uint8)
        except DamagedError:
            raise
        except _REFUSALS as problem:
            raise DamagedError(f"a compressed block is damaged ({problem})") from problem
        if len(data) != self.size:
            raise DamagedError(f"a compressed block holds {len(data)} bytes instead of {self.size}")
        return data


def _next_block(blocks: memoryview, most: int) -> _Block:
    if len(blocks) < _HEADER:
        raise DamagedError("a compressed block is cut short")
    name = bytes(blocks[:2])
    packed, size = int.from_bytes(blocks[3:6], "little"), int.from_bytes(blocks[6:9], "little")
    if name not in _ALGORITHMS:
        if not name.isalnum():
            raise DamagedError("there is no compressed block where one should be")
        raise UnknownAlgorithmError(name)
    if not 0 < size <= most or _HEADER + packed > len(blocks):
        raise DamagedError(f"a compressed block claims {packed} bytes for {size}: more than there are")
    return _Block(_ALGORITHMS[name], blocks[_HEADER : _HEADER + packed], size)


def _zstd(packed: memoryview, size: int) -> Unpacked:
    return cramjam.zstd.decompress(packed, output_len=size)


def _lz4(packed: memoryview, size: int) -> Unpacked:
    data = packed[_CHECKSUM:]
    if xxhash.xxh64_intdigest(data) != int.from_bytes(packed[:_CHECKSUM], "big"):
        raise DamagedError("the checksum of a compressed block is wrong")
    return cramjam.lz4.decompress_block(data, output_len=size)


def _zlib(packed: memoryview, size: int) -> Unpacked:
    return zlib.decompress(packed, bufsize=size) if _DEFLATE is None else _DEFLATE.zlib_decompress(packed, size)


def _lzma(packed: memoryview, size: int) -> Unpacked:
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    data = stream.decompress(packed, size)
    if not stream.eof:  # the end has the checksum
        stream.decompress(b"", 1)
    if not stream.eof:
        raise DamagedError("a compressed block does not end")
    return data


_ALGORITHMS: dict[bytes, Callable[[memoryview, int], Unpacked]] = {
    b"ZS": _zstd,
    b"L4": _lz4,
    b"ZL": _zlib,
    b"XZ": _lzma,
}
_REFUSALS: tuple[type[Exception], ...] = (
    *(ValueError, RuntimeError, EOFError, lzma.LZMAError, zlib.error, cramjam.DecompressionError),
    *(() if _DEFLATE is None else (_DEFLATE.DeflateError,)),
)
"""What decompressors raise for bytes that are none of theirs."""


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
            raise DamagedError(f"the {self.border} bytes of a basket are not a whole number of values")
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
            raise DamagedError("a list in a basket is not a whole number of values")
        byte_offsets >>= item_size.bit_length() - 1
        return byte_offsets
    offsets, rest = np.divmod(byte_offsets, item_size)
    if rest.any():
        raise DamagedError("a list in a basket is not a whole number of values")
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
