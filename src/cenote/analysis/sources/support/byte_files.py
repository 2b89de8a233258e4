"""Read bytes of files, also of compressed ones, in constant memory, and say what is in a file by all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import xxhash

from cenote.analysis.sources.support.files import is_remote, local_path, remote_files
from cenote.common import errors

_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""Ending → what Arrow calls it."""


class ByteFile(Protocol):
    """A file that is open."""

    def read_at(self, start: int, size: int) -> bytes:
        """So many bytes from this one on; fewer at the end of the file. Of a compressed file, as they were before."""


def file_size(url: str) -> int:
    """In bytes, as it is stored. Raises `bad-input` for an empty file, which no format has."""
    if is_remote(url):
        files, path = remote_files(url)
        return int(files.info(path).get("size") or 0)
    size = local_path(url).stat().st_size
    if size == 0 and local_path(url).is_file():
        raise errors.error(errors.BAD_INPUT, f"{url} is empty: a file of 0 bytes")
    return size


@contextmanager
def opened(url: str) -> Iterator[Any]:  # Any: a file of Python or of fsspec
    """A file that can be read and searched, as libraries take it."""
    if not is_remote(url):
        with local_path(url).open("rb") as file:
            yield file
        return
    files, path = remote_files(url)
    with files.open(path, "rb") as file:
        yield file


@contextmanager
def byte_file(url: str) -> Iterator[ByteFile]:
    """The bytes of one file."""
    algorithm = next((name for ending, name in _COMPRESSED.items() if url.partition("?")[0].endswith(ending)), None)
    with opened(url) as file:
        if algorithm is None:
            yield _Plain(file)
        else:
            yield _Compressed(file, algorithm)


class _Plain:
    def __init__(self, file: Any) -> None:
        self._file = file

    def read_at(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        found: bytes = self._file.read(size)
        return found


class _Compressed:
    """Such a file can be read from its beginning only: to go back is to begin again."""

    def __init__(self, file: Any, algorithm: str) -> None:
        self._file, self._algorithm = file, algorithm
        self._begin()

    def _begin(self) -> None:
        import pyarrow as pa

        self._file.seek(0)
        self._stream, self._at = pa.CompressedInputStream(self._file, self._algorithm), 0

    def read_at(self, start: int, size: int) -> bytes:
        if start < self._at:
            self._begin()
        while self._at < start and (passed := self._stream.read(min(start - self._at, 1 << 20))):
            self._at += len(passed)
        found: bytes = self._stream.read(size)
        self._at += len(found)
        return found


# Say what is in a file by all of its bytes, where nothing in the file says it.


FEW_BYTES = 1_000_000
"""Reading so many costs less than a hundredth of what a task does with them."""
_PIECE = 4_000_000


def content_of_few(url: str, size: int) -> str:
    """Of a file of this size, as `FileInfo` has it; empty for a large one, and for one elsewhere."""
    if is_remote(url) or size > FEW_BYTES:
        return ""
    return content_of_bytes(local_path(url).read_bytes())


def content_of_bytes(whole: bytes) -> str:
    """The same of bytes that are there already."""
    return f"bytes-{xxhash.xxh3_128_hexdigest(whole)}"


def checksum(url: str) -> str:
    """Of a file of any size, which is read whole: one that nobody can imitate."""
    hashed = hashlib.sha256()
    with opened(url) as file:
        while piece := file.read(_PIECE):
            hashed.update(piece)
    return f"sha256-{hashed.hexdigest()}"
