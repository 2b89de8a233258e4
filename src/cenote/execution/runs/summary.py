"""Define the summary of a run, as `summary.json` and `cenote status --json` have it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Self

import msgspec

from cenote.analysis.modifiers.support.measures import MeasuredStage
from cenote.common import errors
from cenote.engine.messages import FailureInfo, FellBack, TaskSplit, WhyRow
from cenote.planning.plan import SkippedFile

_KINDS = {
    "error": errors.STAGE_FAILED,
    "bad_input": errors.UNREADABLE_INPUT,
    "changed_input": errors.CHANGED_INPUT,
    "timeout": errors.TIMED_OUT,
    "lost": errors.WORKER_LOST,
    "stopped": errors.INTERRUPTED,
    "oom": errors.OUT_OF_MEMORY,
    "damaged": errors.DAMAGED_RESULT,
    "internal": errors.STAGE_FAILED,
}
"""Cause of a failure → the kind of error it is, where nothing more exact is known."""


class TaskTotals(msgspec.Struct, frozen=True):
    """How many tasks there are, and how they are."""

    total: int
    done: int
    """Finished tasks, those reused from an earlier run included."""
    failed: int = 0
    reused: int = 0
    """Not run, because an earlier run did them or everything derived from them."""
    running: int = 0
    waiting: int = 0
    """Neither running nor finished in any way."""
    not_run: int = 0
    """Not begun when the run ended."""
    not_needed: int = 0
    """Of the reused ones: not run and without a result, because every task that would read it is reused."""
    abandoned: int = 0
    """Of those not run: a task that they need failed, or the run ended before them."""
    seconds: float = 0.0
    """Of all of them together."""
    kept: int | None = None
    """Those that the next run need not repeat; null while the run is in progress."""


class KeptRecord(msgspec.Struct, frozen=True):
    """What is kept for later runs of what a stage does to events, its columns or the events that leave its segment."""

    what: str
    """`columns` or `events`."""
    kept: int = 0
    """Tasks that kept it in this run."""
    read: int = 0
    """Tasks that read it, as an earlier run kept it, instead of running the stage."""
    bytes: int = 0
    """Of all these tasks together."""
    seconds: float = 0.0
    """What it took to compute it, in this run or in earlier ones."""


class StageRecord(msgspec.Struct, frozen=True):
    """One stage. A fused task counts for each of its stages."""

    id: str
    op: str = ""
    segment: int | None = None
    pools: dict[str, int] = {}
    """Tasks that ran there, by pool."""
    workers: tuple[str, ...] = ()
    tasks: int = 0
    done: int = 0
    """Finished tasks, those reused from an earlier run included."""
    failed: int = 0
    reused: int = 0
    running: int = 0
    not_run: int = 0
    """Abandoned, or not begun when the run ended."""
    seconds: float = 0.0
    """Of this stage alone, all its tasks together. The time of a compiled loop is shared out by the events that each of
    its stages saw."""
    events_in: int = 0
    events_out: int = 0
    rate: float | None = None
    """Events per second of wall time since its first task started; null before one is done."""
    peak_memory: int = 0
    """Bytes, the largest of its tasks."""
    modifiers: tuple[MeasuredStage, ...] = ()
    """What the modifiers around it measured, in their order."""
    time_left: float | None = None
    """Seconds, at this pace; null while unknown."""
    variation_of: str = ""
    """The stage that it is a variation of; empty for a stage of the file."""
    variation: str = ""
    """The variation that it runs for."""
    for_later: tuple[KeptRecord, ...] = ()
    """What is kept of it beside its products."""


class CompiledRecord(msgspec.Struct, frozen=True):
    """Stages that ran as one compiled loop, and what the modifiers around it measured; of each alone it is unknown."""

    stages: tuple[str, ...]
    """All stages of the loop."""
    modifiers: tuple[MeasuredStage, ...] = ()
    """The modifiers around it, in their order."""


class StateRecord(msgspec.Struct, frozen=True):
    """A state that a pool was in."""

    state: str
    at: str
    reason: str = ""


class PoolRecord(msgspec.Struct, frozen=True):
    """One pool."""

    name: str
    strategy: str = ""
    state: str = ""
    """Where the engine asks for workers, one of the words of PoolState; else `waiting`, `no worker yet`, `idle`,
    `working`, `workers lost` or `done`."""
    states: tuple[StateRecord, ...] = ()
    """Every state that it was in, where the engine asks for workers."""
    workers_requested: int = 0
    workers_started: int = 0
    workers_lost: int = 0
    """Without those that were stopped on purpose, and those whose walltime was over."""
    workers_timed_out: int = 0
    """Left because their walltime was over."""
    workers_refused: int = 0
    """Requested, and gone before they joined."""
    slots: int = 1
    """Of one worker."""
    tasks: int = 0
    """Tasks done there."""
    running: int = 0
    waiting: int = 0
    """Tasks that this pool may run and that no worker has taken."""
    slot_seconds_busy: float = 0.0
    """Time that slots were busy, added up."""
    slot_seconds_idle: float = 0.0
    peak_memory: int = 0
    """Bytes, the largest of the tasks done there."""
    cost: float | None = None
    """In the unit of the pool's `cost`; null where it has none."""
    workers: int = 0
    """There now."""
    awaited: int = 0
    """Requested, and not there yet."""
    silent: dict[str, str] = {}
    """Workers that do not answer → since when."""
    empty_since: str | None = None
    """Since when it has had no worker."""
    last_word: str = ""
    """The latest reason why a worker is not there."""
    last_loss: str = ""
    """Why the worker that was lost last was lost."""
    last_lines: str = ""
    """The last output of that worker."""
    held: str = ""
    """What keeps its tasks from its workers."""
    time_left: float | None = None
    """Seconds, at this pace; null while unknown."""


