"""Let a test tell the engine a story: what happened, and what it then wants done."""

from __future__ import annotations

from typing import Literal

from cenote.engine.machine import Engine
from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    CancelAsked,
    DecisionEvent,
    FailureInfo,
    JobChanged,
    JobState,
    LossCause,
    Record,
    RunStarted,
    TaskDone,
    TaskFailed,
    TaskGivenUp,
    TaskReused,
    TasksAbandoned,
    TasksNotNeeded,
    TaskStarted,
    Tick,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.engine.task_classes import EngineOptions
from cenote.engine.tasks import tasks_in
from cenote.planning.plan import Plan

Cause = Literal["error", "bad_input", "changed_input", "timeout", "lost", "oom", "stopped", "damaged", "internal"]


class Story:
    """An engine and what is told to it, in order."""

    def __init__(self, plan: Plan, options: EngineOptions = EngineOptions()) -> None:  # noqa: B008 (frozen)
        self.engine = Engine(plan, options)
        self.not_needed: list[int] = []
        self.abandoned: dict[int, str] = {}
        """Tasks that were abandoned so far → the reason."""

    def after(self, *events: AnyEvent) -> list[AnyCommand | DecisionEvent]:
        """What the engine wants done and decides once these have happened, in order. Tasks that are left out are
        collected apart."""
        found: list[AnyCommand | DecisionEvent] = []
        for command in [command for event in events for command in self.engine.handle(event)]:
            match command:
                case Record(TasksNotNeeded() as record):
                    self.not_needed += tasks_in(record.tasks)
                case Record(TasksAbandoned() as record):
                    self.abandoned |= dict.fromkeys(tasks_in(record.tasks), record.reason)
                case Record(record):
                    found.append(record)
                case _:
                    found.append(command)
        return found


def started() -> RunStarted:
    """The run begins."""
    return RunStarted(at=0.0, run="story", tasks=0)


def requested(worker: str = "worker", pool: str = "default", *, at: float = 1.0) -> WorkerRequested:
    """A worker was asked for."""
    return WorkerRequested(at=at, pool=pool, worker=worker, job=f"job-{worker}")


def job(
    state: JobState, worker: str = "worker", pool: str = "default", *, at: float = 1.0, reason: str = ""
) -> JobChanged:
    """The batch system has news."""
    return JobChanged(at=at, pool=pool, worker=worker, job=f"job-{worker}", state=state, reason=reason)


def joined(
    worker: str = "worker", pool: str = "default", *, slots: int = 1, at: float = 1.0, leaves: float | None = None
) -> WorkerJoined:
    """A worker offers its slots, for a limited time or not."""
    return WorkerJoined(at=at, worker=worker, pool=pool, slots=slots, leaves=leaves)


def leaving(worker: str = "worker", pool: str = "default", *, at: float = 2.0) -> WorkerLeaving:
    """A worker takes nothing more, and will go."""
    return WorkerLeaving(at=at, worker=worker, pool=pool, reason="its walltime is nearly over")


def silent(
    worker: str = "worker", pool: str = "default", *, at: float = 20.0, seconds: float = 10.0, patience: float = 60.0
) -> WorkerSilent:
    """A worker has not answered for so long."""
    return WorkerSilent(at=at, worker=worker, pool=pool, seconds=seconds, patience=patience)


def answers(worker: str = "worker", pool: str = "default", *, at: float = 30.0) -> WorkerAnswers:
    """A silent worker is back."""
    return WorkerAnswers(at=at, worker=worker, pool=pool)


def lost(
    worker: str = "worker",
    pool: str = "default",
    *,
    at: float = 2.0,
    cause: LossCause = "unknown",
    reason: str = "preempted",
    log: str = "",
) -> WorkerLost:
    """A worker is gone."""
    return WorkerLost(at=at, worker=worker, pool=pool, reason=reason, cause=cause, log=log)


def later(at: float) -> Tick:
    """Time has passed."""
    return Tick(at=at)


def reused(task: int) -> TaskReused:
    """An earlier run has done the task."""
    return TaskReused(at=0.0, task=task)


def taken(
    task: int, worker: str = "worker", *, pool: str = "default", attempt: int = 0, at: float = 2.0
) -> TaskStarted:
    """A worker begins with the task."""
    return TaskStarted(at=at, task=task, pool=pool, worker=worker, attempt=attempt)


def done(task: int, *, pool: str = "default", worker: str = "worker", attempt: int = 0, at: float = 3.0) -> TaskDone:
    """The task succeeded."""
    return TaskDone(at=at, task=task, pool=pool, worker=worker, seconds=1.0, attempt=attempt)


def failed(
    task: int,
    cause: Cause = "error",
    *,
    pool: str = "default",
    worker: str = "worker",
    attempt: int = 0,
    stage: str | None = None,
    at: float = 3.0,
) -> TaskFailed:
    """The task did not succeed."""
    failure = FailureInfo(cause=cause, message=f"simulated {cause}", stage=stage)
    return TaskFailed(at=at, task=task, pool=pool, worker=worker, failure=failure, attempt=attempt)


def given_up(task: int, cause: Cause = "error", *, stage: str | None = None, at: float = 3.0) -> TaskGivenUp:
    """What the engine says when a task that `failed` so is not tried again."""
    failure = failed(task, cause, stage=stage).failure
    return TaskGivenUp(at=at, task=task, pool="default", worker="worker", failure=failure)


def cancelled() -> CancelAsked:
    """Somebody pressed Ctrl-C."""
    return CancelAsked(at=4.0)
