"""This file says what is known of a run's parts (stages, pools, failures, fallbacks), as values and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cenote import errors
from cenote.engine.messages import FailureInfo

Json = dict[str, Any]
"""An object of `summary.json`; Any because JSON nests as it likes."""


@dataclass(frozen=True)
class StageView:
    """One stage. A fused task counts for each of its stages."""

    id: str
    op: str
    segment: int | None
    tasks: int
    done: int
    """Finished tasks, those reused from an earlier run included."""
    reused: int
    running: int
    failed: int
    seconds: float
    """Of this stage alone, all its tasks together."""
    events_in: int
    events_out: int
    rate: float | None
    """Events per second of wall time since its first task started; None before one is done."""
    time_left: float | None
    """Seconds, if it goes on like this; None while there is nothing to judge by."""
    peak_memory: int
    """Bytes, the largest of its tasks."""
    pools: dict[str, int]
    """Tasks that ran there, by pool."""
    workers: tuple[str, ...]

    def as_json(self) -> Json:
        """An entry of the summary's `stages`."""
        return {
            "id": self.id,
            "op": self.op,
            "segment": self.segment,
            "pools": self.pools,
            "workers": list(self.workers),
            "tasks": self.tasks,
            "done": self.done,
            "failed": self.failed,
            "reused": self.reused,
            "running": self.running,
            "seconds": _rounded(self.seconds),
            "events_in": self.events_in,
            "events_out": self.events_out,
            "rate": _rounded(self.rate),
            "peak_memory": self.peak_memory,
        }


@dataclass(frozen=True)
class PoolView:
    """One pool."""

    name: str
    strategy: str
    slots: int
    """Of one worker."""
    state: str
    """`waiting`, `no worker yet`, `idle`, `working`, `workers lost` or `done`."""
    workers: int
    """There now."""
    workers_started: int
    workers_lost: int
    running: int
    done: int
    waiting: int
    """Tasks that this pool may run and that nobody has taken."""
    slot_seconds_busy: float
    slot_seconds_idle: float
    cost: float | None
    """In the unit of the pool's `cost`; None where it has none."""
    time_left: float | None

    def as_json(self) -> Json:
        """An entry of the summary's `pools`."""
        return {
            "name": self.name,
            "strategy": self.strategy,
            "state": self.state,
            "workers_started": self.workers_started,
            "workers_lost": self.workers_lost,
            "slots": self.slots,
            "tasks": self.done,
            "running": self.running,
            "slot_seconds_busy": _rounded(self.slot_seconds_busy),
            "slot_seconds_idle": _rounded(self.slot_seconds_idle),
            "cost": self.cost,
        }


_KINDS = {
    "error": errors.STAGE_FAILED,
    "bad_input": errors.UNREADABLE_INPUT,
    "timeout": errors.TIMED_OUT,
    "lost": errors.WORKER_LOST,
    "stopped": errors.INTERRUPTED,
    "oom": errors.OUT_OF_MEMORY,
    "internal": errors.STAGE_FAILED,
}
"""Cause of a failure → the kind of error it is, where nothing more exact is known."""


@dataclass(frozen=True)
class FailureView:
    """A task whose last attempt failed."""

    task: int
    stage: str
    pool: str
    worker: str
    at: float
    attempts: int
    info: FailureInfo

    def as_json(self) -> Json:
        """An entry of the summary's `failures`."""
        return {
            "stage": self.stage,
            "task": self.task,
            "cause": self.info.cause,
            "kind": self.info.error_kind or _KINDS[self.info.cause].name,
            "message": self.info.message,
            "dataset": self.info.dataset,
            "file": self.info.file,
            "entries": list(self.info.entries) if self.info.entries else None,
            "traceback": self.info.traceback,
            "pool": self.pool,
            "worker": self.worker,
            "attempts": self.attempts,
            "at": iso_time(self.at),
        }


@dataclass(frozen=True)
class Fallback:
    """A task that ran in another pool than before, or than its first choice."""

    stage: str
    task: int
    from_pool: str
    to_pool: str
    reason: str
    at: float

    def as_json(self) -> Json:
        """An entry of the summary's `fallbacks`."""
        return {
            "stage": self.stage,
            "task": self.task,
            "from": self.from_pool,
            "to": self.to_pool,
            "reason": self.reason,
            "at": iso_time(self.at),
        }


def iso_time(at: float | None) -> str | None:
    """Seconds since the epoch as `2026-03-01T12:00:00.250Z`."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rounded(number: float | None) -> float | None:
    """To the millisecond: clocks promise no more."""
    return None if number is None else round(number, 3)
