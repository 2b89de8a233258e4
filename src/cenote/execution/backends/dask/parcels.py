"""Hold the events that a bundle leaves for other tasks, and lend them to workers of the same machine.

To send 50 MB through an encrypted connection costs sender and receiver 200 ms of processor time together. Workers of
one machine have them for a tenth of that: the sender writes them into a file in memory (`memfd`), once, and tells where
that is; the others map it. Such a file has no name in any folder, only its owner's user can open it, no one can change
it once it is sealed, and it is gone with the last process that has it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import secrets
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from dask.sizeof import sizeof

from cenote.execution.worker.results.bundle import PackedEvents, pack_whole, pickled, unpack

_CAN_LEND = hasattr(os, "memfd_create") and hasattr(mmap, "MAP_POPULATE")
"""Linux can, other systems send."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL if _CAN_LEND else 0
LENDS_FROM = 1_000_000
"""Bytes of events from which it is worth to ask for them instead of having them sent."""
_MOST_LENT = 200
"""Files that a worker lends at once: many systems allow a process 1024 open ones. Further events are sent."""
_lent: set[int] = set()
"""Descriptors of the files that this process lends."""


class LentFile(msgspec.Struct, frozen=True, array_like=True):
    """Where a worker has events for others of its machine."""

    process: int
    descriptor: int
    name: str
    """Random: a process of that number may be another one by now, or be in another container."""

    @property
    def path(self) -> Path:
        """Where Linux shows it to those who may have it."""
        return Path(f"/proc/{self.process}/fd/{self.descriptor}")

    def is_at(self, path: Path) -> bool:
        """Whether this is what lies there."""
        return str(path.readlink()) == f"/memfd:{self.name} (deleted)"


class Parcel:
    """Events by their names in the store."""

    def __init__(self, events: Mapping[str, PackedEvents]) -> None:
        self._events = events
        self._lending = threading.Lock()
        self._lent: LentFile | None = None

    @property
    def events(self) -> Mapping[str, PackedEvents]:
        """What it holds."""
        return self._events

    @property
    def nbytes(self) -> int:
        """What that takes in memory."""
        return sum(events.nbytes for events in self._events.values())

    def __reduce__(self) -> tuple[object, ...]:
        """As one pickle with few arrays beside it, which Dask sends without a copy."""
        body, beside = pickled(self._events)
        return _received, (body, *beside)

    def lend(self) -> LentFile | None:
        """Where others of this machine find it, from now on; None where it cannot be lent."""
        with self._lending:
            if self._lent is None and _CAN_LEND and len(_lent) < _MOST_LENT:
                with suppress(OSError):  # no memory, or no more open files
                    self._lent = self._written()
            return self._lent

    def _written(self) -> LentFile:
        name = f"cenote-{secrets.token_hex(16)}"
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        _lent.add(descriptor)
        end = weakref.finalize(self, _take_back, descriptor)
        try:
            for part in pack_whole(self._events):
                left = memoryview(part)
                while left.nbytes:
                    left = left[os.write(descriptor, left) :]
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            self._events = _mapped(descriptor)  # one copy in memory is enough
        except BaseException:
            end()
            raise
        return LentFile(os.getpid(), descriptor, name)


def borrowed(file: LentFile) -> Parcel | None:
    """What another worker lends; None where that is not to be had from here."""
    with suppress(OSError):
        if not file.is_at(file.path):
            return None
        descriptor = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if file.is_at(Path(f"/proc/self/fd/{descriptor}")):
                return Parcel(_mapped(descriptor))
        finally:
            os.close(descriptor)
    return None


def _take_back(descriptor: int) -> None:
    _lent.discard(descriptor)
    os.close(descriptor)


def _mapped(descriptor: int) -> Mapping[str, PackedEvents]:
    """With all its pages: it counts as memory of whoever has it, and a task that reads it need not wait for them."""
    flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
    return dict(unpack(memoryview(mmap.mmap(descriptor, 0, flags=flags, prot=mmap.PROT_READ))))


def _received(body: bytes, *beside: pickle.PickleBuffer) -> Parcel:
    return Parcel(pickle.loads(body, buffers=beside))


@sizeof.register(Parcel)  # type: ignore[untyped-decorator]  # dask publishes no types for it
def _size(parcel: Parcel) -> int:
    """For Dask: what to keep in memory, what to move, and to whom."""
    return parcel.nbytes
