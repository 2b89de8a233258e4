"""Walk a tree and write it as an archive: the same members give the same bytes, whoever writes them, when and where."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from cenote.common import errors
from cenote.common.machine import this_machine
from cenote.common.values import dataclass
from cenote.execution.packing.archive import Compression, PackingStep, Progress

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


# Walk the files of a tree in one order, leaving out what is not packed.


CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_STATES = {".git", ".hg", ".svn", ".ipynb_checkpoints"}


@dataclass(frozen=True)
class Found:
    """A file, a folder or a link, by its name in the tree."""

    name: str
    path: Path
    facts: os.stat_result
    """Of the link itself, where it is one."""

    @property
    def is_folder(self) -> bool:
        """And no link to one."""
        return stat.S_ISDIR(self.facts.st_mode)

    @property
    def is_link(self) -> bool:
        """A symbolic one."""
        return stat.S_ISLNK(self.facts.st_mode)


Left = Callable[[str], bool]
"""Whether what has this name in the tree is left out, with all that is below it."""


def left_out(patterns: Sequence[str] = (), at_top: frozenset[str] = frozenset()) -> Left:
    """Whatever is a cache, matches one of the patterns, or is one of these at the top of the tree."""

    def is_left_out(name: str) -> bool:
        last = name.rpartition("/")[2]
        if last in CACHES or last in _STATES or name in at_top:
            return True
        return any(fnmatch(name, pattern) for pattern in patterns)

    return is_left_out


def walk(root: Path, is_left_out: Left) -> list[Found]:
    """Files, folders and links, sorted by name; links are not followed, pipes and sockets are none of these."""
    return sorted(_below(str(root), "", is_left_out), key=lambda found: os.fsencode(found.name))


def _below(folder: str, prefix: str, is_left_out: Left) -> Iterator[Found]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            if is_left_out(name):
                continue
            found = Found(name, Path(entry.path), entry.stat(follow_symlinks=False))
            if found.is_folder:
                yield found
                yield from _below(entry.path, f"{name}/", is_left_out)
            elif found.is_link or stat.S_ISREG(found.facts.st_mode):
                yield found


def stamp(tree: Sequence[Found]) -> str:
    """Changes when a file of the tree does; nothing is read, so that it takes little time."""
    digest = hashlib.sha256()
    for found in tree:
        facts = found.facts
        if found.is_folder:
            words: tuple[object, ...] = (found.name,)
        elif found.is_link:
            words = (found.name, os.readlink(found.path))  # noqa: PTH115  # text is enough
        else:
            words = (found.name, facts.st_size, facts.st_mtime_ns, facts.st_mode & 0o100)
        digest.update(os.fsencode("\0".join(map(str, words))) + b"\n")
    return digest.hexdigest()
