"""Count the workers that the tasks of a segment cost, one after the other, without one of them being done."""

from __future__ import annotations

import msgspec

from cenote.engine.messages import FailureInfo, LossCause, TaskFailed
from cenote.errors import WORKER_LOST
from cenote.placement.pools import PlacedPool

_BY_ITS_TASK = frozenset({"died", "crashed", "overdue", "unknown"})
"""Ends of workers that what they ran may have caused."""


class WorkerToll:
    """Tasks take turns: each alone may lose few workers, where together they lose one after the other."""

    def __init__(self, limit: int) -> None:
        """A segment may lose so many times the workers of its pool."""
        self._limit = limit
        self._lost: dict[int, set[str]] = {}

    def pay(self, event: TaskFailed, segment: int, fate: LossCause, pool: PlacedPool) -> FailureInfo | None:
        """A task of this segment came back: why it is not tried again, where it and those like it end every worker."""
        if event.failure.cause != "lost" or fate not in _BY_ITS_TASK:
            return None
        lost = self._lost.setdefault(segment, set())
        lost.add(event.worker)
        if len(lost) <= self._limit * max(1, pool.most_workers):
            return None
        words = f"{len(lost)} workers in a row were lost while running tasks like it; the last one: "
        kind = event.failure.error_kind or WORKER_LOST.name
        return msgspec.structs.replace(event.failure, message=words + event.failure.message, error_kind=kind)

    def settle(self, segment: int) -> None:
        """A task of this segment is done: its code does not end every worker."""
        self._lost.pop(segment, None)
