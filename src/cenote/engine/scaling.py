"""Decide how many workers a pool should have now, and say how the pool is."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum

from cenote.common.values import dataclass
from cenote.language.execution import PoolSize

_ROUNDING = 1e-9
"""A tenth of thirty is not exactly three."""


@dataclass(frozen=True)
class Load:
    """The work of one pool."""

    waiting: int
    """Ready tasks that may go there now."""
    sent: int
    """Tasks that it has: running, or next in line."""
    to_come: int
    """Unfinished tasks that may ever go there; the others are among them."""

    @property
    def tasks(self) -> int:
        """What could be running now, if there were enough slots."""
        return self.waiting + self.sent


@dataclass(frozen=True)
class Past:
    """What has to be remembered so that a pool does not flap."""

    size: int = 0
    """Workers planned, requested and observed, together."""
    resized: float | None = None
    """When it was last made larger or smaller on purpose."""
    peaks: tuple[tuple[float, int], ...] = ()
    """(since when, how many): from then on, never more workers were needed. The higher ones come first."""


def needed_workers(load: Load, limits: PoolSize) -> int:
    """How many workers the work calls for, within the limits; 0 when no work can come any more."""
    if load.to_come == 0:
        return 0
    slots = limits.slots or 1
    enough = _ceil(load.to_come / slots)
    if limits.elastic is None:
        return min(limits.workers or 0, enough)
    wished = min(_ceil((load.tasks + limits.elastic.idle_slots) / slots), enough)
    return max(limits.elastic.min, min(limits.elastic.max, wished))


def remembered(past: Past, needed: int, limits: PoolSize, now: float) -> Past:
    """The past, with what is needed now taken into account, and without what is longer ago than the idle time."""
    begin = now - (limits.elastic.idle_time if limits.elastic else 0)
    higher = [peak for peak in past.peaks if peak[1] > needed]
    since = past.peaks[len(higher)][0] if len(higher) < len(past.peaks) else now
    peaks = [*higher, (since, needed)]
    while len(peaks) > 1 and peaks[1][0] <= begin:
        del peaks[0]
    return replace(past, peaks=tuple(peaks))


def wanted_workers(load: Load, limits: PoolSize, past: Past, now: float) -> int:
    """How many workers the pool should have now; more than `past.size` are to be started, fewer stopped.

    A fixed pool never shrinks before its work is over. An elastic one grows and shrinks by steps of `resize_factor`
    of the difference, at most once per `resize_period`, and shrinks only to what was enough all through `idle_time`.
    """
    needed = needed_workers(load, limits)
    if load.to_come == 0:
        return 0
    if limits.elastic is None:
        return max(needed, past.size)
    elastic = limits.elastic
    if past.size < elastic.min:
        return elastic.min
    if past.resized is not None and now - past.resized < elastic.resize_period:
        return past.size
    if needed > past.size:
        return past.size + _step(needed - past.size, elastic.resize_factor)
    surplus = past.size - max([needed, *(peak for _, peak in past.peaks)])
    return past.size - _step(surplus, elastic.resize_factor) if surplus > 0 else past.size


def _step(difference: int, factor: float) -> int:
    """At least one worker, so that a small factor still arrives; never past the goal, which would flap."""
    return max(1, min(difference, _ceil(difference * factor)))


def _ceil(number: float) -> int:
    return math.ceil(number - _ROUNDING)


# State in one word how a pool is, from the counts of its workers.


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
