"""Define what passes through the allocator's one door: events come in, commands go out.

An event is one row of the service's log, written before the allocator sees it. Workers are spoken of in the engine's
own events (`cenote.engine.messages`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from cenote.engine.messages import (
    Command,
    EndWorkers,
    Event,
    JobChanged,
    PoolChanged,
    StartWorkers,
    StopWorkers,
    Tick,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.language.execution import Elastic
from cenote.language.schema.service import ShareRules
from cenote.service.allocator.snapshot import PoolKept, ServiceKept, Span, TaskKept
from cenote.service.client.definitions import PoolDefinition, TaskDefinition, TaskState

EndCause = Literal["exit", "signal", "timeout", "stopped", "lost", "refused", "evicted", "unkept"]
"""How an attempt ended: `stopped` answers StopInstance, `lost` went with its worker, `refused` never began, `evicted`
was ended, or handed back, because its worker had to go; what `unkept` left could not be kept."""


class AttemptId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One start of one instance; it never runs twice."""

    task: str
    instance: int
    attempt: int
    """From 1."""


# What users ask for


class PoolAdded(Event, frozen=True, tag=True):
    """A pool is wanted from now on. `Allocator.why_no_pool` says whether it may be added."""

    pool: PoolDefinition


class PoolResized(Event, frozen=True, tag=True):
    """A pool gets another size; one that failed is tried again."""

    pool: str
    workers: int | None = None
    elastic: Elastic | None = None


class PoolClosed(Event, frozen=True, tag=True):
    """A pool takes no more work: its workers go when their instances end, and what waits there keeps waiting."""

    pool: str


class PoolRemoved(Event, frozen=True, tag=True):
    """A pool closes, and is forgotten once its workers are gone. Its tasks fall back, or are cancelled."""

    pool: str


class TaskAdded(Event, frozen=True, tag=True):
    """A task joins the queue. `Allocator.why_never` says whether it may."""

    task: TaskDefinition


class TaskCancelled(Event, frozen=True, tag=True):
    """A task is not wanted any more: what waits is dropped, what runs is stopped."""

    task: str
    by: str = ""
    """The user; empty where the allocator decided."""
    reason: str = ""


class TaskPaused(Event, frozen=True, tag=True):
    """No further instance of the task starts; those that run finish."""

    task: str


class TaskResumed(Event, frozen=True, tag=True):
    """Its instances start again."""

    task: str


class TaskMoved(Event, frozen=True, tag=True):
    """Instances that wait go to another pool; those that run stay. `Allocator.why_not_there` says whether they may."""

    task: str
    pool: str


class TaskPrioritised(Event, frozen=True, tag=True):
    """A task gets another priority."""

    task: str
    priority: int


class TaskPutAhead(Event, frozen=True, tag=True):
    """A task comes directly before another of the same user, and has at least its priority. Between users, fair share
    decides first."""

    task: str
    of: str


class RulesChanged(Event, frozen=True, tag=True):
    """Slots are shared by these rules from now on; more than a user may have now is not taken back."""

    rules: ShareRules


