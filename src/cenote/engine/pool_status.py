"""State in one word how a pool is, from the counts of its workers."""

from __future__ import annotations

from enum import Enum

from cenote.values import dataclass


class PoolState(Enum):
    """How a pool is; `runs/counting/pool_words.py` says what each word means."""

    SUBMITTED = "Submitted"
    PARTIALLY_DISPATCHED = "PartiallyDispatched"
    FULLY_DISPATCHED = "FullyDispatched"
    PARTIALLY_EXECUTING = "PartiallyExecuting"
    FULLY_EXECUTING = "FullyExecuting"
    CLOSING = "Closing"
    CLOSED = "Closed"
    FAILURE = "Failure"


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
