"""Lay out the folder of one user's results, read what is there, and tell which processes use it."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from cenote.common import storage
from cenote.common.values import dataclass
from cenote.execution.runtime.result_store.packs import (
    NOTHING,
    VERSION,
    Content,
    OwnSeal,
    SigningSeal,
    open_plain,
    read_index,
    read_plain,
    replace_file,
    scanned,
    write_index,
)
from cenote.execution.runtime.result_store.table import Pack, key_in, myself
from cenote.execution.worker.results.store import trusted_key

PACK = ".pack"
OWNER = "owner"
"""The file of a shared store that says whose folder it is."""


@dataclass(frozen=True)
class ResultFolder:
    """Where one's own results are. Nothing is made before something is written."""

    path: Path
    mode: int = 0o600
    """Rights of its files: others who share the store may read them."""
    keys: Path | None = None
    """Where the key is, if others share the store: with it results are signed. Otherwise it is in the folder."""

    @property
    def packs(self) -> Path:
        """Of packs, their indexes, and when their results were of use."""
        return self.path / "packs"

    @property
    def running(self) -> Path:
        """Of the processes that use the store."""
        return self.path / "running"

    @property
    def lock(self) -> Path:
        """Held by who makes room."""
        return self.path / "lock"

    @property
    def version(self) -> str:
        """Of the layout; nothing where there is none yet."""
        return (read_plain(self.path / "version", 100) or b"").decode("ascii", "replace").strip()

    @property
    def is_known(self) -> bool:
        """Whether it is laid out as this version of Cenote does it, or not at all yet."""
        return self.version in ("", str(VERSION))

    @cached_property
    def own_seal(self) -> OwnSeal:
        """Its key is made where there is none that nobody else can know."""
        return OwnSeal(key_in(self.path)) if self.keys is None else SigningSeal(key_in(self.keys))

    @property
    def _has_key(self) -> bool:
        return trusted_key(self.keys or self.path) is not None

    @property
    def is_foreign(self) -> bool:
        """Whether somebody else made it, or may change what is in it."""
        try:
            facts = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return not storage.is_own_folder(facts) or bool(facts.st_mode & 0o022)

    @property
    def has_lost_key(self) -> bool:
        """Whether there are results and no key for them, or one that somebody else may know."""
        return not self._has_key and any(self.packs.glob(f"*{PACK}"))

    def make(self) -> None:
        """Make the folders. Raises OSError, or CenoteError with what the file system refuses."""
        rights = self.mode | 0o100 | (self.mode & 0o044) >> 2
        for folder in (self.path, self.packs, self.running, self.path / "dropped"):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                of_the_group = folder.stat().st_mode & stat.S_ISGID  # what is in it is the group's as well
                folder.chmod(rights | of_the_group)
        if self.keys is not None:
            replace_file(self.path / OWNER, [myself().written().encode() + b"\n"], self.mode)
        if not self.version:
            replace_file(self.path / "version", [b"%d\n" % VERSION], self.mode)

    def known_packs(self) -> list[Pack]:
        """Every pack with what is in it, the newest first; none without the key that they were sealed with."""
        return [Pack(path, self.content(path)) for path in self.all_packs()] if self._has_key else []

    def all_packs(self) -> list[Path]:
        """The newest first."""
        found = []
        for path in self.packs.glob(f"*{PACK}"):
            try:
                found.append((-path.stat().st_mtime_ns, path))
            except FileNotFoundError:  # removed meanwhile
                continue
        return [path for _, path in sorted(found)]

    def content(self, path: Path) -> Content:
        """What is in a pack: as its index tells, and beyond that every record that is whole. What was cut off since
        proves to be damaged when it is read."""
        known = read_index(path, self.own_seal) or NOTHING
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return NOTHING
        return scanned(path, self.own_seal, known) if size > known.covered else known

    def index(self, pack: Pack) -> None:
        """Write its index, unless that tells everything already."""
        known = read_index(pack.path, self.own_seal)
        if known is None or known.covered != pack.content.covered:
            write_index(pack.path, pack.content, self.own_seal, self.mode)

    def open_pack(self, path: Path) -> int:
        """A descriptor to read it. Raises OSError."""
        return open_plain(path)

    # what is not to be found again

    def forget(self, pack: Pack, ids: bytes) -> None:
        """These results of a pack. Raises OSError."""
        self.make()
        with self._dropped(pack).open("ab") as file:
            file.write(ids)

    def dropped_in(self, pack: Pack) -> bytes:
        """Their ids."""
        return read_plain(self._dropped(pack)) or b""

    def remove(self, pack: Pack) -> None:
        """Remove a pack with all that belongs to it."""
        for path in (pack.path, *(pack.path.with_suffix(suffix) for suffix in (".idx", ".used")), self._dropped(pack)):
            path.unlink(missing_ok=True)

    def _dropped(self, pack: Pack) -> Path:
        return self.path / "dropped" / f"{pack.owner.fingerprint if pack.owner else ''}{pack.path.stem}"

    # of what use it was

    def used(self, pack: Pack) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
        """When each result was last of use, in seconds since 1970: at first when it was added."""
        added = pack.content.rows["added"].astype(np.uint32)
        noted = np.frombuffer((read_plain(pack.path.with_suffix(".used")) or b"")[: added.nbytes // 4 * 4], np.uint32)
        added[: len(noted)] = noted
        return added

    def note_used(self, pack: Pack, used: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
        """Write it down. Raises CenoteError."""
        replace_file(pack.path.with_suffix(".used"), [used.tobytes()], self.mode)


# Tell others that a process uses the store, and what it found there: that, and what it added, stays.
#
# Each process has a file of its own, which it holds a lock on. On this machine the lock tells whether it still
# runs; of others, and where there are no locks, it counts as running until its file is a day old.


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
