"""Pack values as bytes, without a copy; of a task's products each by itself, so that each is read without the others.

A bundle is a word, an index (name, codec, length), and the bodies of the products. A body is a head and its large
arrays, each at a multiple of 64 bytes: of the body, which may be moved as it is, and of the bundle.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from cenote.products.support.histogram_data import NotDataError
from cenote.worker.results.plain_data import SMALL, as_data, from_data

ByteBuffer = bytes | memoryview
DATA, PICKLE = 0, 1
"""Codecs: what can be read safely whoever wrote it, and what only a key of one's own makes trusted."""
_VALUE, _BUNDLE = b"cenote1\n", b"cenote3\n"
_MAGIC = len(_VALUE)
_ALIGNED = 64
_INDEX_LENGTH, _COUNT = struct.Struct("<I"), struct.Struct("<I")
_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(list[tuple[str, int, int]])


class NotPackedError(ValueError):
    """These bytes hold no packed value."""


class Body(NamedTuple):
    """A product in its packed form: how it is written, and the bytes."""

    codec: int
    content: memoryview


def pack(value: Any) -> list[ByteBuffer]:
    """A value as bytes, without a copy: a mapping by names as a bundle, anything else as one body."""
    if type(value) is dict and all(type(name) is str for name in value):
        return packed_bundle((name, *_encoded(product)) for name, product in value.items())
    return pack_whole(value)


def pack_whole(value: Any) -> list[ByteBuffer]:
    """A value as bytes, as one pickle: what several of its parts share is there once."""
    return _pickled_body(value, _VALUE)


def packed_bundle(bodies: Iterable[tuple[str, int, Sequence[ByteBuffer]]]) -> list[ByteBuffer]:
    """A bundle of these products: name, codec, and the pieces of the body."""
    found = [(name, codec, pieces, sum(map(len, pieces))) for name, codec, pieces in bodies]
    index = _ENCODER.encode([(name, codec, size) for name, codec, _, size in found])
    parts: list[ByteBuffer] = [_BUNDLE + _INDEX_LENGTH.pack(len(index)) + index]
    at = len(parts[0])
    for _, _, pieces, size in found:
        if gap := _gap(at, size):
            parts.append(bytes(gap))
        parts += pieces
        at += gap + size
    return parts


def bodies_of(packed: ByteBuffer) -> dict[str, Body]:
    """The products of a bundle as they are packed. Raises NotPackedError for anything else."""
    data = memoryview(packed)
    if data[:_MAGIC] != _BUNDLE:
        raise NotPackedError
    (length,) = _INDEX_LENGTH.unpack_from(data, _MAGIC)
    at = _MAGIC + _INDEX_LENGTH.size + length
    found = {}
    for name, codec, size in _DECODER.decode(data[at - length : at]):
        at += _gap(at, size)
        found[name] = Body(codec, data[at : at + size])
        at += size
    return found


class PackedProducts(Mapping[str, Any]):
    """The products of a task by their names, each read when it is first asked for."""

    def __init__(self, packed: ByteBuffer) -> None:
        self._bodies = bodies_of(packed)
        self._read: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            self._read[name] = decoded(self._bodies[name])
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._bodies)

    def __len__(self) -> int:
        return len(self._bodies)

    def __contains__(self, name: object) -> bool:
        return name in self._bodies

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, ({**self},)


def unpack(packed: ByteBuffer) -> Any:
    """The value again, or its bundle; large arrays are read-only and lie in these bytes.

    A pickle runs code when it is read. So these bytes must be known to be ours: the store checks its seal first, and
    what workers send comes over their own connection to the driver.
    """
    data = memoryview(packed)
    if data[:_MAGIC] == _BUNDLE:
        return PackedProducts(data)
    if data[:_MAGIC] == _VALUE:
        return _read(PICKLE, data, _MAGIC)
    raise NotPackedError


def decoded(body: Body) -> Any:
    """A product. Raises NotPackedError for what holds none; a pickle runs code."""
    return _read(body.codec, body.content, 0)


def _read(codec: int, data: memoryview, at: int) -> Any:
    """What `_body` wrote, after a word of so many bytes."""
    try:
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        lengths = struct.unpack_from(f"<{count}Q", data, at)
    except struct.error:
        raise NotPackedError from None
    at += 8 * count
    end = at + lengths[0] if lengths else len(data)
    head, beside = data[at:end], []
    for length in lengths[1:]:
        end += -end % _ALIGNED
        beside.append(data[end : end + length])
        end += length
    if codec == PICKLE:
        return pickle.loads(head, buffers=beside)
    try:
        return from_data(head, beside)
    except NotDataError as problem:
        raise NotPackedError(*problem.args) from None


def pickled(value: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """A value as its pickle and the arrays beside it; small arrays are part of the pickle."""
    beside: list[pickle.PickleBuffer] = []

    def goes_inside(buffer: pickle.PickleBuffer) -> bool:
        small = buffer.raw().nbytes < SMALL
        if not small:
            beside.append(buffer)
        return small

    return pickle.dumps(value, protocol=5, buffer_callback=goes_inside), beside


def _encoded(product: Any) -> tuple[int, list[ByteBuffer]]:
    """As data where it is data, else as a pickle."""
    try:
        head, beside = as_data(product)
    except NotDataError:
        return PICKLE, _pickled_body(product)
    return DATA, _body(head, beside)


def _pickled_body(value: Any, word: bytes = b"") -> list[ByteBuffer]:
    head, buffers = pickled(value)
    return _body(head, [buffer.raw() for buffer in buffers], word)


def _body(head: bytes, beside: Sequence[memoryview], word: bytes = b"") -> list[ByteBuffer]:
    if not beside:
        return [word + _COUNT.pack(0) + head]
    lengths = [len(head), *(part.nbytes for part in beside)]
    start = _COUNT.pack(len(lengths)) + struct.pack(f"<{len(lengths)}Q", *lengths)
    parts: list[ByteBuffer] = [word + start + head]
    size = len(parts[0])
    for part in beside:
        gap = -size % _ALIGNED
        parts += [bytes(gap), part]
        size += gap + part.nbytes
    return parts


def _gap(at: int, size: int) -> int:
    """Bytes to leave before a body: large ones begin at a multiple, so that their arrays do."""
    return -at % _ALIGNED if size >= SMALL else 0
