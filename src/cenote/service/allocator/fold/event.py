"""Fold one event into the state. Nothing is decided here: the same events always lead to the same state."""

from __future__ import annotations

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
from cenote.service.allocator.fold.decisions import fold_decision
from cenote.service.allocator.fold.instances import fold_instance
from cenote.service.allocator.fold.kept import fold_kept
from cenote.service.allocator.fold.requests import fold_request
from cenote.service.allocator.fold.workers import fold_worker
from cenote.service.allocator.kept import PoolKept, ServiceKept, TaskKept
from cenote.service.allocator.messages import (
    CalendarTurned,
    InstanceAssigned,
    InstanceEnded,
    InstanceGivenUp,
    InstancePreempted,
    InstancesKnown,
    InstanceStarted,
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
from cenote.service.allocator.state import ServiceState


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
