"""Decompress what ROOT compressed: blocks of any of its algorithms, one after the other.

Each block has nine bytes before it: two letters and a number for the algorithm, both sizes in three bytes each.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import numpy as np
import xxhash
from numpy.typing import NDArray

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
