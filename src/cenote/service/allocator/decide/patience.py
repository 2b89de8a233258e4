"""End tasks that have waited for slots longer than they may, or let them fall back."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.service.allocator.decide.fallback import AT_ONCE, call_off, next_pool
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.messages import RecordDecision, ServiceCommand, TaskFellBack, TaskTimedOut
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.reasons import Lines, why
from cenote.service.allocator.state import ServiceState
from cenote.units import format_seconds


def time_out(state: ServiceState) -> Iterator[ServiceCommand]:
    """Every task that is past its own time, or that of its pool; the rest of many with the next event."""
    lines = Lines(state)  # all that are due are told how it is before the first of them goes
    due = [_due(state, state.tasks[name], lines) for name in state.deadlines.over(state.now, most=AT_ONCE)]
    left = dict.fromkeys(state.tasks[event.task].definition.pool for event in due if isinstance(event, TaskFellBack))
    for event in due:
        fold(state, event)
        yield RecordDecision(event)
    for pool in left:
        yield from call_off(state, state.pools[pool])
    if state.deadlines.is_any_over(state.now):
        state.autoscaler.scale_soon()


def _due(state: ServiceState, task: QueuedTask, lines: Lines) -> TaskTimedOut | TaskFellBack:
    """What becomes of a task that may not wait on."""
    own, _ = state.ends_of_patience(task)
    assert task.waiting_since is not None
    if own is not None and own <= state.now:
        return _end(state, task, state.now - task.waiting_since, "its own `queue_timeout`", lines)
    pool = state.pools[task.definition.pool]
    waited = state.now - max(task.waiting_since, task.arrived)
    if (target := next_pool(state, pool, task)) is not None:
        reason = f"it waited {format_seconds(waited)} for pool '{pool.name}'"
        return TaskFellBack(at=state.now, task=task.id, pool=target, reason=reason)
    return _end(state, task, waited, f"the `queue_timeout` of pool '{pool.name}'", lines)


def _end(state: ServiceState, task: QueuedTask, waited: float, limit: str, lines: Lines) -> TaskTimedOut:
    words = "; ".join(why(state, task, lines))
    reason = f"it waited {format_seconds(waited)} without a slot, which is past {limit}: {words}"
    return TaskTimedOut(at=state.now, task=task.id, reason=reason)
