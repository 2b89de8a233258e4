"""This file says in one word how a pool is, from the counts of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class PoolState(Enum):
    """How a pool is."""

    SUBMITTED = "Submitted"
    """It exists; no worker of it is on a machine yet."""
    PARTIALLY_DISPATCHED = "PartiallyDispatched"
    """Some workers have a machine, but none has joined."""
    FULLY_DISPATCHED = "FullyDispatched"
    """All its workers have a machine, but none has joined."""
    PARTIALLY_EXECUTING = "PartiallyExecuting"
    """Some workers have joined, others are still awaited."""
    FULLY_EXECUTING = "FullyExecuting"
    """All its workers have joined."""
    CLOSING = "Closing"
    """Nothing is left for it to do, and its workers are being ended."""
    CLOSED = "Closed"
    """It has no workers any more, and will have none."""
    FAILURE = "Failure"
    """It was given up: it kept losing its workers."""


@dataclass(frozen=True)
class WorkerCounts:
    """The workers of one pool, each counted once."""

    queued: int = 0
    """Asked for, and not on a machine yet."""
    dispatched: int = 0
    """On a machine, and not joined yet."""
    joined: int = 0
    leaving: int = 0
    """Told to stop, and not gone yet."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.queued + self.dispatched + self.joined + self.leaving


def pool_state(counts: WorkerCounts, *, closed: bool = False, failed: bool = False) -> PoolState:
    """The word for a pool with these workers; `closed` when nothing is left to do, `failed` when it was given up."""
    if failed:
        return PoolState.FAILURE
    if closed:
        return PoolState.CLOSING if counts.total else PoolState.CLOSED
    if counts.joined:
        awaited = counts.queued + counts.dispatched
        return PoolState.PARTIALLY_EXECUTING if awaited else PoolState.FULLY_EXECUTING
    if counts.dispatched:
        return PoolState.PARTIALLY_DISPATCHED if counts.queued else PoolState.FULLY_DISPATCHED
    return PoolState.SUBMITTED
