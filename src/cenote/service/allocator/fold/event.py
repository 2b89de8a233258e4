"""Fold one event into the state. Nothing is decided here: the same events always lead to the same state."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from cenote.engine.messages import (
    JobChanged,
    PoolChanged,
    Tick,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.engine.scaling import Past, PoolState
from cenote.service.allocator.fold.instances import fold_instance, fold_kept, fold_worker
from cenote.service.allocator.fold.requests import fold_request
from cenote.service.allocator.messages import (
    CalendarTurned,
    InstanceAssigned,
    InstanceEnded,
    InstanceGivenUp,
    InstancePreempted,
    InstancesKnown,
    InstanceStarted,
    OwnDecision,
    PoolAdded,
    PoolBounded,
    PoolClosed,
    PoolRemoved,
    PoolResized,
    RulesChanged,
    ServiceEvent,
    ServiceStarted,
    TaskAdded,
    TaskArchived,
    TaskCancelled,
    TaskEnded,
    TaskFellBack,
    TaskMoved,
    TaskPaused,
    TaskPrioritised,
    TaskPutAhead,
    TaskResumed,
    TaskTimedOut,
    WorkersAsked,
    WorkersEnded,
    WorkersSentAway,
)
from cenote.service.allocator.pool import Bounds, LongLivedPool, placed
from cenote.service.allocator.queued_task import FAILED, WAITING, QueuedTask
from cenote.service.allocator.snapshot import LiveInstance, PoolKept, ServiceKept, TaskKept
from cenote.service.allocator.state import ServiceState

# Fold in what the allocator decided: as it decides, and again when the log is replayed.


InstanceDecision = InstanceAssigned | InstancePreempted | InstanceGivenUp
TaskDecision = TaskEnded | TaskFellBack | TaskTimedOut
PoolDecision = PoolChanged | PoolBounded | WorkersAsked | WorkersSentAway | WorkersEnded


def fold_decision(state: ServiceState, event: OwnDecision) -> None:
    """What follows from a decision. What it is about may be gone, in a log that another version wrote."""
    match event:
        case ServiceStarted():
            for each in list(state.pools.values()):
                _start_again(state, each, event)
        case PoolChanged() | PoolBounded() | WorkersAsked() | WorkersSentAway() | WorkersEnded():
            if (pool := state.pools.get(event.pool)) is not None:
                _change_pool(pool, event)
                state.settle_pool(pool)
        case (
            InstanceAssigned() | InstancePreempted() | InstanceGivenUp() | TaskEnded() | TaskFellBack() | TaskTimedOut()
        ):
            if (task := state.tasks.get(event.task)) is not None:
                _change_task(state, task, event)
        case _:
            assert_never(event)


def _change_task(state: ServiceState, task: QueuedTask, event: InstanceDecision | TaskDecision) -> None:
    match event:
        case InstanceAssigned():
            if event.pool in state.pools and task.states[event.instance] == WAITING:
                _assign(state, event)
        case InstancePreempted():
            if (live := state.live(event.task, event.instance, event.attempt)) is not None:
                state.change_live(live, preempted=True, stop_reason=event.reason or _gave_way(state, event.ahead))
        case InstanceGivenUp():
            state.returned.pop((task.id, event.instance), None)
            if task.states[event.instance] == WAITING:
                task.finish(event.instance, FAILED)
                state.requeue(task)
                state.check_end(task)
        case TaskEnded():
            task.drop_waiting()
            task.state, task.reason, task.ended = event.state, event.reason, event.at
            state.settled.pop(task.id, None)
            state.requeue(task)
            state.free_dependents(task)
        case TaskFellBack():
            task.been = (*task.been, task.definition.pool)
            state.redefine(task, pool=event.pool)
        case TaskTimedOut():
            task.doomed = event.reason
            state.requeue(task)
            state.check_end(task)
        case _:
            assert_never(event)


def _gave_way(state: ServiceState, ahead: str) -> str:
    """In words that stay true; empty where the other task is not known any more."""
    other = state.tasks.get(ahead)
    return f"it gave way to task '{other.definition.name}' ({ahead}) of higher priority" if other else ""


def _assign(state: ServiceState, event: InstanceAssigned) -> None:
    live = LiveInstance(
        task=event.task,
        instance=event.instance,
        attempt=event.attempt,
        worker=event.worker,
        pool=event.pool,
        serial=state.next_serial,
        since=event.at,
        timeout=state.tasks[event.task].definition.timeout,
    )
    state.next_serial += 1
    state.seat(live)


def _change_pool(pool: LongLivedPool, event: PoolDecision) -> None:
    """On replay only, but for PoolBounded: live, the autoscaler has done this as it decided."""
    workers = pool.workers
    match event:
        case PoolChanged():
            workers.noted = event.state
            if event.state is PoolState.FAILURE:
                workers.failed = event.reason
        case PoolBounded():
            bounded = event.least is not None and event.most is not None
            pool.bounds = Bounds(event.least or 0, event.most or 0, event.reason) if bounded else None
            workers.pool = placed(pool.definition, pool.bounds)
        case WorkersAsked():
            workers.planned += event.count
            workers.past = replace(workers.past, resized=event.at)
        case WorkersSentAway():
            workers.send_away(event.workers)
            workers.past = replace(workers.past, resized=event.at)
            for worker in event.workers:
                pool.seats.close(worker)
        case WorkersEnded():
            for worker in event.workers:
                workers.silent.pop(worker, None)
        case _:
            assert_never(event)


def _start_again(state: ServiceState, pool: LongLivedPool, event: ServiceStarted) -> None:
    """Whether those came that were only asked for cannot be known; those that were there have to say so."""
    workers = pool.workers
    workers.planned, pool.careful = 0, event.careful
    for worker in sorted(workers.observed | workers.leaving):
        workers.silent[worker] = (event.at, event.patience)
        pool.seats.close(worker)
    workers.past = Past(size=workers.size, resized=workers.past.resized, peaks=((event.at, workers.size),))
    state.settle_pool(pool)


def fold(state: ServiceState, event: ServiceEvent) -> None:
    """What is different now. Events about tasks, pools and workers that are not known change nothing."""
    state.now, state.at = max(state.now, event.at), event.at
    match event:
        case InstanceEnded() | InstanceStarted() | InstancesKnown():
            fold_instance(state, event)
        case WorkerRequested() | JobChanged() | WorkerJoined() | WorkerLeaving() | WorkerSilent():
            fold_worker(state, event)
        case WorkerAnswers() | WorkerLost():
            fold_worker(state, event)
        case TaskAdded() | TaskCancelled() | TaskPaused() | TaskResumed() | TaskMoved() | TaskPrioritised():
            fold_request(state, event)
        case TaskPutAhead() | TaskArchived() | RulesChanged() | CalendarTurned():
            fold_request(state, event)
        case PoolAdded() | PoolResized() | PoolClosed() | PoolRemoved():
            fold_request(state, event)
        case InstanceAssigned() | InstancePreempted() | InstanceGivenUp() | TaskEnded() | TaskFellBack():
            fold_decision(state, event)
        case TaskTimedOut() | PoolBounded():
            fold_decision(state, event)
        case PoolChanged() | WorkersAsked() | WorkersSentAway() | WorkersEnded() | ServiceStarted():
            fold_decision(state, event)
        case ServiceKept() | PoolKept() | TaskKept():
            fold_kept(state, event)
        case Tick():
            pass
        case _:
            assert_never(event)
