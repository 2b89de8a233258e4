"""Keep the news that a worker is gone until the batch system has said why, or has taken too long."""

from __future__ import annotations

from collections.abc import Callable

from cenote.engine.messages import TaskFailed, WorkerLost

_PATIENCE = 4.0
"""Seconds that a batch system has to notice that a job is over."""
_AGAIN = 0.5
"""Seconds between two questions about it."""


class PendingLosses:
    """Workers that are gone, and their tasks, in the order in which it was heard."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: list[WorkerLost | TaskFailed] = []
        self._since: dict[str, float] = {}
        self._asked = 0.0

    def keep(self, event: WorkerLost, *, to_end: float) -> bool:
        """Keep the news for now; False when it has been kept for long enough.

        `to_end` is how many seconds a job needs to bring its output home, which tells more than its absence.
        """
        now = self._clock()
        if now - self._since.setdefault(event.worker, now) >= _PATIENCE + to_end:
            return False
        self._kept.append(event)
        self._asked = now
        return True

    def follows(self, event: TaskFailed) -> bool:
        """Keep the news of a task whose worker's is kept."""
        kept = any(isinstance(one, WorkerLost) and one.worker == event.worker for one in self._kept)
        if kept:
            self._kept.append(event)
        return kept

    def again(self) -> list[WorkerLost | TaskFailed]:
        """What is to be looked at once more, if it is time for that."""
        if self._clock() - self._asked < _AGAIN:
            return []
        kept, self._kept = self._kept, []
        return kept