class ProductRecord(msgspec.Struct, frozen=True):
    """One product; its files once it is published, relative to the run's folder."""

    name: str
    kind: str
    files: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()
    """Its pictures."""
    partial: bool = False
    """Whether some of the data is missing from it."""
    description: str = ""
    stage: str = ""


class FallbackRecord(msgspec.Struct, frozen=True):
    """Work that moved to another pool: one task, or all of a stage that waited in a pool."""

    stage: str
    task: int | None = None
    """Null where all that were waiting moved."""
    tasks: int = 1
    from_pool: str = msgspec.field(name="from", default="")
    to_pool: str = msgspec.field(name="to", default="")
    reason: str = ""
    waited: float = 0.0
    """Seconds."""
    alternatives: tuple[str, ...] = ()
    at: str | None = None

    @classmethod
    def of(cls, move: FellBack) -> Self:
        """From the event."""
        worded = {"waited": rounded(move.waited), "at": iso_time(move.at)}
        return cls(**msgspec.structs.asdict(move) | worded)


class SplitRecord(msgspec.Struct, frozen=True):
    """A partition that was taken in pieces for want of memory."""

    stage: str
    task: int
    pieces: int
    reason: str
    at: str

    @classmethod
    def of(cls, split: TaskSplit, stage: str) -> Self:
        """From the event."""
        return cls(stage, split.task, split.pieces, split.reason, iso_time(split.at))


class FailureRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A task whose last attempt failed, a product that could not be published, or the run itself."""

    stage: str | None = None
    task: int | None = None
    cause: str = ""
    """`error` (the stage's own code), `bad_input`, `changed_input`, `timeout`, `lost` (its worker), `oom`, `damaged` or
    `internal`."""
    kind: str | None = None
    """The name of an ErrorKind."""
    message: str
    dataset: str | None = None
    file: str | None = None
    entries: tuple[int, int] | None = None
    """First and last event of the partition."""
    traceback: str | None = None
    modifier: str | None = None
    """The modifier that failed, where the stage itself did not."""
    pool: str | None = None
    worker: str | None = None
    attempts: int = 1
    at: str | None = None

    @classmethod
    def of(cls, info: FailureInfo) -> Self:
        """What the failure itself says; where and when a task failed is added by the caller."""
        kind = info.error_kind or _KINDS[info.cause].name
        return msgspec.structs.replace(msgspec.convert(info, cls, from_attributes=True), kind=kind)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is, or how it ended."""

    status: str
    """`succeeded`, `partial`, `failed` or `cancelled`; earlier `waiting`, `running`, `cancelling`,
    `unresponsive` (its driver does not answer), `interrupted`."""
    run: str | None = None
    """An id of this run."""
    resumed: bool = False
    """Whether it continued an earlier run."""
    started: str | None = None
    """UTC."""
    ended: str | None = None
    seconds: float
    cpu_seconds: float = 0.0
    """Of all tasks."""
    tasks: TaskTotals
    """Merges included."""
    why: tuple[WhyRow, ...] = ()
    """Why stages ran again, each that did; empty where there was no earlier run to compare with."""
    merges: TaskTotals = TaskTotals(0, 0)
    retries: int
    """How often a task was tried again."""
    events: int
    """Read so far."""
    bytes_read: int = 0
    peak_memory: int
    """Bytes, the largest of all tasks."""
    stages: tuple[StageRecord, ...] = ()
    compiled: tuple[CompiledRecord, ...] = ()
    """What modifiers measured of stages that ran as one compiled loop: of the loop, not of each stage."""
    pools: tuple[PoolRecord, ...] = ()
    products: tuple[ProductRecord, ...]
    fallbacks: tuple[FallbackRecord, ...] = ()
    splits: tuple[SplitRecord, ...] = ()
    failures: tuple[FailureRecord, ...]
    skipped: tuple[SkippedFile, ...] = ()
    """Files that cannot be read, and that their datasets do without: none of their events is in any product."""
    warnings: tuple[str, ...]
    time_left: float | None = None
    """Seconds until the slowest segment is done, at this pace; null while unknown."""


def iso_time(at: float) -> str:
    """Seconds since the epoch as `2026-03-01T12:00:00.250Z`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_from(moment: str, now: float) -> float:
    """From such a time until now; 0 for one that is still to come."""
    return max(0.0, now - datetime.fromisoformat(moment).timestamp())


def rounded(number: float) -> float:
    """To the millisecond: clocks promise no more."""
    return round(number, 3)
