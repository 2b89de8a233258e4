"""Choose how many calls one instance makes: by how long calls took so far."""

from __future__ import annotations

import math

INSTANCE_SECONDS = 0.5
"""That calls of one instance should take together: to start one costs about 10 ms, which is 2 % of it."""
MOST_CALLS = 2000
"""Of one instance."""
_GROWTH = 8
"""A chunk is at most so many times as large as the largest that was measured."""
_MOST_KEPT_BYTES = 256 * 1024 * 1024
"""Of arguments and results that wait in this program."""
_MOST_KEPT, _FEWEST_KEPT = 50_000, 64
"""Calls that are under way, or whose results were not taken."""
_MEMORY = 0.7
"""How much of the average stays when something new is measured."""


class CallPace:
    """What is known of the calls of one function."""

    def __init__(self, chunksize: int | None = None) -> None:
        self._fixed = chunksize
        self._seconds: float | None = None
        """Of one call."""
        self._bytes = 0.0
        """Of one call and its result."""
        self._largest = 1

    def note(self, calls: int, seconds: float, size: int) -> None:
        """So many calls of one instance took so long, and their results were so large."""
        each, heavy = seconds / calls, size / calls
        self._seconds = each if self._seconds is None else _MEMORY * self._seconds + (1 - _MEMORY) * each
        self._bytes = max(heavy, _MEMORY * self._bytes + (1 - _MEMORY) * heavy)
        self._largest = max(self._largest, calls)

    @property
    def chunk(self) -> int:
        """Calls of one instance, where enough of them wait."""
        if self._fixed is not None:
            return self._fixed
        if self._seconds is None:
            return 1
        wanted = INSTANCE_SECONDS / max(self._seconds, 1e-7)
        return max(1, min(MOST_CALLS, _GROWTH * self._largest, int(wanted)))

    def chunk_of(self, waiting: int, slots: int) -> int:
        """The same where so many wait: every slot gets some."""
        if self._fixed is not None:
            return self._fixed
        return min(self.chunk, max(1, math.ceil(waiting / max(1, 2 * slots))))

    def kept(self, window: int) -> int:
        """Calls that may be under way or wait to be taken, for so many instances at once."""
        by_size = int(_MOST_KEPT_BYTES / self._bytes) if self._bytes else _MOST_KEPT
        return min(max(_FEWEST_KEPT, 2 * window * self.chunk), _MOST_KEPT, max(by_size, 1))
