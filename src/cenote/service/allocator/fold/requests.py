"""Fold in what users ask for."""

from __future__ import annotations

from typing import assert_never

import msgspec

from cenote.language.schema.service import ShareRules
from cenote.service.allocator.messages import (
    CalendarTurned,
    PoolAdded,
    PoolClosed,
    PoolRemoved,
    PoolResized,
    RulesChanged,
    TaskAdded,
    TaskArchived,
    TaskCancelled,
    TaskMoved,
    TaskPaused,
    TaskPrioritised,
    TaskPutAhead,
    TaskResumed,
    UserEvent,
)
from cenote.service.allocator.pool import placed
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.state import ServiceState, budget_of, user_key, why_doomed
from cenote.service.client.definitions import TaskState


def fold_request(state: ServiceState, event: UserEvent) -> None:
    """A user's request, or one of the service in a user's name."""
    match event:
        case TaskAdded():
            _add_task(state, event)
        case PoolAdded():
            _add_pool(state, event)
        case PoolResized() | PoolClosed() | PoolRemoved():
            _change_pool(state, event)
        case RulesChanged():
            _change_rules(state, event)
        case CalendarTurned():
            _turn_calendar(state, event)
        case TaskArchived():
            if (task := state.tasks.get(event.task)) is not None and task.state is not None:
                state.forget_task(task)
        case TaskCancelled() | TaskPaused() | TaskResumed() | TaskMoved() | TaskPrioritised() | TaskPutAhead():
            if (task := state.tasks.get(event.task)) is not None and task.state is None:
                _change_task(state, task, event)
        case _:
            assert_never(event)


def _change_rules(state: ServiceState, event: RulesChanged) -> None:
    """A budget that is new, or for another span, counts from now on."""
    before, state.rules = state.rules, event.rules
    keys = {*state.accounts, *(user_key(user) for user in event.rules.budgets)}
    keys |= {f"{kind}:{name}" for name in event.rules.pools for kind in ("pool", "profile")}
    state.begin_spans([key for key in sorted(keys) if _span(before, key) != _span(event.rules, key)], event.at)
    state.autoscaler.scale_soon()


def _turn_calendar(state: ServiceState, event: CalendarTurned) -> None:
    turned = [
        per for per, span in event.spans.items() if per not in state.spans or state.spans[per].since != span.since
    ]
    state.spans, state.sizes = event.spans, event.sizes
    for per in turned:
        keys = [key for key in state.accounts if _span(state.rules, key) == per]
        state.begin_spans(keys, event.spans[per].since)
    state.autoscaler.scale_soon()


def _span(rules: ShareRules, key: str) -> str | None:
    budget = budget_of(rules, key)
    return budget.per if budget else None


def _add_task(state: ServiceState, event: TaskAdded) -> None:
    if event.task.id in state.tasks:
        return
    task = QueuedTask(event.task, (state.next_order,))
    task.arrived = event.at
    state.next_order += 1
    for name in event.task.after:
        if (other := state.tasks.get(name)) is not None and other.state is None:
            task.pending.add(name)
        elif other is not None and other.state is not TaskState.SUCCESS:
            task.doomed = why_doomed(other)
    state.add_task(task)


def _add_pool(state: ServiceState, event: PoolAdded) -> None:
    """One that is closed, and whose workers are gone, may be followed by another of its name."""
    known = state.pools.get(event.pool.name)
    if known is None or (known.closed and not known.live and not known.workers.counts.total):
        state.settle_pool(state.add_pool(event.pool))
        state.abandoned.pop(event.pool.name, None)  # on replay: what waited for the pool before it was decided on then
        state.autoscaler.scale_soon()


def _change_pool(state: ServiceState, event: PoolResized | PoolClosed | PoolRemoved) -> None:
    if (pool := state.pools.get(event.pool)) is None:
        return
    match event:
        case PoolResized():
            size = {"workers": event.workers, "elastic": event.elastic}
            pool.definition = msgspec.structs.replace(pool.definition, **size)
            state.autoscaler.resize(placed(pool.definition, pool.bounds))
        case PoolClosed() | PoolRemoved():
            pool.closed = pool.workers.closed = True
            if isinstance(event, PoolRemoved):
                pool.removed = True
                state.abandoned[pool.name] = None
    state.autoscaler.scale_soon()
    state.settle_pool(pool)


def _change_task(
    state: ServiceState,
    task: QueuedTask,
    event: TaskCancelled | TaskPaused | TaskResumed | TaskMoved | TaskPrioritised | TaskPutAhead,
) -> None:
    match event:
        case TaskCancelled() if task.cancelled is None:
            _cancel(state, task, event)
        case TaskPaused() | TaskResumed():
            task.paused = isinstance(event, TaskPaused)
        case TaskMoved() if event.pool in state.pools:
            task.been = ()
            state.redefine(task, pool=event.pool)
        case TaskPrioritised():
            state.redefine(task, priority=event.priority)
        case TaskPutAhead() if event.of != event.task and (other := state.tasks.get(event.of)) is not None:
            task.order = (*other.order[:-1], other.order[-1] - 1, state.next_order)
            state.next_order += 1
            state.redefine(task, priority=max(task.definition.priority, other.definition.priority))
        case _:
            return
    state.requeue(task)


def _cancel(state: ServiceState, task: QueuedTask, event: TaskCancelled) -> None:
    task.cancelled = event.reason or (f"cancelled by {event.by}" if event.by else "cancelled")
    task.drop_waiting()
    for live in list(task.live.values()):
        state.change_live(live)  # one that is stopped anyway gives way to nobody
    state.check_end(task)
