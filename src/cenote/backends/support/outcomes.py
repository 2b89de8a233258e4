"""Turn a worker's outcome into the event that the engine hears."""

from __future__ import annotations

import msgspec

from cenote.engine.messages import FailureInfo, TaskDone, TaskFailed
from cenote.worker.task_spec import Outcome, TaskSpec


def event_of(outcome: Outcome, spec: TaskSpec, *, at: float, pool: str, worker: str) -> TaskDone | TaskFailed:
    """Done or failed, with the measurements."""
    if outcome.failure is not None:
        info = placed(outcome.failure, spec)
        return TaskFailed(
            at=at,
            task=spec.task,
            attempt=spec.attempt,
            pool=pool,
            worker=worker,
            failure=info,
            seconds=outcome.seconds,
        )
    return TaskDone(
        at=at,
        task=spec.task,
        attempt=spec.attempt,
        pool=pool,
        worker=worker,
        seconds=outcome.seconds,
        cpu_seconds=outcome.cpu_seconds,
        peak_memory=outcome.peak_memory,
        events=outcome.events,
        bytes_read=outcome.bytes_read,
        bytes_out=outcome.bytes_out,
        stages=dict(outcome.stages),
    )


def placed(info: FailureInfo, spec: TaskSpec) -> FailureInfo:
    """With the partition named, where the worker could not tell (it died)."""
    if info.file is not None or len(spec.pieces) != 1:
        return info
    partition = spec.pieces[0].partition
    entries = (partition.start, partition.stop)
    return msgspec.structs.replace(info, dataset=partition.dataset, file=partition.url, entries=entries)


def withdrawn(spec: TaskSpec, *, at: float, pool: str) -> TaskFailed:
    """The event of a task that was stopped before any worker took it."""
    info = placed(FailureInfo(cause="stopped", message="stopped before it began"), spec)
    return TaskFailed(at=at, task=spec.task, attempt=spec.attempt, pool=pool, worker="", failure=info)
