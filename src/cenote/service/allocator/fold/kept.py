"""Fold in what a compacted log kept, and make it: all that matters of the service, as a few events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import assert_never

from cenote.service.allocator.accounts import Account
from cenote.service.allocator.fold.workers import taken_on
from cenote.service.allocator.kept import KeptWorkers, PoolKept, ServiceKept, TaskKept
from cenote.service.allocator.messages import KeptEvent
from cenote.service.allocator.pool import Bounds, LongLivedPool, placed
from cenote.service.allocator.state import ServiceState
from cenote.service.allocator.task_kept import keep_task, restored_task


def kept_state(state: ServiceState) -> list[KeptEvent]:
    """Events that lead to this state, when they are folded into an empty one."""
    return [*_kept_service(state), *in_order(keep_task(task, state.now) for task in state.tasks.values())]


def copy_ahead(state: ServiceState) -> Iterator[str]:
    """Copy task after task. What changes meanwhile is copied once more, by `copied_state`."""
    for task in list(state.tasks.values()):
        if task.copied is None:
            task.copied = keep_task(task, state.now)
            yield task.id


def copied_state(state: ServiceState) -> tuple[list[KeptEvent], list[TaskKept]]:
    """The same events, those of tasks apart and in no order: there is little to do after `copy_ahead`."""
    tasks = [task.copied or keep_task(task, state.now) for task in state.tasks.values()]
    for task in state.tasks.values():
        task.copied = None
    return _kept_service(state), tasks


def in_order(tasks: Iterable[TaskKept]) -> list[TaskKept]:
    """As they come in the queue, where nothing else counts."""
    return sorted(tasks, key=lambda kept: (kept.order, kept.task.id))


def _kept_service(state: ServiceState) -> list[KeptEvent]:
    """Everything but tasks."""
    start = ServiceKept(
        at=state.now,
        next_order=state.next_order,
        next_serial=state.next_serial,
        rules=state.rules,
        spans=state.spans,
        sizes=state.sizes,
        accounts={key: (account.begins, account.closed) for key, account in sorted(state.accounts.items())},
    )
    return [start, *(_keep_pool(pool, state.now) for pool in state.pools.values())]


def fold_kept(state: ServiceState, event: KeptEvent) -> None:
    """One of them."""
    match event:
        case ServiceKept():
            state.next_order, state.next_serial, state.rules = event.next_order, event.next_serial, event.rules
            state.spans, state.sizes = event.spans, event.sizes
            state.accounts = {key: Account(begins, closed) for key, (begins, closed) in event.accounts.items()}
        case PoolKept():
            _restore_pool(state, event)
        case TaskKept():
            _restore_task(state, event)
        case _:
            assert_never(event)


def _restore_task(state: ServiceState, event: TaskKept) -> None:
    """Since when its pool lacks workers is known already, and does not begin anew with this task."""
    pool = state.pools.get(event.task.pool)
    since = pool.workers.wanting_since if pool else None
    state.add_task(restored_task(event))
    if pool is not None and since is not None:
        pool.workers.wanting_since = since


def _keep_pool(pool: LongLivedPool, at: float) -> PoolKept:
    known = {name: copy(getattr(pool.workers, name)) for name in KeptWorkers.__struct_fields__}
    return PoolKept(
        at=at,
        pool=pool.definition,
        removed=pool.removed,
        slots=dict(pool.seats.slots),
        usable=tuple(sorted(pool.seats.usable)),
        paid=dict(sorted(pool.paid.items())),
        bounds=pool.bounds,
        workers=KeptWorkers(**known),
    )


def _restore_pool(state: ServiceState, event: PoolKept) -> None:
    pool = state.add_pool(event.pool)
    for name in KeptWorkers.__struct_fields__:
        setattr(pool.workers, name, copy(getattr(event.workers, name)))
    pool.closed, pool.removed = event.workers.closed, event.removed
    if event.bounds is not None:
        pool.bounds = Bounds(*event.bounds)
        pool.workers.pool = placed(event.pool, pool.bounds)
    for worker, since in event.paid.items():
        state.charge_worker(pool, worker, since)
    pool.seats.slots.update(event.slots)
    for worker in event.usable:
        pool.seats.open(worker, taken_on(state, worker))
