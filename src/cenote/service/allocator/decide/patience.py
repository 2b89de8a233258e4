"""End tasks that have waited for slots longer than they may, or let them fall back."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.service.allocator.decide.fallback import move, next_pool
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.messages import RecordDecision, ServiceCommand, TaskTimedOut
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.reasons import why
from cenote.service.allocator.state import ServiceState
from cenote.units import format_seconds


def time_out(state: ServiceState) -> Iterator[ServiceCommand]:
    """Every task that is past its own time, or that of its pool."""
    for name in list(state.impatient):
        task = state.tasks[name]
        own, pool = task.definition.queue_timeout, state.pools.get(task.definition.pool)
        if task.waiting_since is None:
            continue
        if own is not None and state.now - task.waiting_since >= own:
            yield _end(state, task, state.now - task.waiting_since, "its own `queue_timeout`")
        elif pool is not None and pool.definition.queue_timeout is not None:
            waited = state.now - max(task.waiting_since, task.arrived)
            if waited < pool.definition.queue_timeout:
                continue
            if (target := next_pool(state, pool, task)) is not None:
                yield move(state, task, target, f"it waited {format_seconds(waited)} for pool '{pool.name}'")
            else:
                yield _end(state, task, waited, f"the `queue_timeout` of pool '{pool.name}'")


def _end(state: ServiceState, task: QueuedTask, waited: float, limit: str) -> RecordDecision:
    reason = f"it waited {format_seconds(waited)} without a slot, which is past {limit}: {'; '.join(why(state, task))}"
    event = TaskTimedOut(at=state.now, task=task.id, reason=reason)
    fold(state, event)
    return RecordDecision(event)
