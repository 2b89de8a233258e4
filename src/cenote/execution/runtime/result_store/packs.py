"""Write and read packs: files of results, to which records are added that are there entirely or not at all."""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from cenote.common import storage
from cenote.common.values import dataclass
from cenote.execution.worker.results.bundle import ByteBuffer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


# Seal what lies in a store, so that it is known who wrote it.


_SUM, _SIGNATURE = 32, 64
SEAL = _SUM + _SIGNATURE
"""Bytes at the end of an index."""
PUBLIC = 32
"""Bytes of a public key."""


class Voucher(Protocol):
    """Knows what one user wrote."""

    def vouches(self, told: ByteBuffer, end: bytes) -> bool:
        """Whether the end of an index is its owner's: `SEAL` bytes."""


class OwnSeal:
    """Of the user who runs this, by a key that nobody else can read."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key, digest_size=32, person=b"cenote store").digest()

    def of(self, what: str, *parts: ByteBuffer) -> bytes:
        """The keyed sum, 32 bytes; of each kind of things another."""
        summed = hashlib.blake2b(key=self._key, digest_size=_SUM, person=what.encode())
        for part in parts:
            summed.update(part)
        return summed.digest()

    def end_of(self, told: ByteBuffer) -> bytes:
        """What an index ends with: its keyed sum, and a signature that others know it by, if there is one."""
        return self.of("index", told) + bytes(_SIGNATURE)  # in a store of one's own nobody else reads it

    def vouches(self, told: ByteBuffer, end: bytes) -> bool:
        return hmac.compare_digest(self.of("index", told), end[:_SUM])


class SigningSeal(OwnSeal):
    """The same where others read what one wrote."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self._private = _private_key(key)

    def end_of(self, told: ByteBuffer) -> bytes:
        return self.of("index", told) + self._private.sign(_signed(told))


class SealOfAnother:
    """Of somebody else, by their public key."""

    def __init__(self, public: bytes) -> None:
        self._public = public

    def vouches(self, told: ByteBuffer, end: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self._public).verify(end[_SUM:], _signed(told))
        except (InvalidSignature, ValueError):
            return False
        return True


def public_key(key: bytes) -> bytes:
    """What others know the signatures of this key by."""
    found: bytes = _private_key(key).public_key().public_bytes_raw()
    return found


