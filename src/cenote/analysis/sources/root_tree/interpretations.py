"""Read with uproot what it decodes wrongly (seen with 5.7): its own ways to decode, given bytes that they understand.

Each of these only changes the bytes and offsets of a basket before uproot interprets them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import uproot
from numpy.typing import NDArray

from cenote.analysis.sources.root_tree.baskets import DamagedError

_BITS = 15
"""What a TBranchElement says of the bits of a TObject: `TStreamerInfo::kBits`."""
_VECTOR_HEADER = 10
"""Bytes before the values of each vector: byte count, version, length."""
_VERSION, _LENGTH = 4, 6
"""Where these begin."""
_MEMBERWISE = 0x40
"""In the first byte of the version: the first members of all objects come first, then all second ones."""
_GENERATED_OFFSETS = 1
"""`kGenerateOffsetMap` among the features that a TBranch says it uses."""
_REFERENCED = 1 << 4
"""Among these bits: two bytes follow that say which process refers to the object."""

_Bytes = NDArray[np.uint8]
_Offsets = NDArray[np.integer[Any]]


class _Length:
    """Stands in for the `struct.Struct` with which uproot reads how long a container is.

    Where objects are stored in a way that uproot takes for another, that number is anything, and uproot makes room for
    so many before it reads the first: for a billion of them, 8 GB.
    """

    size = 4

    def unpack(self, stored: NDArray[np.uint8]) -> tuple[int]:
        """Of bytes that are a part of their basket. Every item has a byte at least."""
        length = int.from_bytes(stored.tobytes(), "big")
        whole: Any = stored if stored.base is None else stored.base  # Any: whatever the bytes are a part of
        room = memoryview(whole).nbytes
        if length > room:
            raise DamagedError(f"a list claims {length:,} items, and its basket has {room:,} bytes")
        return (length,)


def bound_lengths() -> None:
    """Let uproot believe no length of a container that the basket it is in cannot hold, nor one of a basket, or another
    object, that its compressed blocks do not fill."""
    if not isinstance(uproot.containers._stl_container_size, _Length):  # noqa: SLF001  # there is no other way in
        uproot.containers._stl_container_size = _Length()  # noqa: SLF001
    uproot.compression.decompress.hook_after_block = _demand_filled


def _demand_filled(
    *, cursor: Any, start: Any, compressed_bytes: int, filled: int, uncompressed_bytes: int, **_others: Any
) -> None:  # Any: uproot publishes no types
    """After a block of several, or of another size than is claimed: uproot leaves the rest as the memory was."""
    if cursor.displacement(start) >= compressed_bytes and filled != uncompressed_bytes:
        raise DamagedError(f"compressed blocks hold {filled:,} bytes instead of {uncompressed_bytes:,}")


def understood(branch: Any) -> Any:  # Any: uproot publishes no types
    """How a branch is read: uproot's interpretation of it, or one of these instead."""
    usual = branch.interpretation
    if type(usual) is uproot.AsStrings and not usual.header_bytes and usual.length_bytes == "1-5":
        return _Texts()
    if holds_bits(branch):
        if type(usual) is uproot.AsJagged:
            return _ListsOfBits(usual.content, usual.header_bytes, usual.typename)
        return _Bits(usual.from_dtype, usual.to_dtype)
    objects = type(usual) is uproot.AsJagged and type(usual.content) is uproot.AsStridedObjects
    if objects and usual.header_bytes == _VECTOR_HEADER:
        return _Vectors(usual.content, usual.header_bytes, usual.typename)
    if type(usual) is uproot.AsJagged and branch.count_branch is not None and _may_lack_offsets(branch):
        return _Counted(usual.content, usual.header_bytes, usual.typename)
    return usual


def _may_lack_offsets(branch: Any) -> bool:
    """Whether its baskets need not say where their lists begin: ROOT can leave that to the counter."""
    features = branch.member("fIOFeatures", none_if_missing=True)
    left_out = features is not None and int(features.member("fIOBits")) & _GENERATED_OFFSETS
    return bool(left_out) or not branch.member("fEntryOffsetLen")


def holds_bits(branch: Any) -> bool:
    """Whether these are the bits of TObjects, which can be longer than the number that they are."""
    usual = branch.interpretation
    content = usual.content if type(usual) is uproot.AsJagged else usual
    return type(content) is uproot.AsDtype and branch.member("fStreamerType", none_if_missing=True) == _BITS


