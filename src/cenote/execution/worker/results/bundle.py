"""Pack values and events as bytes, without a copy; state where inputs come from and results go.

A bundle is a word, an index (name, codec, length), and the bodies of the products. A body is a head and its large
arrays, each at a multiple of 64 bytes: of the body, which may be moved as it is, and of the bundle.
"""

from __future__ import annotations

import mmap
import pickle
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.products.support.histogram_data import NotDataError
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass
from cenote.execution.worker.results.plain_data import SMALL, as_data, from_data

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


# Pack events that leave a task: flat arrays with nothing beside them, offsets that columns share only once.


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


# State where a task's inputs come from and where its results go.


class Exchange(Protocol):
    """Where a task's inputs come from and its results go: the store, or the memory of workers."""

    def read(self, name: str) -> Any:
        """What an earlier task wrote under this name."""

    def write(self, name: str, value: Any, *, wait: bool = False) -> int:
        """Hand over a result; returns its size in bytes, or 0 where that is not known.

        With `wait` it is safe from a crash of the machine afterwards, where it can be.
        """


class Collected:
    """Keeps what the pieces of a split partition hand over, until they are put together."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.written: dict[str, PackedEvents] = {}

    def read(self, name: str) -> Any:
        return self._exchange.read(name)

    def write(self, name: str, value: Any, *, wait: bool = False) -> int:  # noqa: ARG002  # put together first
        self.written[name] = value
        return 0
