"""Know which tasks may wait no longer, without a look at all the others."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

_SPARE = 1000
"""Entries that are forgotten together, where they are also half of all."""


class Deadlines:
    """Tasks, and until when each may wait."""

    def __init__(self) -> None:
        self._ends: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        """The same, with some that hold no longer."""

    def set(self, task: str, at: float) -> None:
        """It may wait until then."""
        if self._ends.get(task) == at:
            return
        self._ends[task] = at
        heappush(self._heap, (at, task))
        if len(self._heap) > 2 * len(self._ends) + _SPARE:
            self._heap = [(end, name) for name, end in self._ends.items()]
            heapify(self._heap)

    def clear(self, task: str) -> None:
        """It waits no longer, or may wait for ever."""
        self._ends.pop(task, None)

    def is_any_over(self, now: float) -> bool:
        """Whether there are such tasks."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return bool(self._heap) and self._heap[0][0] <= now

    def over(self, now: float, *, most: int) -> list[str]:
        """Those whose time is over, the longest first; they are not told again."""
        found: list[str] = []
        while len(found) < most and self.is_any_over(now):
            _, task = heappop(self._heap)
            del self._ends[task]
            found.append(task)
        return found
