"""State what is known of a run's parts (stages, pools, failures, fallbacks), as values and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cenote import errors
from cenote.engine.messages import FailureInfo, FellBack, PoolChanged, TaskSplit

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
    """Where the engine asks for workers, one of the words of PoolState; else `waiting`, `no worker yet`, `idle`,
    `working`, `workers lost` or `done`."""
    changes: tuple[PoolChanged, ...]
    """Every state that it was in, with its reason."""
    workers: int
    """There now."""
    awaited: int
    """Asked for, and not there yet."""
    silent: Mapping[str, float]
    """Workers that do not answer → since when."""
    empty_since: float | None
    """Since when it has had no worker."""
    last_word: str
    """The latest reason why a worker is not there."""
    last_loss: str
    """Why a worker was lost, the last one that was."""
    last_lines: str
    """What the worker that was lost last wrote."""
    workers_requested: int
    workers_started: int
    workers_lost: int
    workers_timed_out: int
    workers_refused: int
    """Asked for, and gone before they came."""
    running: int
    done: int
    waiting: int
    """Tasks that this pool may run and that nobody has taken."""
    slot_seconds_busy: float
    slot_seconds_idle: float
    peak_memory: int
    """Bytes, the largest of the tasks done there."""
    cost: float | None
    """In the unit of the pool's `cost`; None where it has none."""
    time_left: float | None

    def as_json(self) -> Json:
        """An entry of the summary's `pools`."""
        return {
            "name": self.name,
            "strategy": self.strategy,
            "state": self.state,
            "states": [
                {"state": change.state.value, "at": iso_time(change.at), "reason": change.reason}
                for change in self.changes
            ],
            "workers_requested": self.workers_requested,
            "workers_started": self.workers_started,
            "workers_lost": self.workers_lost,
            "workers_timed_out": self.workers_timed_out,
            "workers_refused": self.workers_refused,
            "slots": self.slots,
            "tasks": self.done,
            "running": self.running,
            "slot_seconds_busy": _rounded(self.slot_seconds_busy),
            "slot_seconds_idle": _rounded(self.slot_seconds_idle),
            "peak_memory": self.peak_memory,
            "cost": self.cost,
        }


_KINDS = {
    "error": errors.STAGE_FAILED,
    "bad_input": errors.UNREADABLE_INPUT,
    "timeout": errors.TIMED_OUT,
    "lost": errors.WORKER_LOST,
    "stopped": errors.INTERRUPTED,
    "oom": errors.OUT_OF_MEMORY,
    "damaged": errors.DAMAGED_RESULT,
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


def fallback_as_json(move: FellBack) -> Json:
    """An entry of the summary's `fallbacks`: one task, or all of a stage that waited in a pool."""
    return {
        "stage": move.stage,
        "task": move.task,
        "tasks": move.tasks,
        "from": move.from_pool,
        "to": move.to_pool,
        "reason": move.reason,
        "waited": _rounded(move.waited),
        "alternatives": list(move.alternatives),
        "at": iso_time(move.at),
    }


def split_as_json(split: TaskSplit, stage: str) -> Json:
    """An entry of the summary's `splits`: a partition that was taken in pieces for want of memory."""
    return {
        "stage": stage,
        "task": split.task,
        "pieces": split.pieces,
        "reason": split.reason,
        "at": iso_time(split.at),
    }


def iso_time(at: float | None) -> str | None:
    """Seconds since the epoch as `2026-03-01T12:00:00.250Z`."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _rounded(number: float | None) -> float | None:
    """To the millisecond: clocks promise no more."""
    return None if number is None else round(number, 3)