class _Texts(uproot.AsStrings):  # type: ignore[misc]  # uproot publishes no types
    """Texts of which empty ones have no bytes at all, not even one that says so: ROOT stores `name/C` in this way."""

    def basket_array(self, data: _Bytes, byte_offsets: _Offsets | None, *others: Any) -> Any:
        if byte_offsets is not None:
            empty = np.diff(byte_offsets) == 0
            data = np.insert(data, byte_offsets[:-1][empty], 0)
            byte_offsets = byte_offsets + np.concatenate(([0], np.cumsum(empty)))
        return super().basket_array(data, byte_offsets, *others)


class _Vectors(uproot.AsJagged):  # type: ignore[misc]  # uproot publishes no types
    """Vectors of objects: their header says how they are stored and how long they are, and uproot passes over it."""

    def basket_array(self, data: _Bytes, byte_offsets: _Offsets | None, *others: Any) -> Any:
        if byte_offsets is not None:
            sizes = np.diff(byte_offsets) - self.header_bytes
            if (sizes < 0).any():
                raise DamagedError("a list in a basket has no room for its header")
            headers = data[byte_offsets[:-1, np.newaxis] + np.arange(self.header_bytes)]
            if (headers[:, _VERSION] & _MEMBERWISE).any():
                raise DamagedError("its objects are stored memberwise")
            lengths = headers[:, _LENGTH:].copy().view(">u4")[:, 0].astype(np.int64)
            if (lengths * self.content.itemsize != sizes).any():
                raise DamagedError("a list in a basket has another length than it says")
        return super().basket_array(data, byte_offsets, *others)


class _Counted(uproot.AsJagged):  # type: ignore[misc]  # uproot publishes no types
    """Lists; where their basket does not say how long they are, the counter does, whose baskets may begin elsewhere."""

    def basket_array(self, data: _Bytes, byte_offsets: _Offsets | None, basket: Any, branch: Any, *others: Any) -> Any:
        if byte_offsets is None:
            start, stop = branch.entry_offsets[basket.basket_num : basket.basket_num + 2]
            counts = branch.count_branch.array(entry_start=start, entry_stop=stop, library="np", array_cache=None)
            byte_offsets = np.concatenate(([0], np.cumsum(counts.astype(np.int64) * self.content.itemsize)))
            if (counts < 0).any() or byte_offsets[-1] != len(data):
                raise DamagedError(f"a basket has {len(data)} bytes, and its counter says {byte_offsets[-1]}")
        return super().basket_array(data, byte_offsets, basket, branch, *others)


class _ListsOfBits(uproot.AsJagged):  # type: ignore[misc]  # uproot publishes no types
    """The bits of each object of a list."""

    def basket_array(self, data: _Bytes, byte_offsets: _Offsets | None, *others: Any) -> Any:
        if byte_offsets is not None:
            data, counts = _alone(data, byte_offsets.astype(np.int64))
            byte_offsets = np.concatenate(([0], np.cumsum(4 * counts)))
        return super().basket_array(data, byte_offsets, *others)


class _Bits(uproot.AsDtype):  # type: ignore[misc]  # uproot publishes no types
    """The bits of one object per entry."""

    def basket_array(self, data: _Bytes, byte_offsets: _Offsets | None, *others: Any) -> Any:
        if byte_offsets is None:
            byte_offsets = np.array([0, len(data)])
        data, _ = _alone(data, byte_offsets.astype(np.int64))
        return super().basket_array(data, None, *others)


def _alone(data: _Bytes, byte_offsets: NDArray[np.int64]) -> tuple[_Bytes, NDArray[np.int64]]:
    """Bits without what follows some of them, and how many there are of each entry."""
    places, stops = byte_offsets[:-1].copy(), byte_offsets[1:]
    kept = np.zeros(len(data), np.bool_)
    counts = np.zeros(len(places), np.int64)
    while (left := np.flatnonzero(places < stops)).size:  # the next bits of each entry that has more
        if (places[left] + 4 > stops[left]).any():
            raise DamagedError("the bits of an object in a basket are cut short")
        for byte in range(4):
            kept[places[left] + byte] = True
        counts[left] += 1
        places[left] += np.where(data[places[left] + 3] & _REFERENCED, 6, 4)
    if (places != stops).any():
        raise DamagedError("the bits of an object in a basket are cut short")
    return data[kept], counts
