"""Move tasks that wait in vain to the pools that take over."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.common.units import format_seconds
from cenote.engine.messages import StopWorkers
from cenote.engine.scaling import needed_workers
from cenote.language.execution import RunLimits
from cenote.service.allocator.decide.endings import stop
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.messages import (
    RecordDecision,
    ServiceCommand,
    TaskCancelled,
    TaskFellBack,
    TaskTimedOut,
    WorkersSentAway,
)
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.reasons import Lines, why
from cenote.service.allocator.refusals import lacks
from cenote.service.allocator.state import ServiceState

AT_ONCE = 200
"""Tasks that move, or whose time is over, after one event: thousands may wait for the same."""
_NO_WORKER_FOR = RunLimits().no_worker_for


def fall_back(state: ServiceState) -> Iterator[ServiceCommand]:
    """Tasks of pools that have had no worker for too long, or never will; the rest of many with the next event."""
    left = AT_ONCE
    for pool in list(state.pools.values()):
        if pool.definition.fallback and pool.waiting.instances and (reason := why_leave(pool, state.now)):
            for name in sorted(pool.waiting.tasks, key=lambda each: state.tasks[each].order):
                task = state.tasks[name]
                if (target := next_pool(state, pool, task)) is not None:
                    if not left:
                        state.autoscaler.scale_soon()
                        return
                    left -= 1
                    yield move(state, task, target, reason)
            yield from call_off(state, pool)


def call_off(state: ServiceState, pool: LongLivedPool) -> Iterator[ServiceCommand]:
    """Workers that were asked for and have not come, where all that waited for them went elsewhere: they could still
    start, and cost, with nothing to do."""
    workers = pool.workers
    surplus = workers.size - needed_workers(pool.load(), workers.pool.size)
    names = tuple(reversed(workers.requested))[: max(0, surplus)]
    if names and not pool.waiting.instances and not pool.live:
        reason = "what waited for it went to another pool"
        event = WorkersSentAway(at=state.now, pool=pool.name, workers=names, reason=reason)
        fold(state, event)
        yield RecordDecision(event)
        yield StopWorkers(pool.name, names, reason)


def clear_removed(state: ServiceState) -> Iterator[ServiceCommand]:
    """Tasks of pools that were removed: elsewhere, or cancelled."""
    while state.abandoned:
        name = next(iter(state.abandoned))
        del state.abandoned[name]
        pool, reason = state.pools.get(name), f"pool '{name}' was removed"
        here = [task for task in state.tasks.values() if task.definition.pool == name and task.state is None]
        for task in here:
            target = next_pool(state, pool, task) if pool else None
            if target is not None:
                yield move(state, task, target, reason)
            elif task.cancelled is None:
                yield from _cancel(state, task, reason)


def why_leave(pool: LongLivedPool, now: float) -> str:
    """Why work should not wait in a pool any longer; empty where it should."""
    if pool.workers.failed is not None:
        return f"pool '{pool.name}' failed: {pool.workers.failed}"
    since, patience = pool.workers.wanting_since, pool.definition.no_worker_for
    patience = _NO_WORKER_FOR if patience is None else patience
    if since is not None and now - since >= patience:
        return f"pool '{pool.name}' had no worker for {format_seconds(now - since)}"
    return ""


def next_pool(state: ServiceState, pool: LongLivedPool, task: QueuedTask) -> str | None:
    """The pool that takes over a task waiting here; None where none does."""
    for name in pool.definition.fallback:
        other = state.pools.get(name)
        if other is None or other is pool or other.closed or name in task.been or not other.workers.may_have_workers:
            continue
        if not lacks(other.definition, task.definition):
            return name
    return None


def move(state: ServiceState, task: QueuedTask, target: str, reason: str) -> RecordDecision:
    """Let a task wait there."""
    event = TaskFellBack(at=state.now, task=task.id, pool=target, reason=reason)
    fold(state, event)
    return RecordDecision(event)


def _cancel(state: ServiceState, task: QueuedTask, reason: str) -> Iterator[ServiceCommand]:
    event = TaskCancelled(at=state.now, task=task.id, reason=reason)
    fold(state, event)
    yield RecordDecision(event)
    yield from (stop(state, live) for live in task.live.values())


# End tasks that have waited for slots longer than they may, or let them fall back.


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
