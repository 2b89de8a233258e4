"""Fetch the bytes of the next task while this one computes."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from concurrent.futures import Future

from cenote.sources.root_tree.baskets import Fetch
from cenote.sources.root_tree.fetching import LOCAL_GAP, Ranges, groups_of, opened_bytes
from cenote.sources.support.files import is_remote, local_path

MOST = 4
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
            if len(self._coming) > MOST:
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
