"""Fetch bytes of files, neighbours together, and those of the next task ahead."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from cenote.analysis.sources.root_tree.baskets import DamagedError, Fetch
from cenote.analysis.sources.support.files import is_remote, local_path, remote_files
from cenote.common.values import dataclass

LOCAL_GAP = 16_000
"""Bytes that are read and thrown away rather than asking twice."""
REMOTE_GAP = 64_000
"""The same by a network."""
MOST = 4_000_000
"""Bytes that are asked for at once, unless a single basket has more."""

Ranges = Sequence[tuple[int, int]]
"""First byte, and how many."""


class OpenBytes:
    """The bytes of one file."""

    def __init__(self, read_all: Callable[[Ranges], list[bytes]], *, remote: bool) -> None:
        self._read_all = read_all
        self._remote = remote

    def fetch(self, seek: int, size: int) -> memoryview:
        """As they are asked for."""
        return _whole(memoryview(self._read_all([(seek, size)])[0]), seek, size)

    def merged(self, ranges: Iterable[tuple[int, int]]) -> Fetch:
        """Of these ranges: by a network all with one question, here when the first of its neighbours is needed."""
        groups = _groups(ranges, REMOTE_GAP if self._remote else LOCAL_GAP)
        if self._remote and groups:
            found = self._read_all([(group.start, group.stop - group.start) for group in groups])
            for group, data in zip(groups, found, strict=True):
                group.data = memoryview(data)
        return _MergedReads(self._read_all, groups)


@contextmanager
def opened_bytes(url: str) -> Iterator[OpenBytes]:
    """Of a file that is open meanwhile."""
    if is_remote(url):
        yield OpenBytes(_remote_reader(url), remote=True)
        return
    file = os.open(local_path(url), os.O_RDONLY)
    try:
        yield OpenBytes(lambda ranges: [os.pread(file, size, seek) for seek, size in ranges], remote=False)
    finally:
        os.close(file)


def _remote_reader(url: str) -> Callable[[Ranges], list[bytes]]:
    filesystem, path = remote_files(url)

    def read_all(ranges: Ranges) -> list[bytes]:
        starts = [seek for seek, _ in ranges]
        ends = [seek + size for seek, size in ranges]
        found: list[Any] = filesystem.cat_ranges([path] * len(ranges), starts, ends)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return found

    return read_all


def _whole(found: memoryview, seek: int, size: int) -> memoryview:
    if len(found) != size:
        raise DamagedError(f"{size} bytes at byte {seek} are cut short")
    return found


@dataclass
class _Group:
    """Ranges that are read together."""

    start: int
    stop: int
    left: int = 1
    """How many of them nobody has asked for yet."""
    data: memoryview | None = None


def groups_of(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """First and last byte of what is read together."""
    return [(group.start, group.stop) for group in _groups(ranges, gap)]


def _groups(ranges: Iterable[tuple[int, int]], gap: int) -> list[_Group]:
    groups: list[_Group] = []
    for seek, size in sorted(set(ranges)):
        last = groups[-1] if groups else None
        if last is not None and seek <= last.stop + gap and max(last.stop, seek + size) - last.start <= MOST:
            last.stop = max(last.stop, seek + size)
            last.left += 1
        else:
            groups.append(_Group(seek, seek + size))
    return groups


class _MergedReads:
    """What was read is let go when the last range in it has been asked for."""

    def __init__(self, read_all: Callable[[Ranges], list[bytes]], groups: list[_Group]) -> None:
        self._read_all = read_all
        self._groups = groups
        self._starts = [group.start for group in groups]

    def __call__(self, seek: int, size: int) -> memoryview:
        group = self._groups[bisect_right(self._starts, seek) - 1]
        if group.data is None:
            group.data = memoryview(self._read_all([(group.start, group.stop - group.start)])[0])
        found = _whole(group.data[seek - group.start : seek - group.start + size], seek, size)
        group.left -= 1
        if group.left == 0:
            group.data = None
        return found


# Fetch the bytes of the next task while this one computes.


MOST_AHEAD = 4
"""Tasks whose bytes may be on their way, or wait to be used: one for each slot of most workers."""
_LITTLE = 1_000_000
"""Bytes of a file here that are there as soon as they are asked for."""

_Key = tuple[str, tuple[tuple[int, int], ...]]


class ReadAhead:
    """What this process asked for before a task needs it. Nothing here fails: who reads later is told what is wrong."""

    def __init__(self) -> None:
        self._coming: OrderedDict[_Key, Future[Fetch]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def coming(self) -> int:
        """How many tasks it was done for that have not come for it."""
        return len(self._coming)

    def begin(self, url: str, ranges: Ranges) -> None:
        """Returns at once. The system is told what will be read of a file here; a thread fetches it from elsewhere."""
        if not is_remote(url):
            if sum(size for _, size in ranges) > _LITTLE:
                _advise(url, ranges)
            return
        key = (url, tuple(ranges))
        with self._lock:
            if key in self._coming:
                return
            coming = self._coming[key] = Future()
            if len(self._coming) > MOST_AHEAD:
                self._coming.popitem(last=False)  # nobody came for it
        threading.Thread(target=_fetch, args=(url, ranges, coming), daemon=True).start()

    def take(self, url: str, ranges: Ranges) -> Fetch | None:
        """What was begun, once it is there; None where nothing was, or where it failed."""
        with self._lock:
            coming = self._coming.pop((url, tuple(ranges)), None)
        return None if coming is None or coming.exception() is not None else coming.result()


def _advise(url: str, ranges: Ranges) -> None:
    try:
        file = os.open(local_path(url), os.O_RDONLY)
    except OSError:
        return
    try:
        for start, stop in groups_of(ranges, LOCAL_GAP):
            os.posix_fadvise(file, start, stop - start, os.POSIX_FADV_WILLNEED)
    except (AttributeError, OSError):
        return  # a system without it
    finally:
        os.close(file)


def _fetch(url: str, ranges: Ranges, coming: Future[Fetch]) -> None:
    try:
        with opened_bytes(url) as file:
            coming.set_result(file.merged(ranges))
    except BaseException as problem:
        coming.set_exception(problem)


AHEAD = ReadAhead()
