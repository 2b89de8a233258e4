"""Write archives: the same members give the same bytes, whoever writes them, when and where."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from cenote import errors
from cenote.machine import this_machine
from cenote.packing.archive import Compression
from cenote.packing.progress import PackingStep, Progress
from cenote.values import dataclass

ENDINGS: dict[Compression, str] = {"zstd": ".tar.zst", "gzip": ".tar.gz"}
_MODIFIED = 315_619_200
"""When all files were last changed: on 2 January 1980, since when every format of archives and packages has dates."""
_BLOCK = 4096
"""Bytes that a file system gives out at a time."""
_ZSTD_LEVEL, _GZIP_LEVEL = 3, 4
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Member:
    """What an archive holds under one name: a file, a folder, or a link."""

    name: str
    content: bytes | Path | None = None
    """Of a file: it is copied from where it lies, or written from here. None for anything else."""
    executable: bool = False
    link: str = ""
    """Where a symbolic link leads."""
    same_as: str = ""
    """The earlier member that this is another name of."""

    @property
    def size(self) -> int:
        """Bytes of its content."""
        if isinstance(self.content, Path):
            return self.content.stat().st_size
        return len(self.content or b"")


@dataclass(frozen=True)
class Written:
    """What came out."""

    digest: str
    size: int
    unpacked: int
    """Bytes of disk that its files will take."""


def best_compression() -> Compression:
    """That can be written here."""
    return "zstd" if find_spec("zstandard") else "gzip"


def write_archive(
    file: Path, members: Iterable[Member], compression: Compression, progress: Progress, *, total: int
) -> Written:
    """Write a file; `total` is about how many bytes of content there will be. Members come in the order given."""
    unpacked = 0
    with file.open("wb") as raw:
        hashed = _Hashed(raw)
        with _compressed(hashed, compression) as stream:
            counted = _Counted(stream, progress, total)
            with tarfile.TarFile(fileobj=counted, mode="w", format=tarfile.GNU_FORMAT) as archive:  # type: ignore[arg-type]  # it only writes
                archive.copybufsize = _AT_ONCE  # type: ignore[attr-defined]  # typeshed lacks it
                for member in members:
                    unpacked += _add(archive, member)
    return Written(hashed.digest.hexdigest(), hashed.size, unpacked)


def _add(archive: tarfile.TarFile, member: Member) -> int:
    """Returns the bytes of disk that it will take."""
    info = tarfile.TarInfo(member.name)
    info.mtime, info.mode = _MODIFIED, 0o755
    if member.link or member.same_as:
        info.type = tarfile.SYMTYPE if member.link else tarfile.LNKTYPE
        info.linkname = member.link or member.same_as
    elif member.content is None:
        info.type = tarfile.DIRTYPE
    else:
        info.mode = 0o755 if member.executable else 0o644
        with io.BytesIO(member.content) if isinstance(member.content, bytes) else member.content.open("rb") as content:
            info.size = member.size
            try:
                archive.addfile(info, content)
            except OSError as problem:
                if problem.errno is None:  # tarfile's own
                    words = f"{member.name} changed while it was packed"
                    raise errors.error(errors.BAD_ENVIRONMENT, words, hint="pack it again") from problem
                raise
            return -(-info.size // _BLOCK) * _BLOCK
    archive.addfile(info)
    return 0 if member.same_as else _BLOCK


class _Sink(Protocol):
    def write(self, data: bytes, /) -> object: ...


class _Hashed(io.RawIOBase):
    """Hashes and counts what goes to a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.digest, self.size = file, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # whoever writes here has bytes
        self._file.write(data)
        self.digest.update(data)
        self.size += len(data)
        return len(data)


class _Counted:
    """Tells how much went through."""

    def __init__(self, sink: _Sink, progress: Progress, total: int) -> None:
        self._sink, self._progress, self._total, self._done, self._told = sink, progress, total, 0, 0
        progress(PackingStep("compressing", 0, total))

    def write(self, data: bytes) -> int:
        self._sink.write(data)
        self._done += len(data)
        if self._done - self._told >= _AT_ONCE:
            self._told = self._done
            self._progress(PackingStep("compressing", min(self._done, self._total), self._total))
        return len(data)

    def tell(self) -> int:
        return self._done


@contextmanager
def _compressed(sink: _Hashed, compression: Compression) -> Iterator[_Sink]:
    if compression == "gzip":
        with gzip.GzipFile("", "wb", _GZIP_LEVEL, sink, mtime=0) as stream:
            yield stream
        return
    from zstandard import ZstdCompressor  # an extra: `cenote[environments]`

    # However many threads there are, the bytes are the same; without any (0) they would be others.
    compressor = ZstdCompressor(level=_ZSTD_LEVEL, threads=this_machine().cpus, write_checksum=True)
    with compressor.stream_writer(cast("BinaryIO", sink), closefd=False) as stream:
        yield stream
