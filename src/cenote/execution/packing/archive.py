"""Describe archives, how far packing one is, and what is locked or in use meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from cenote.common.values import dataclass

Compression = Literal["zstd", "gzip"]
ANY_PLATFORM = "noarch"
OWN_FOLDER = ".cenote"
"""In every archive: `activate.sh`, and where files hold the placeholder, `relocate.py` with its list."""


@dataclass(frozen=True)
class Archive:
    """A tar file, compressed. Its members are named from the folder that it is unpacked to: `bin/python`."""

    file: Path
    """An absolute path; its name has its digest, so that two archives never share one."""
    digest: str
    """SHA-256 of the file, in hex."""
    size: int
    """Bytes of the file."""
    unpacked: int
    """Bytes of disk once it is unpacked."""
    compression: Compression
    platform: str = ANY_PLATFORM
    """As conda names it: `linux-64`; `noarch` where any will do."""
    placeholder: str = ""
    """What stands in its files for the folder that it is unpacked to, which must not have a longer path; empty where
    nothing does. `bin/python .cenote/relocate.py FOLDER`, run in the unpacked tree, writes the folder instead."""


# Say how far the preparation of an environment is.


@dataclass(frozen=True)
class PackingStep:
    """How far the preparation of an environment is."""

    what: str
    """`installing 83 packages`, `compressing`."""
    done: int = 0
    total: int | None = None
    """Bytes; None where nobody knows how much there is to do."""


Progress = Callable[[PackingStep], None]
"""Hears of the steps, often."""


def unheard(*_: object) -> None:
    """For whatever nobody wants to know."""


# Let one process at a time work on something, and others know what is in use.


_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
"""What file systems answer that have no locks: there everybody works at once, on files of their own."""
_LOOK_EVERY = 0.2


@contextmanager
def locked(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock, for which this file is made; `waiting` is called again and again while others have it."""
    while True:
        with _opened(file) as lock:
            while not _take(lock, fcntl.LOCK_EX):
                waiting()
                time.sleep(_LOOK_EVERY)
            if _is_there(file, lock):  # who had it before may have removed it
                yield
                return


@contextmanager
def locked_at_once(file: Path) -> Iterator[bool]:
    """Hold a lock if nobody else does; whether it is held is what comes back. The file is gone afterwards, if so."""
    with _opened(file) as lock:
        taken = _take(lock, fcntl.LOCK_EX) and _is_there(file, lock)
        try:
            yield taken
        finally:
            if taken:
                file.unlink(missing_ok=True)


class InUse:
    """Keeps others from removing a file, as long as this object is there."""

    def __init__(self, file: Path) -> None:
        """Raises FileNotFoundError."""
        self._opened = file.open("rb")
        while not _take(self._opened, fcntl.LOCK_SH):  # somebody looks whether it is in use
            time.sleep(_LOOK_EVERY)
        if not _is_there(file, self._opened):
            raise FileNotFoundError(file)

    def __del__(self) -> None:
        if hasattr(self, "_opened"):
            self._opened.close()


def remove_unused(file: Path) -> bool:
    """Remove a file unless it is in use; whether it is gone."""
    try:
        with file.open("r+b") as opened:
            if not _take(opened, fcntl.LOCK_EX):
                return False
            file.unlink()
    except FileNotFoundError:
        pass
    return True


def _opened(file: Path) -> IO[str]:
    return os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w")


def _take(file: IO[bytes] | IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError as problem:
        return problem.errno in _NO_LOCKS
    return True


def _is_there(file: Path, opened: IO[bytes] | IO[str]) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(opened.fileno()))
    except FileNotFoundError:
        return False
