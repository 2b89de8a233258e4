"""Say what single events ask for at once: attempts to stop or to start once more, workers to send away."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.engine.messages import EndWorkers, StopWorkers, WorkerJoined
from cenote.service.allocator.fold.endings import is_unwanted
from cenote.service.allocator.kept import LiveInstance
from cenote.service.allocator.messages import (
    AttemptId,
    InstancesKnown,
    ServiceCommand,
    ServiceEvent,
    StartInstance,
    StopInstance,
    TaskCancelled,
)
from cenote.service.allocator.state import ServiceState

_GIVES_WAY = "it gives way to a task of higher priority"


def answers(state: ServiceState, event: ServiceEvent) -> Iterator[ServiceCommand]:
    """After the event was folded in."""
    match event:
        case TaskCancelled():
            if (task := state.tasks.get(event.task)) is not None and task.cancelled is not None:
                yield from (stop(state, live) for live in task.live.values())
        case WorkerJoined():
            yield from _about_worker(state, event)
        case InstancesKnown():
            yield from _about_attempts(state, event)
        case _:
            pass


def stop(state: ServiceState, live: LiveInstance) -> StopInstance:
    """End this attempt, for the reason that the state has."""
    reason = state.tasks[live.task].cancelled or live.stop_reason or _GIVES_WAY
    return StopInstance(live.task, live.instance, live.attempt, live.worker, reason)


def _about_worker(state: ServiceState, event: WorkerJoined) -> Iterator[ServiceCommand]:
    if (pool := state.pools.get(event.pool)) is None:
        yield EndWorkers(event.pool, (event.worker,), "its pool is gone")
    elif event.worker in pool.workers.leaving:
        yield StopWorkers(event.pool, (event.worker,), "it is no longer needed")


def _about_attempts(state: ServiceState, event: InstancesKnown) -> Iterator[ServiceCommand]:
    """What it should run and does not know is started again; what it runs and should not is stopped."""
    known = {*event.running, *event.finished}
    wanted: set[AttemptId] = set()
    for live in state.on_worker.get(event.worker, {}).values():
        attempt = AttemptId(live.task, live.instance, live.attempt)
        wanted.add(attempt)
        if is_unwanted(state, live):
            yield stop(state, live)
        elif attempt not in known:
            yield StartInstance(live.task, live.instance, live.attempt, live.worker)
    for stray in event.running:
        if stray not in wanted:
            reason = "it is not wanted any more"
            yield StopInstance(stray.task, stray.instance, stray.attempt, event.worker, reason)
