"""Keep results under their content hash: sealed, written atomically, found again by any later run."""

from __future__ import annotations

import hashlib
import hmac
import mmap
import os
import re
import secrets
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from io import FileIO
from pathlib import Path
from typing import Any

from cenote.common import storage
from cenote.common.values import dataclass
from cenote.execution.worker.results.bundle import ByteBuffer, pack, unpack

# Keep the key of a run's folder, by which results are known to be the run's own.


NAME = "key"
_BYTES = 32
_made: dict[str, bytes] = {}
"""Folder → the key that this process made for it: some file systems cannot keep a file from others, and what they hold
is not trusted by a later run."""


def key_of(folder: Path) -> bytes:
    """The key that is there, or else a new one."""
    return trusted_key(folder) or _made.get(str(folder.absolute())) or make_key(folder)


def trusted_key(folder: Path) -> bytes | None:
    """The key, if only we can have written it and nobody else can read it; None otherwise.

    It must be a plain file of ours with one name and without access for others: a link, a file that somebody else put
    there, or one that others may read or change could be known to whoever planted results beside it.
    """
    try:
        handle = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        ours = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and facts.st_nlink == 1
        if not ours or stat.S_IMODE(facts.st_mode) & 0o077 or facts.st_size != _BYTES:
            return None
        key = file.read(_BYTES)
    return key if len(key) == _BYTES else None


def make_key(folder: Path) -> bytes:
    """A new key, in the place of whatever was there: what was written under another one is not trusted any more."""
    folder.mkdir(parents=True, exist_ok=True)
    key = secrets.token_bytes(_BYTES)
    temporary = folder / f".{NAME}.{os.getpid()}"
    with suppress(FileNotFoundError):
        temporary.unlink()
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(handle)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        problem.filename = problem.filename or str(temporary)  # a disk that is full does not say which
        raise
    temporary.replace(folder / NAME)
    _made[str(folder.absolute())] = key
    return key


def forget_key(folder: Path) -> None:
    """Remove it; one that is not there is not an error."""
    (folder / NAME).unlink(missing_ok=True)
    _made.pop(str(folder.absolute()), None)


_MAPPED_FROM = 1 << 20
"""Larger files are mapped rather than read, so that columns are taken from the page cache without a copy."""
_SEAL = struct.Struct("<8sQ16s32s")
"""What a stored file begins with: a word, its whole length, which key sealed it, and the keyed sum of the rest."""
_SEALED = b"cenote2\n"
_HASH = 32
_LONG_SECONDS = 10.0
"""Work that is worth waiting for the disk: what took less is on the disk soon enough, and made again as quickly."""
_NAME_OF_RESULT = re.compile(r"([0-9a-f]{32})(?:-(\d+))?")


@dataclass(frozen=True)
class ResultName:
    """What a result is called, in the store and on its way there; as text it is `KEY`, `KEY-1`, `KEY-2`, …"""

    key: str
    """A content hash: of the task that it belongs to, or of the events."""
    part: int = 0
    """Which of several results with this key it is. Who writes them says what each part is."""

    def __str__(self) -> str:
        return f"{self.key}-{self.part}" if self.part else self.key

    @classmethod
    def read(cls, text: str) -> ResultName | None:
        """None where no result is called so."""
        match = _NAME_OF_RESULT.fullmatch(text)
        return match and cls(match[1], int(match[2] or 0))


