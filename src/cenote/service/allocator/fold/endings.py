"""Say what an attempt that ended makes of its instance: it is over, or waits again."""

from __future__ import annotations

import msgspec

from cenote.engine.messages import LossCause
from cenote.service.allocator.kept import LiveInstance, Trouble
from cenote.service.allocator.messages import InstanceEnded
from cenote.service.allocator.queued_task import CANCELLED, SUCCEEDED, WAITING
from cenote.service.allocator.state import ServiceState

_EVICTIONS: tuple[LossCause, ...] = ("preempted", "walltime", "retired")
"""Workers that had to go, whatever they ran."""
_GAVE_WAY = "it gave way to a task of higher priority"
_OWN_FAULT = ("exit", "signal", "timeout", "unkept")


def end(state: ServiceState, live: LiveInstance, event: InstanceEnded) -> None:
    """A worker says how an attempt ended."""
    if event.cause in _OWN_FAULT:
        state.pools[live.pool].workers.losses = 0  # its workers are able to work
    if event.cause == "exit" and event.exit_code == 0:
        state.unseat(live, SUCCEEDED)
    elif not _was_stopped(state, live):
        before = _before(state, live)
        own, evicted = event.cause in _OWN_FAULT, event.cause == "evicted"
        _wait_again(
            state,
            live,
            msgspec.structs.replace(
                before,
                exit_code=event.exit_code,
                cause=event.cause,
                message=event.message,
                failures=before.failures + own,
                losses=before.losses + (not own and not evicted),
                evictions=before.evictions + (evicted and live.running),
            ),
        )


def lose(state: ServiceState, live: LiveInstance, reason: str, cause: LossCause) -> None:
    """An attempt went with its worker."""
    if not _was_stopped(state, live):
        before, evicted = _before(state, live), cause in _EVICTIONS
        _wait_again(
            state,
            live,
            msgspec.structs.replace(
                before,
                exit_code=None,
                cause="lost",
                message=f"its worker {live.worker} was lost: {reason}",
                losses=before.losses + (not evicted),
                evictions=before.evictions + evicted,
            ),
        )


def is_unwanted(state: ServiceState, live: LiveInstance) -> bool:
    """Whether an attempt is to be stopped."""
    return live.preempted or state.tasks[live.task].cancelled is not None


def _was_stopped(state: ServiceState, live: LiveInstance) -> bool:
    """Whether the allocator wanted it to end, however it did; then it is done with here."""
    if state.tasks[live.task].cancelled is not None:
        state.unseat(live, CANCELLED)
    elif live.preempted:
        before, message = _before(state, live), live.stop_reason or _GAVE_WAY
        _wait_again(state, live, msgspec.structs.replace(before, exit_code=None, cause="preempted", message=message))
    else:
        return False
    return True


def _wait_again(state: ServiceState, live: LiveInstance, trouble: Trouble) -> None:
    state.unseat(live, WAITING, trouble)


def _before(state: ServiceState, live: LiveInstance) -> Trouble:
    return state.tasks[live.task].troubles.get(live.instance, Trouble())