def _private_key(key: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # only stores of several need it

    return Ed25519PrivateKey.from_private_bytes(hashlib.blake2b(key, digest_size=32, person=b"cenote signs").digest())


def _signed(told: ByteBuffer) -> bytes:
    return b"cenote store index 1\n" + hashlib.blake2b(told, digest_size=_SIGNATURE).digest()


VERSION = 1
ID = 16
"""Bytes of an id, and of a digest."""
ROW = np.dtype(
    [
        ("id", "V16"),
        ("digest", "V16"),
        ("offset", "<u8"),
        ("length", "<u8"),
        ("seconds", "<f4"),
        ("added", "<u4"),
        ("name", "<u2"),
        ("codec", "u1"),
        ("spare", "V5"),
    ]
)
"""A result: where its bytes are in the pack, what making it took, and when it was added, in seconds since 1970."""
Rows: TypeAlias = NDArray[Any]
_PACK, _INDEX = b"cenotep1", b"cenotei1"
_START = struct.Struct("<8s16s")
"""What a pack begins with: a word, and its own token, which every record is sealed with."""
_HEAD = struct.Struct("<4sIQ16s")
"""What a record begins with: a word, the lengths of its rows and its bodies, and the seal of all but these."""
_RECORD = b"rec1"
_ROW, _LENGTH = struct.Struct("<16s16sQQfIHB5x"), struct.Struct("<I")
_INDEX_START = struct.Struct("<8sQQI")
"""What an index begins with: a word, how much of the pack it tells of, how many rows and bytes of names it has."""
_LARGEST_ROWS = 1 << 28
"""Bytes: what says more is not a record."""
_MOST_PARTS = 512
"""Pieces that one call writes; some systems take 1024."""


@dataclass(frozen=True)
class NewResult:
    """A result on its way into a pack."""

    id: bytes
    name: str
    codec: int
    content: ByteBuffer
    digest: bytes
    seconds: float
    added: int


@dataclass(frozen=True)
class Content:
    """What is in a pack, as far as it was read."""

    rows: Rows
    names: tuple[str, ...]
    """Of products; rows have their numbers."""
    covered: int
    """Bytes of the pack that this tells of."""


NOTHING = Content(np.empty(0, ROW), (), 0)


def digest_of_body(content: ByteBuffer) -> bytes:
    """By which damage shows. It is not keyed: what vouches for it is the seal of the record or of the index."""
    return hashlib.blake2b(content, digest_size=ID).digest()


class PackWriter:
    """Adds records to a pack of its own. An error leaves those that were written whole."""

    def __init__(self, path: Path, seal: OwnSeal, mode: int) -> None:
        self.path = path
        self._seal, self._token = seal, os.urandom(ID)
        self._names: dict[str, int] = {}
        self._rows: list[bytes] = []
        self.end = _START.size
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            os.fchmod(self._handle, mode)  # whatever the habits of this account
            os.pwrite(self._handle, _START.pack(_PACK, self._token), 0)
        except BaseException:
            self.abandon()
            raise

    def add(self, results: Sequence[NewResult]) -> list[tuple[int, int]]:
        """Write a record; returns where the bytes of each are: offset and length. Raises OSError."""
        new = [name for name in dict.fromkeys(one.name for one in results) if name not in self._names]
        for name in new:
            self._names[name] = len(self._names)
        lengths = [memoryview(one.content).nbytes for one in results]
        names = msgspec.msgpack.encode(new)
        first = self.end + _HEAD.size + _LENGTH.size + len(names) + ROW.itemsize * len(results)
        offsets = [*accumulate(lengths, initial=first)][:-1]
        rows = b"".join(
            _ROW.pack(one.id, one.digest, at, length, one.seconds, one.added, self._names[one.name], one.codec)
            for one, at, length in zip(results, offsets, lengths, strict=True)
        )
        meta = _LENGTH.pack(len(names)) + names + rows
        head = _RECORD, len(meta), sum(lengths)
        parts = [_HEAD.pack(*head, self._sealed(head, meta)) + meta, *(one.content for one in results)]
        _write_at(self._handle, parts, self.end)
        self.end = first + sum(lengths)
        self._rows.append(rows)
        return list(zip(offsets, lengths, strict=True))

    def _sealed(self, head: tuple[bytes, int, int], meta: bytes) -> bytes:
        return _record_seal(self._seal, self._token, self.end, head[1:], meta)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes that were written."""
        return read_at(self._handle, offset, length)

    @property
    def content(self) -> Content:
        """What was added so far."""
        rows = np.frombuffer(b"".join(self._rows), ROW)
        return Content(rows, tuple(self._names), self.end)

    def close(self) -> None:
        """Remove what an error left at the end."""
        if self._handle >= 0:
            with suppress(OSError):
                os.ftruncate(self._handle, self.end)
            os.close(self._handle)
            self._handle = -1

    def abandon(self) -> None:
        """Remove the pack."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        self.path.unlink(missing_ok=True)


def _record_seal(seal: OwnSeal, token: bytes, at: int, lengths: tuple[int, int], meta: ByteBuffer) -> bytes:
    """Of a record at its place in its pack: none passes for another."""
    return seal.of("record", token + struct.pack("<QIQ", at, *lengths), meta)[:ID]


def _write_at(handle: int, parts: Sequence[ByteBuffer], at: int) -> None:
    """Everything: one call writes 2 GB, and so many pieces, at the most."""
    left = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
    while left:
        written = os.pwritev(handle, left[:_MOST_PARTS], at)
        at += written
        while written and written >= left[0].nbytes:
            written -= left.pop(0).nbytes
        if written:
            left[0] = left[0][written:]


def read_at(handle: int, offset: int, length: int) -> bytes:
    """So many bytes, or those that are there."""
    found = os.pread(handle, length, offset)
    if len(found) == length or not found:
        return found
    pieces = [found]
    while found and (left := length - sum(map(len, pieces))):
        found = os.pread(handle, left, offset + length - left)
        pieces.append(found)
    return b"".join(pieces)


def scanned(path: Path, seal: OwnSeal, known: Content = NOTHING) -> Content:
    """What is in a pack beyond what is known of it: every record that is whole, up to the first that is not."""
    try:
        handle = open_plain(path)
    except OSError:
        return known
    try:
        return _scanned(handle, seal, known)
    finally:
        os.close(handle)


def _scanned(handle: int, seal: OwnSeal, known: Content) -> Content:
    size = os.fstat(handle).st_size
    start = os.pread(handle, _START.size, 0)
    if len(start) < _START.size or start[:8] != _PACK:
        return known
    _, token = _START.unpack(start)
    at, names, rows = max(known.covered, _START.size), [*known.names], [known.rows]
    while len(head := os.pread(handle, _HEAD.size, at)) == _HEAD.size:
        word, meta_length, body_length, mac = _HEAD.unpack(head)
        end = at + _HEAD.size + meta_length + body_length
        if word != _RECORD or end > size or meta_length > _LARGEST_ROWS:
            break
        meta = read_at(handle, at + _HEAD.size, meta_length)
        if not hmac.compare_digest(_record_seal(seal, token, at, (meta_length, body_length), meta), mac):
            break
        (length,) = _LENGTH.unpack_from(meta)
        names += msgspec.msgpack.decode(meta[_LENGTH.size : _LENGTH.size + length], type=list[str])
        rows.append(np.frombuffer(meta, ROW, offset=_LENGTH.size + length))
        at = end
    return Content(np.concatenate(rows) if len(rows) > 1 else rows[0], tuple(names), at)


def write_index(pack: Path, content: Content, seal: OwnSeal, mode: int) -> None:
    """Beside the pack, in the place of the one that is there. Raises CenoteError where it cannot be written."""
    names = msgspec.msgpack.encode(content.names)
    start = _INDEX_START.pack(_INDEX, content.covered, len(content.rows), len(names))
    told = b"".join([start, names, content.rows.tobytes()])
    replace_file(pack.with_suffix(".idx"), [told, seal.end_of(told)], mode)


def read_index(pack: Path, seal: Voucher) -> Content | None:
    """What the index of a pack tells; None where there is none that this user, or whoever the seal is for, wrote."""
    data = read_plain(pack.with_suffix(".idx"))
    if data is None or len(data) < _INDEX_START.size + SEAL:
        return None
    told = memoryview(data)[:-SEAL]
    if not seal.vouches(told, data[-SEAL:]):
        return None
    word, covered, count, length = _INDEX_START.unpack_from(told)
    at = _INDEX_START.size
    if word != _INDEX or len(told) != at + length + count * ROW.itemsize:
        return None
    names = msgspec.msgpack.decode(told[at : at + length], type=tuple[str, ...])
    return Content(np.frombuffer(told, ROW, offset=at + length), names, covered)


def open_plain(path: Path) -> int:
    """A descriptor of a plain file: links and pipes could be put there by others. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "no plain file", str(path))
    return handle


def read_plain(path: Path, largest: int = 1 << 30) -> bytes | None:
    """The content of a plain file that is not larger than this; None where it cannot be read."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_size <= largest else None
    except OSError:
        return None


def replace_file(path: Path, parts: Iterable[bytes], mode: int) -> None:
    """Write a file whole or not at all, with these rights."""
    with storage.appearing(path) as temporary:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            os.fchmod(handle, mode)
            _write_at(handle, list(parts), 0)
        finally:
            os.close(handle)


def names_in(content: Content) -> Iterator[tuple[str, Rows]]:
    """The rows of each product, by its name."""
    for number, name in enumerate(content.names):
        yield name, content.rows[content.rows["name"] == number]
