"""Define what passes through the engine's one door: events come in, commands go out.

Events are one JSON line each in the journal. Tasks are named by their number in the plan.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from cenote.analysis.modifiers.support.measures import Measured
from cenote.engine.scaling import PoolState
from cenote.engine.tasks import TaskRanges

EndStatus = Literal["succeeded", "partial", "failed", "cancelled"]
"""How a run ends."""


class JobState(StrEnum):
    """How far a job is. A word that a batch system has and we do not know is UNKNOWN, never "ended"."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    UNKNOWN = "unknown"


LossCause = Literal[
    "died",
    "crashed",
    "overdue",
    "preempted",
    "walltime",
    "oom",
    "silent",
    "retired",
    "refused",
    "unfit",
    "unreachable",
    "unknown",
]
"""Why a worker is gone."""


class StageStats(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one stage did within one task."""

    seconds: float = 0.0
    events_in: int = 0
    events_out: int = 0
    modifiers: dict[str, Measured] = {}
    """Modifier → what it measured."""


class GroupStats(msgspec.Struct, frozen=True, omit_defaults=True):
    """What modifiers measured of stages that ran as one compiled loop: of each of them alone nobody knows it."""

    stages: tuple[str, ...]
    modifiers: dict[str, Measured] = {}


class KeptStats(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a task kept for later runs of what a stage does to events, or read instead of running it."""

    bytes: int
    seconds: float
    """What it took to compute it."""
    read: bool = False


class FailureInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a task did not succeed, in words and for rules."""

    cause: Literal["error", "bad_input", "changed_input", "timeout", "lost", "oom", "stopped", "damaged", "internal"]
    """`error` is the user's code; `changed_input` a file that is no longer the planned one; `lost` is the worker's
    death; `stopped` was asked for by CancelTask; `damaged` is an earlier result that the task reads, and `file` names
    it."""
    message: str
    stage: str | None = None
    dataset: str | None = None
    file: str | None = None
    entries: tuple[int, int] | None = None
    traceback: str | None = None
    """Of the user's own code, ours left out."""
    error_kind: str | None = None
    """The name of an ErrorKind, where a more exact one than the cause's is known."""
    modifier: str | None = None
    """The modifier around the stage that failed, where the stage itself did not, or that stopped the stage."""
    fate: LossCause | None = None
    """What became of its worker, where the backend knows and the worker had nothing else to do."""


class WhyRow(msgspec.Struct, frozen=True):
    """Why tasks of a stage run although an earlier run did its own."""

    stage: str
    run: int
    """Tasks to run."""
    reused: int
    """Tasks whose results are there."""
    causes: tuple[str, ...] = ()
    """In words, nearest first."""


class Event(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """Something that happened. `at` is seconds since the epoch, and the engine's only clock."""

    at: float


class RunStarted(Event, frozen=True, tag=True):
    """A run began, or began again: everything before this in the journal belongs to an earlier attempt."""

    run: str
    tasks: int
    resumed: bool = False
    why: tuple[WhyRow, ...] = ()
    """Of the stages that have tasks to run, where an earlier run is there to compare with."""


class TaskReused(Event, frozen=True, tag=True):
    """An earlier run has done this task, whole, and its product is still there.

    They come right after RunStarted. A merge that was done without some of its parts is not to be reused.
    """

    task: int
    needed: bool = True
    """Whether a task reads it, or it is published: what leads to nothing else is not looked for."""


class TaskStarted(Event, frozen=True, tag=True):
    """A worker took the task."""

    task: int
    pool: str
    worker: str
    attempt: int = 0
    """Which RunTask this answers; 0 when the backend cannot say, and then it is taken for the latest."""


class TaskDone(Event, frozen=True, tag=True):
    """The task's products are stored."""

    task: int
    pool: str
    worker: str
    seconds: float
    cpu_seconds: float = 0.0
    fetch_seconds: float = 0.0
    """What its worker took to fetch the events of earlier tasks from others, before it began."""
    peak_memory: int = 0
    events: int = 0
    bytes_read: int = 0
    bytes_out: int = 0
    stages: dict[str, StageStats] = {}
    groups: tuple[GroupStats, ...] = ()
    warnings: tuple[str, ...] = ()
    """Of modifiers: each is shown once in a run."""
    more_warnings: int = 0
    """How often they warned of something else, which the task did not keep."""
    files: dict[str, bytes] = {}
    """Of modifiers, for the folder of the run. They are put there before the event is journalled, without them."""
    kept: dict[str, KeptStats] = {}
    """`STAGE:columns` or `STAGE:events` → what the task kept of it for later runs, or what it read instead."""
    attempt: int = 0
    """Which RunTask this answers; 0 when the backend cannot say, and then it is taken for the latest."""


class TaskFailed(Event, frozen=True, tag=True):
    """The task did not succeed this time."""

    task: int
    pool: str
    worker: str
    failure: FailureInfo
    seconds: float = 0.0
    attempt: int = 0
    """Which RunTask this answers; 0 when the backend cannot say, and then it is taken for the latest."""


class ResultLost(Event, frozen=True, tag=True):
    """What a finished task left for others went with its worker, and the backend makes it again by itself: the pool
    needs a worker for that, until TaskDone comes once more."""

    task: int
    pool: str


class ResultNotNeeded(Event, frozen=True, tag=True):
    """A result that was lost is not made again after all: meanwhile no task reads it any more."""

    task: int
    pool: str


class TaskGivenUp(Event, frozen=True, tag=True):
    """Decided by the engine: the task failed for good, and why."""

    task: int
    pool: str
    worker: str
    failure: FailureInfo


class WorkerRequested(Event, frozen=True, tag=True):
    """A worker was asked for, as StartWorkers wanted: one event each, and from now on it has a name."""

    pool: str
    worker: str
    job: str | None = None
    """The batch system's name for it."""


class JobChanged(Event, frozen=True, tag=True):
    """The batch system said something new about the job of a worker."""

    pool: str
    worker: str
    job: str
    state: JobState
    native: str = ""
    """In the batch system's own word: `PD`, `Idle`."""
    reason: str = ""
    """`QOSMaxJobsPerUserLimit`, in the batch system's words or better ones."""


class WorkerJoined(Event, frozen=True, tag=True):
    """A worker offers its slots to a pool."""

    worker: str
    pool: str
    slots: int
    pid: int | None = None
    leaves: float | None = None
    """When it will leave by itself, at the latest, because its walltime is nearly over; None for never."""


class WorkerLeaving(Event, frozen=True, tag=True):
    """A worker begins no more tasks because its walltime is nearly over. It finishes those it has, hands its data over
    and goes, as WorkerLost (`walltime`) tells."""

    worker: str
    pool: str
    reason: str


class WorkerSilent(Event, frozen=True, tag=True):
    """A worker does not answer: it is stopped, its node hangs, or the way to it is cut. What it was sent and has not
    begun goes to others. It is ended when its patience is over, unless WorkerAnswers comes first."""

    worker: str
    pool: str
    seconds: float
    """For how long it has not answered by now."""
    patience: float
    """For how long it may."""


class WorkerAnswers(Event, frozen=True, tag=True):
    """A worker that was silent is back, with everything that it had begun."""

    worker: str
    pool: str


class WorkerLost(Event, frozen=True, tag=True):
    """A worker is gone, or will never come. What becomes of its tasks is in their own events, which follow this
    one: TaskFailed (cause `lost`), or TaskDone where the worker got that far."""

    worker: str
    pool: str
    reason: str
    cause: LossCause = "unknown"
    """`crashed` is a program that ended itself by a fault (SIGSEGV), which what it ran must have caused; `overdue` is
    one that the time limit of a stage ended, since its code held Python's lock; `died` is any other end that is known.
    `retired` answers StopWorkers; `walltime` is the end of the time that the batch system gave it; `silent` is one that
    did not answer and was ended; `refused` is one that the batch system would not take; `unfit` is one that was turned
    away because its software does not fit the driver's; `unreachable` is one that never found its driver."""
    log: str = ""
    """The last lines that it wrote."""


class TasksNotNeeded(Event, frozen=True, tag=True):
    """Decided by the engine: these tasks do not run, because every task that would read them is reused."""

    tasks: TaskRanges


class TasksAbandoned(Event, frozen=True, tag=True):
    """Decided by the engine: these tasks do not run, because a task that they need failed, because nothing that would
    read them runs, or because the run ends before them."""

    tasks: TaskRanges
    reason: str
    failed: int | None = None
    """The task that is the reason, if one is."""


class TaskSplit(Event, frozen=True, tag=True):
    """Decided by the engine: a task did not fit into memory, and its partition is taken in pieces from now on."""

    task: int
    pieces: int
    reason: str


class FellBack(Event, frozen=True, tag=True):
    """Decided by the engine: tasks moved to another pool, and why."""

    stage: str
    task: int | None
    """None when all tasks of the stage that waited in the pool moved at once."""
    tasks: int
    """How many moved."""
    from_pool: str
    to_pool: str
    reason: str
    waited: float = 0.0
    """Seconds that the pool had no worker for them."""
    alternatives: tuple[str, ...] = ()
    """Other pools that were allowed, those first that come next."""


class PoolChanged(Event, frozen=True, tag=True):
    """Decided by the engine: how a pool is now, and why."""

    pool: str
    state: PoolState
    reason: str = ""


class CancelAsked(Event, frozen=True, tag=True):
    """A user pressed Ctrl-C or ran `cenote cancel`."""

    reason: str = "interrupted"


class Tick(Event, frozen=True, tag=True):
    """Time passed. Not journalled unless it led to a command."""


class Warned(Event, frozen=True, tag=True):
    """Something the user should know; said once."""

    message: str


class CredentialRenewed(Event, frozen=True, tag=True):
    """Workers get a new credential of this type, which ends then."""

    credential: str
    ends: float | None = None


class PoolHeld(Event, frozen=True, tag=True):
    """Tasks of this pool wait before they reach a worker, for this reason; from now on no longer, where it is empty."""

    pool: str
    reason: str = ""


class RunFinished(Event, frozen=True, tag=True):
    """The last line of a journal."""

    status: EndStatus
    seconds: float


DecisionEvent = TaskGivenUp | TasksNotNeeded | TasksAbandoned | TaskSplit | FellBack | PoolChanged
"""What the engine itself decides. It is journalled for readers; the engine ignores it when it comes in again."""

AnyEvent = (
    RunStarted
    | TaskReused
    | TaskStarted
    | TaskDone
    | TaskFailed
    | ResultLost
    | ResultNotNeeded
    | WorkerRequested
    | JobChanged
    | WorkerJoined
    | WorkerLeaving
    | WorkerSilent
    | WorkerAnswers
    | WorkerLost
    | CancelAsked
    | Tick
    | Warned
    | CredentialRenewed
    | PoolHeld
    | RunFinished
    | DecisionEvent
)


class Command(msgspec.Struct, frozen=True, tag=True):
    """Something the runtime must do now."""


class RunTask(Command, frozen=True, tag=True):
    """Run this task on any worker of this pool.

    With `split` above 1 the worker takes the partition in so many pieces, one after the other, and puts their results
    together in order: slower, and with less memory.
    """

    task: int
    pool: str
    attempt: int
    split: int = 1
    missing: tuple[int, ...] = ()
    """Parts of a merge that are not there, under keep-going: it merges the others."""


class CancelTask(Command, frozen=True, tag=True):
    """Stop this task. One that a worker has (TaskStarted) still ends with TaskDone or TaskFailed, of any cause, and
    the engine waits for that; one that still waits for a slot may vanish without a word.

    A RunTask with the next attempt may follow at once, for another pool: only the earlier attempt is to be stopped."""

    task: int


class Record(Command, frozen=True, tag=True):
    """Journal this decision."""

    event: DecisionEvent


class StartWorkers(Command, frozen=True, tag=True):
    """Ask for so many more workers; each is answered by WorkerRequested, or by WorkerLost (`refused`) under a name."""

    pool: str
    count: int


class StopWorkers(Command, frozen=True, tag=True):
    """End these workers: their data is handed over first, and WorkerLost (`retired`) tells when one is gone.

    One that has taken a task meanwhile finishes it first. One that has not joined yet is not to be waited for any
    more, and ended if it joins after all; one that is gone already is not an error.
    """

    pool: str
    workers: tuple[str, ...]
    reason: str = ""


class EndWorkers(Command, frozen=True, tag=True):
    """End these workers now, with whatever they run: they do not answer, and must not come back. WorkerLost (`silent`)
    tells when one is gone."""

    pool: str
    workers: tuple[str, ...]
    reason: str


class ForgetTask(Command, frozen=True, tag=True):
    """No task will read what this task stored: its intermediate data may be removed."""

    task: int


class FinishRun(Command, frozen=True, tag=True):
    """Everything that can be done is done."""

    status: EndStatus


AnyCommand = RunTask | CancelTask | Record | StartWorkers | StopWorkers | EndWorkers | ForgetTask | FinishRun
