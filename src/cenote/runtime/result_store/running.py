"""Tell others that a process uses the store, and what it found there: that, and what it added, stays.

Each process has a file of its own, which it holds a lock on. On this machine the lock tells whether it still runs; of
others, and where there are no locks, it counts as running until its file is a day old.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from cenote.runtime.result_store.packs import read_plain
from cenote.values import dataclass

_STALE = 86_400.0
"""Seconds after which a process elsewhere counts as gone."""
_TOUCH_EVERY = 3_600.0


class Running:
    """This process, among those that use a store."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError where nothing can be written."""
        self.token = secrets.token_hex(8)
        self.path = folder / f"{_host()}-{self.token}"
        folder.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
        with suppress(OSError):  # no locks there
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._touched = time.monotonic()

    def found(self, ids: bytes) -> None:
        """These are of use to this process. Raises OSError."""
        left = memoryview(ids)
        while left:
            left = left[os.write(self._handle, left) :]

    def still(self) -> None:
        """Say now and then that the process still runs."""
        if time.monotonic() > self._touched + _TOUCH_EVERY:
            self._touched = time.monotonic()
            with suppress(OSError):
                os.utime(self._handle)

    def ids(self) -> bytes:
        """What was of use to this process."""
        return read_plain(self.path) or b""

    def close(self) -> None:
        """The process needs nothing any more, and what was of use to it is noted."""
        with suppress(OSError):
            self.path.unlink()
        self.leave()

    def leave(self) -> None:
        """The process needs nothing any more; whoever makes room next notes what was of use to it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@dataclass(frozen=True)
class OtherProcess:
    """A process that uses the store, or did so when it was killed."""

    path: Path
    runs: bool
    found: bytes
    """Ids, one after the other."""
    at: int
    """When it was last known to run, in seconds since 1970."""

    @property
    def token(self) -> str:
        """What its packs are called by."""
        return self.path.name.rpartition("-")[2]


def others(folder: Path, own: str) -> Iterator[OtherProcess]:
    """All processes but the one with this token."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208  # names are enough
    except FileNotFoundError:
        return
    for path in (folder / name for name in names):
        with suppress(FileNotFoundError):
            at = path.stat().st_mtime
            if path.name.rpartition("-")[2] != own:
                runs = _is_held(path) if path.name.startswith(f"{_host()}-") else time.time() < at + _STALE
                yield OtherProcess(path, runs, read_plain(path) or b"", int(at))


def _is_held(path: Path) -> bool:
    """Whether a process of this machine has the lock; where there are no locks, whether it may be running."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as problem:
            return problem.errno in (errno.EWOULDBLOCK, errno.EACCES) or time.time() < path.stat().st_mtime + _STALE
    return False


def _host() -> str:
    return socket.gethostname().replace("/", "_") or "localhost"
