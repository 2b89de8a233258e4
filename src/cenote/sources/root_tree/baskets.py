"""Decode the baskets of plain branches (numbers, and lists of numbers) of files on this machine.

It does what uproot does, for the branches that most of the time is spent on: values are swapped straight into the
array that is returned, and branches of one collection share their offsets. Whatever is not plain is left to uproot.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import awkward as ak
import cramjam
import numpy as np
import uproot
from numpy.typing import NDArray

from cenote.operations.support.events import Column

Offsets = NDArray[np.int64]
SharedOffsets = dict[object, Any]
"""Counter branch and its baskets → the offsets (an awkward index) that were decoded for it, within one read."""

_KEY = struct.Struct(">ihiIhh")
"""fNbytes, fVersion, fObjlen, fDatime, fKeylen, fCycle: how a TKey starts."""
_BASKET = struct.Struct(">Hiiii")
"""fVersion, fBufferSize, fNevBufSize, fNevBuf, fLast: how the header of a TBasket ends, but for one byte."""
_BLOCK_HEADER = 9
_ZSTD = b"ZS"


@dataclass(frozen=True)
class PlainBranch:
    """Where the baskets of a branch are, and what is in them."""

    dtype: np.dtype[Any]
    """As stored: big-endian."""
    in_memory: np.dtype[Any]
    """As ROOT holds it: a `Double32_t` is stored in four bytes and has eight."""
    jagged: bool
    counter: object
    """What tells the lengths of the lists; branches with the same one share their offsets."""
    entries: Sequence[int]
    """First entry of each basket, and the end."""
    seeks: Sequence[int]
    sizes: Sequence[int]


def plain_branch_of(branch: Any) -> PlainBranch | None:
    """None for a branch that needs uproot: objects, fixed shapes, baskets inside the tree itself."""
    interpretation = branch.interpretation
    jagged = type(interpretation) is uproot.AsJagged
    content = interpretation.content if jagged else interpretation
    count = int(branch.member("fWriteBasket"))
    if (
        type(content) is not uproot.AsDtype
        or content.inner_shape
        or content.from_dtype.kind not in "biuf"
        or (jagged and interpretation.header_bytes)
        or len(branch.member("fLeaves")) != 1
        or branch.num_baskets != count
    ):
        return None
    counter = branch.count_branch
    return PlainBranch(
        dtype=content.from_dtype,
        in_memory=content.to_dtype.newbyteorder("="),
        jagged=jagged,
        counter=branch.name if counter is None else counter.name,
        entries=[int(entry) for entry in branch.entry_offsets],
        seeks=[int(seek) for seek in branch.member("fBasketSeek")[:count]],
        sizes=[int(size) for size in branch.member("fBasketBytes")[:count]],
    )


def read_plain(file: int, branch: PlainBranch, start: int, stop: int, shared: SharedOffsets) -> Column | None:
    """Entries [start, stop) from an open file descriptor; None where a basket turns out not to be plain."""
    if stop > branch.entries[-1]:
        return None
    first, last = max(0, bisect_right(branch.entries, start) - 1), bisect_left(branch.entries, stop)
    key = (branch.counter, *branch.entries[first : last + 1])
    index = shared.get(key)
    pieces: list[NDArray[Any]] = []
    lengths: list[Offsets] = []
    for number in range(first, last):
        basket = _decoded(_bytes(file, branch.seeks[number], branch.sizes[number]))
        if basket is None:
            return None
        begin, end = branch.entries[number : number + 2]
        low, high = max(start - begin, 0), min(stop, end) - begin
        values = basket.data[: basket.border].view(branch.dtype)
        if not branch.jagged:
            values = values[low:high]
        elif index is None or high - low < end - begin:
            if not basket.has_offsets:
                return None
            offsets = basket.offsets(branch.dtype.itemsize)
            values = values[offsets[low] : offsets[high]]
            lengths.append(offsets[low : high + 1])
        pieces.append(values)
    content = _joined(pieces, branch.in_memory)
    if not branch.jagged:
        return content if len(content) == stop - start else None
    if index is None:
        index = shared[key] = ak.index.Index64(_chained(lengths))
    if index.data[-1] != len(content):
        return None
    return ak.Array(ak.contents.ListOffsetArray(index, ak.contents.NumpyArray(content)))


@dataclass(frozen=True)
class _Basket:
    data: NDArray[np.uint8]
    border: int
    """Where the values end, and the offsets start."""
    key_length: int
    entries: int

    @property
    def has_offsets(self) -> bool:
        """Whether they are stored: ROOT can leave them out, as the counter tells them too."""
        return len(self.data) >= self.border + 4 + 4 * (self.entries + 1)

    def offsets(self, item_size: int) -> Offsets:
        """Of lists, counted in items; stored are positions in bytes, the header included."""
        stored = self.data[self.border + 4 : self.border + 4 + 4 * (self.entries + 1)].view(">i4")
        offsets = stored.astype(np.int64)
        offsets -= self.key_length
        offsets[-1] = self.border
        offsets //= item_size
        return offsets


def _bytes(file: int, seek: int, size: int) -> bytes:
    found = os.pread(file, size, seek)
    if len(found) != size:
        raise OSError(f"a basket of {size} bytes at byte {seek} is cut short")
    return found


def _decoded(raw: bytes) -> _Basket | None:
    size, _, data_size, _, key_length, _ = _KEY.unpack_from(raw)
    _, _, _, entries, last = _BASKET.unpack_from(raw, key_length - _BASKET.size - 1)
    if size - key_length == data_size:
        data = np.frombuffer(raw, np.uint8, offset=key_length)
    else:
        decompressed = _decompressed(memoryview(raw)[key_length:], data_size)
        if decompressed is None:
            return None
        data = decompressed
    return _Basket(data, last - key_length, key_length, entries)


def _decompressed(blocks: memoryview, size: int) -> NDArray[np.uint8] | None:
    """ROOT compresses in blocks, each with the algorithm and both sizes before it; None unless all are zstd."""
    data = np.empty(size, np.uint8)
    done = 0
    while done < size:
        if blocks[:2] != _ZSTD:
            return None
        packed = _BLOCK_HEADER + int.from_bytes(blocks[3:6], "little")
        unpacked = int.from_bytes(blocks[6:9], "little")
        done += cramjam.zstd.decompress_into(blocks[_BLOCK_HEADER:packed], data[done : done + unpacked].data)
        blocks = blocks[packed:]
    return data


def _joined(pieces: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    """One after the other, as this type."""
    joined = np.empty(sum(map(len, pieces)), dtype)
    done = 0
    for piece in pieces:
        joined[done : done + len(piece)] = piece
        done += len(piece)
    return joined


def _chained(lengths: Sequence[Offsets]) -> Offsets:
    """Offsets of baskets one after the other, as offsets of them all."""
    chained = np.zeros(1 + sum(len(offsets) - 1 for offsets in lengths), np.int64)
    done = 0
    for offsets in lengths:
        np.add(offsets[1:], chained[done] - offsets[0], out=chained[done + 1 : done + len(offsets)])
        done += len(offsets) - 1
    return chained
