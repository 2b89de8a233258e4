"""Fold in what workers say of the attempts that they run."""

from __future__ import annotations

from typing import assert_never

from cenote.service.allocator.fold.endings import end, is_unwanted, lose
from cenote.service.allocator.kept import LiveInstance
from cenote.service.allocator.messages import (
    AttemptId,
    InstanceEnded,
    InstanceEvent,
    InstancesKnown,
    InstanceStarted,
)
from cenote.service.allocator.queued_task import WAITING
from cenote.service.allocator.state import ServiceState


def fold_instance(state: ServiceState, event: InstanceEvent) -> None:
    """News of an attempt; those that have no slot any more are ignored."""
    match event:
        case InstanceStarted():
            live = state.live(event.task, event.instance, event.attempt)
            if live is not None and not live.running:
                state.change_live(live, running=True)
        case InstanceEnded():
            if (live := state.live(event.task, event.instance, event.attempt)) is not None:
                end(state, live, event)
        case InstancesKnown():
            _compare(state, event)
        case _:
            assert_never(event)


def _compare(state: ServiceState, event: InstancesKnown) -> None:
    """A worker that ran something, and does not know it any more, is another one of the same name. What was to be
    stopped before it was even sent is over."""
    running, finished = set(event.running), {*event.finished, *event.over}
    for live in list(state.on_worker.get(event.worker, {}).values()):
        attempt = AttemptId(live.task, live.instance, live.attempt)
        if attempt in running and not live.running:
            state.change_live(live, running=True)
        elif attempt not in running and attempt not in finished and (live.running or is_unwanted(state, live)):
            lose(state, live, "it came back without its instances", "died")
    for attempt in (*event.running, *event.finished, *event.over):
        _adopt(state, attempt, event)


def _adopt(state: ServiceState, attempt: AttemptId, event: InstancesKnown) -> None:
    """An attempt that was begun later than anything the log knows of its instance: the end of the log is missing."""
    task = state.tasks.get(attempt.task)
    if task is None or task.state is not None or event.pool not in state.pools:
        return
    waits = attempt.instance < len(task.states) and task.states[attempt.instance] == WAITING
    if waits and attempt.attempt > task.attempts[attempt.instance]:
        state.seat(
            LiveInstance(
                task=attempt.task,
                instance=attempt.instance,
                attempt=attempt.attempt,
                worker=event.worker,
                pool=event.pool,
                serial=state.next_serial,
                since=event.at,
                running=attempt not in event.over,
                timeout=task.definition.timeout,
            )
        )
        state.next_serial += 1
