"""Turn a worker's outcome into the event that the engine hears."""

from __future__ import annotations

import msgspec

from cenote.engine.messages import FailureInfo, LossCause, TaskDone, TaskFailed, TaskStarted
from cenote.worker.task_spec import Outcome, RunSpec, TaskSpec

STOPPED = FailureInfo(cause="stopped", message="stopped, as asked")


def started(spec: TaskSpec, *, at: float, pool: str, worker: str) -> TaskStarted:
    """A worker began it."""
    return TaskStarted(at=at, task=spec.task, attempt=spec.attempt, pool=pool, worker=worker)


def event_of(
    outcome: Outcome, spec: TaskSpec, *, at: float, pool: str, worker: str, fetch_seconds: float = 0.0
) -> TaskDone | TaskFailed:
    """Done or failed, with the measurements."""
    if outcome.failure is not None:
        return failed(spec, outcome.failure, at=at, pool=pool, worker=worker, seconds=outcome.seconds)
    measured = {name: value for name, value in vars(outcome).items() if name != "failure"}
    return TaskDone(at=at, attempt=spec.attempt, pool=pool, worker=worker, fetch_seconds=fetch_seconds, **measured)


def failed(
    spec: TaskSpec, info: FailureInfo, *, at: float, pool: str, worker: str = "", seconds: float = 0.0
) -> TaskFailed:
    """It failed, with the partition named, where the worker could not tell (it died)."""
    if info.file is None and len(spec.pieces) == 1:
        partition = spec.pieces[0].partition
        entries = (partition.start, partition.stop)
        info = msgspec.structs.replace(info, dataset=partition.dataset, file=partition.url, entries=entries)
    return TaskFailed(
        at=at, task=spec.task, attempt=spec.attempt, pool=pool, worker=worker, failure=info, seconds=seconds
    )


def lost_in(
    stage: str | None, spec: TaskSpec, run: RunSpec, *, message: str, fate: LossCause = "unknown"
) -> FailureInfo:
    """Its worker died in this stage; None where it was in none, or nobody knows. The code that ended it may be that of
    a modifier, so those around the stage are named."""
    steps = run.segments[spec.segment].steps
    around = [modifier.name for step in steps if step.stage == stage for modifier in step.modifiers]
    if around:
        first, *written = message.split("\n")
        message = "\n".join([f"{first}, in the stage or its modifiers ({', '.join(around)})", *written])
    return FailureInfo(cause="lost", message=message, stage=stage, fate=fate)


def withdrawn(spec: TaskSpec, *, at: float, pool: str) -> TaskFailed:
    """The event of a task that was stopped before any worker took it."""
    return failed(spec, FailureInfo(cause="stopped", message="stopped before it began"), at=at, pool=pool)