class CalendarTurned(Event, frozen=True, tag=True):
    """Another day, week, month or scaling period began, by the clocks that the rules mean. The allocator has none."""

    spans: dict[str, Span]
    """`day`, `week`, `month` → the one that it is now."""
    sizes: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Names in the rules of pools → smallest and largest size now, where a period says so."""


class TaskArchived(Event, frozen=True, tag=True):
    """The record of an ended task is in the archive: the allocator forgets it."""

    task: str


UserEvent = (
    PoolAdded
    | PoolResized
    | PoolClosed
    | PoolRemoved
    | TaskAdded
    | TaskCancelled
    | TaskPaused
    | TaskResumed
    | TaskMoved
    | TaskPrioritised
    | TaskPutAhead
    | RulesChanged
    | CalendarTurned
    | TaskArchived
)

# What workers say


class InstanceStarted(Event, frozen=True, tag=True):
    """A worker runs an attempt."""

    task: str
    instance: int
    attempt: int
    worker: str


class InstanceEnded(Event, frozen=True, tag=True):
    """An attempt is over."""

    task: str
    instance: int
    attempt: int
    worker: str
    exit_code: int | None
    """None where there is none: a signal, a lost worker."""
    cause: EndCause
    message: str = ""


class InstancesKnown(Event, frozen=True, tag=True):
    """A worker that (re)connected says which attempts it has, before WorkerJoined tells that it may get more.

    Nothing is sent to it on that connection before this was handled.
    """

    worker: str
    pool: str
    running: tuple[AttemptId, ...] = ()
    finished: tuple[AttemptId, ...] = ()
    """Those that ended while it could not say so: InstanceEnded follows for each."""
    over: tuple[AttemptId, ...] = ()
    """The last that it told the end of, for a service whose log has lost its own: it tells that again when it is to
    start them."""


WorkerEvent = WorkerRequested | JobChanged | WorkerJoined | WorkerLeaving | WorkerSilent | WorkerAnswers | WorkerLost
InstanceEvent = InstanceStarted | InstanceEnded | InstancesKnown

# What the allocator decides


class InstanceAssigned(Event, frozen=True, tag=True):
    """A slot of a worker is given to an instance."""

    task: str
    instance: int
    attempt: int
    worker: str
    pool: str


class InstancePreempted(Event, frozen=True, tag=True):
    """A running instance gives way to a task of higher priority, or to a budget: it will wait again."""

    task: str
    instance: int
    attempt: int
    worker: str
    ahead: str
    """The task that it gives way to; empty where it is none."""
    reason: str = ""
    """Why, where there is no such task."""


class InstanceGivenUp(Event, frozen=True, tag=True):
    """An instance failed for good."""

    task: str
    instance: int
    reason: str


class TaskEnded(Event, frozen=True, tag=True):
    """Nothing more happens to a task."""

    task: str
    state: TaskState
    reason: str = ""


class TaskFellBack(Event, frozen=True, tag=True):
    """Instances that waited in vain go to another pool."""

    task: str
    pool: str
    """Where they go."""
    reason: str


class TaskTimedOut(Event, frozen=True, tag=True):
    """A task waited for slots longer than it may: it fails once what runs of it has ended."""

    task: str
    reason: str


class PoolBounded(Event, frozen=True, tag=True):
    """A pool has other limits than its own for now, by a period or its budget."""

    pool: str
    least: int | None = None
    most: int | None = None
    """None: its own limits again."""
    reason: str = ""
    """Empty where the hour is the reason."""


class WorkersAsked(Event, frozen=True, tag=True):
    """A pool wants so many more workers."""

    pool: str
    count: int


class WorkersSentAway(Event, frozen=True, tag=True):
    """These workers get nothing more, finish what they have, and go."""

    pool: str
    workers: tuple[str, ...]
    reason: str


class WorkersEnded(Event, frozen=True, tag=True):
    """These workers did not answer for too long, or their budget is used up: they are ended with whatever they run."""

    pool: str
    workers: tuple[str, ...]
    reason: str


class ServiceStarted(Event, frozen=True, tag=True):
    """The service was started again: workers have so many seconds to come back, and get nothing before they do."""

    patience: float
    careful: bool = False
    """Whether a worker may run what the log does not know of: all have to come back, or be lost, first."""


OwnDecision = (
    InstanceAssigned
    | InstancePreempted
    | InstanceGivenUp
    | TaskEnded
    | TaskFellBack
    | TaskTimedOut
    | PoolChanged
    | PoolBounded
    | WorkersAsked
    | WorkersSentAway
    | WorkersEnded
    | ServiceStarted
)
"""What only the allocator says."""
ServiceDecision = OwnDecision | TaskCancelled
"""In the log before anything follows from it."""

KeptEvent = ServiceKept | PoolKept | TaskKept
"""What a compacted log holds instead of all that happened."""

ServiceEvent = UserEvent | WorkerEvent | InstanceEvent | Tick | ServiceDecision | KeptEvent


class StartInstance(Command, frozen=True, tag=True):
    """Run this attempt in a slot of this worker; a worker that knows it already does not run it again."""

    task: str
    instance: int
    attempt: int
    worker: str


class StopInstance(Command, frozen=True, tag=True):
    """Stop this attempt: InstanceEnded tells when it is over. One that is over already is not an error."""

    task: str
    instance: int
    attempt: int
    worker: str
    reason: str


class ArchiveTask(Command, frozen=True, tag=True):
    """Write `Allocator.record_of(task)` to the archive, then say TaskArchived."""

    task: str


class RecordDecision(Command, frozen=True, tag=True):
    """Write this to the log before any command that comes after it is carried out."""

    event: ServiceDecision


ServiceCommand = StartInstance | StopInstance | StartWorkers | StopWorkers | EndWorkers | ArchiveTask | RecordDecision