class DamagedResultError(Exception):
    """A stored result is not what was written: cut, changed, gone, or not of this run at all."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(f"the stored result {path} is damaged")
        self.name, self.path = name, path


def is_worth_waiting(kind: str, seconds: float) -> bool:
    """Whether a task's result has to be on the disk before anything else happens.

    That takes some milliseconds. A merge is worth them, for its parts are removed once it is there, and so is long
    work. What else a crash of the machine catches on the way is found damaged, and made again.
    """
    return kind == "merge" or seconds >= _LONG_SECONDS


class Store:
    """A folder of results. A result is there entirely or not at all, and is read only if it is what was written."""

    def __init__(self, folder: Path, key: bytes | None = None) -> None:
        self.folder = folder
        self._place = str(folder)
        self._given_key = key

    @cached_property
    def key(self) -> bytes:
        """Of the run's folder. Looked up when it is first needed: workers that reach no store need none."""
        return self._given_key or key_of(self.folder)

    @cached_property
    def _key_name(self) -> bytes:
        """Tells keys apart, and tells nothing of them."""
        return hashlib.blake2b(self.key, digest_size=16, person=b"cenote key name").digest()

    def path(self, name: str) -> Path:
        """Where a result of this name lies, or would."""
        return Path(self._file(name))

    def _file(self, name: str) -> str:
        return f"{self._place}/{name[:2]}/{name}"

    def __contains__(self, name: str) -> bool:
        return self.path(name).exists()

    def names(self) -> set[str]:
        """Everything that is there, with one look at each folder."""
        return {entry.name for entry in self._entries()}

    def sizes(self) -> dict[str, tuple[int, float]]:
        """Everything that is there → its bytes, and when it was written."""
        found = {}
        for entry in self._entries():
            with suppress(FileNotFoundError):
                facts = entry.stat()
                found[entry.name] = (facts.st_size, facts.st_mtime)
        return found

    def size(self, name: str) -> int:
        """In bytes; 0 for what is not there."""
        try:
            return os.stat(self._file(name)).st_size  # noqa: PTH116  # as below
        except FileNotFoundError:
            return 0

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        if self.folder.is_dir():
            for folder in [entry for entry in os.scandir(self.folder) if len(entry.name) == 2 and entry.is_dir()]:
                yield from (entry for entry in os.scandir(folder) if not entry.name.startswith("."))

    def is_whole(self, name: str) -> bool:
        """Whether a result has the length that it was written with, under this run's key: a quick look."""
        try:
            with self.path(name).open("rb", buffering=0) as file:
                word, size, key, _ = _SEAL.unpack(file.read(_SEAL.size))
                return bool(word == _SEALED and key == self._key_name and size == _size(file))
        except (OSError, struct.error):
            return False

    def write(self, name: str, value: Any, *, wait: bool = False) -> int:
        """Store a value; returns its size in bytes."""
        return self.write_packed(name, pack(value), wait=wait)

    def write_packed(self, name: str, parts: Sequence[ByteBuffer], *, wait: bool = False) -> int:
        """Store a value that was packed, here or elsewhere; returns its size in bytes.

        With `wait` it is on the disk before it has its name.
        """
        seal = self._seal(name, parts)
        size = sum(len(part) for part in parts)
        whole = [seal, *parts]
        storage.write_whole(self._file(name), whole if size >= _MAPPED_FROM else [b"".join(whole)], wait=wait)
        return len(seal) + size

    def read(self, name: str) -> Any:
        """What was written under this name: of a mapping by names its bundle. Large arrays are read-only.

        Raises DamagedResultError where it is anything else.
        """
        return unpack(self.read_packed(name))

    def read_packed(self, name: str) -> memoryview:
        """The same, as it was packed."""
        data = self._content(name)
        try:
            word, size, key, written = _SEAL.unpack_from(data)
        except struct.error:
            raise DamagedResultError(name, self.path(name)) from None
        if word != _SEALED or size != len(data) or key != self._key_name:
            raise DamagedResultError(name, self.path(name))
        packed = data[_SEAL.size :]
        if not hmac.compare_digest(written, self._sum(name, [packed])):
            raise DamagedResultError(name, self.path(name))
        return packed

    def remove(self, name: str) -> None:
        """Forget a result; one that is gone already is not an error."""
        with suppress(FileNotFoundError):
            os.unlink(self._file(name))  # noqa: PTH108  # a third of pathlib's time, and it runs for every task

    def clear(self) -> None:
        """Forget everything: the results, what was half written, and the key. Files of other names stay."""
        for folder in [entry for entry in self.folder.glob("??") if entry.is_dir()]:
            for file in list(folder.iterdir()):
                if ResultName.read(file.name.removeprefix(".").partition(".")[0]):
                    file.unlink(missing_ok=True)
            with suppress(OSError):  # somebody keeps something there
                folder.rmdir()
        forget_key(self.folder)
        for known in ("key", "_key_name"):
            self.__dict__.pop(known, None)

    def _content(self, name: str) -> memoryview:
        try:
            with open(self._file(name), "rb", buffering=0) as file:  # noqa: PTH123  # as above
                if _size(file) < _MAPPED_FROM or not _is_ours_alone(file):
                    return memoryview(file.readall())
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError:
            raise DamagedResultError(name, self.path(name)) from None

    def _seal(self, name: str, parts: Sequence[ByteBuffer]) -> bytes:
        size = _SEAL.size + sum(len(part) for part in parts)
        return _SEAL.pack(_SEALED, size, self._key_name, self._sum(name, parts))

    def _sum(self, name: str, parts: Sequence[ByteBuffer]) -> bytes:
        """Keyed, and of the name too: nobody without the key can write a result, or pass off one as another."""
        summed = hashlib.blake2b(name.encode() + b"\0", key=self.key, digest_size=_HASH)
        for part in parts:
            summed.update(part)
        return summed.digest()


def _is_ours_alone(file: FileIO) -> bool:
    """Whether nobody else can change the file between our look at its seal and the reading."""
    facts = os.fstat(file.fileno())
    return facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def _size(file: FileIO) -> int:
    return os.fstat(file.fileno()).st_size
