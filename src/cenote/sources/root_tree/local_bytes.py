"""Fetch bytes of files on this machine: neighbours together."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cenote.sources.root_tree.baskets import Fetch
from cenote.sources.root_tree.blocks import DamagedError
from cenote.sources.support.files import local_path

GAP = 16_000
"""Bytes that are read and thrown away rather than asking twice."""
MOST = 4_000_000
"""Bytes that are read at once, unless a single basket has more."""


@contextmanager
def opened_for_reading(url: str) -> Iterator[int]:
    """The descriptor of a file on this machine."""
    file = os.open(local_path(url), os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


def fetch_from(file: int) -> Fetch:
    """From an open file descriptor, as it is asked for."""
    return lambda seek, size: _whole(memoryview(os.pread(file, size, seek)), seek, size)


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


class MergedReads:
    """Fetches ranges that are known beforehand, each once: those that are close to each other in one request.

    What was read is let go when the last range in it has been asked for.
    """

    def __init__(self, file: int, ranges: Iterable[tuple[int, int]]) -> None:
        self._file = file
        self._groups: list[_Group] = []
        for seek, size in sorted(set(ranges)):
            last = self._groups[-1] if self._groups else None
            if last is not None and seek <= last.stop + GAP and max(last.stop, seek + size) - last.start <= MOST:
                last.stop = max(last.stop, seek + size)
                last.left += 1
            else:
                self._groups.append(_Group(seek, seek + size))
        self._starts = [group.start for group in self._groups]

    def __call__(self, seek: int, size: int) -> memoryview:
        """The bytes of one of the ranges."""
        group = self._groups[bisect_right(self._starts, seek) - 1]
        if group.data is None:
            group.data = memoryview(os.pread(self._file, group.stop - group.start, group.start))
        found = _whole(group.data[seek - group.start : seek - group.start + size], seek, size)
        group.left -= 1
        if group.left == 0:
            group.data = None
        return found
