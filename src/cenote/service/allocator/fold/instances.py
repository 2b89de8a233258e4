"""Fold in what workers say of the attempts that they run."""

from __future__ import annotations

from typing import assert_never

from cenote.service.allocator.fold.endings import end, is_unwanted, lose
from cenote.service.allocator.messages import (
    AttemptId,
    InstanceEnded,
    InstanceEvent,
    InstancesKnown,
    InstanceStarted,
)
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
    running, finished = set(event.running), set(event.finished)
    for live in list(state.on_worker.get(event.worker, {}).values()):
        attempt = AttemptId(live.task, live.instance, live.attempt)
        if attempt in running and not live.running:
            state.change_live(live, running=True)
        elif attempt not in running and attempt not in finished and (live.running or is_unwanted(state, live)):
            lose(state, live, "it came back without its instances", "died")
