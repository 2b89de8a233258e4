"""Fold in what workers say: attempts, ends, workers that come and go, snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from typing import assert_never

import msgspec

from cenote.engine.messages import (
    JobChanged,
    LossCause,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.service.allocator.accounts import Account
from cenote.service.allocator.messages import (
    AttemptId,
    InstanceEnded,
    InstanceEvent,
    InstancesKnown,
    InstanceStarted,
    KeptEvent,
    WorkerEvent,
)
from cenote.service.allocator.pool import Bounds, LongLivedPool, placed
from cenote.service.allocator.queued_task import CANCELLED, SUCCEEDED, WAITING, keep_task, restored_task
from cenote.service.allocator.snapshot import KeptWorkers, LiveInstance, PoolKept, ServiceKept, TaskKept, Trouble
from cenote.service.allocator.state import ServiceState

# Say what an attempt that ended makes of its instance: it is over, or waits again.


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


# Fold in what becomes of workers.


def fold_worker(state: ServiceState, event: WorkerEvent) -> None:
    """A worker of a pool: asked for, come, silent, gone."""
    if (pool := state.pools.get(event.pool)) is None:
        return
    workers = pool.workers
    match event:
        case WorkerRequested():
            workers.request(event)
        case JobChanged():
            workers.change_job(event)
        case WorkerJoined():
            _join(state, pool, event)
        case WorkerLeaving():
            workers.leave(event.worker)
            pool.seats.close(event.worker)
        case WorkerSilent():
            if workers.fall_silent(event):
                pool.seats.close(event.worker)
        case WorkerAnswers():
            if workers.answer(event.worker):
                pool.seats.open(event.worker, taken_on(state, event.worker))
        case WorkerLost():
            _lose(state, pool, event)
        case _:
            assert_never(event)
    state.pay_worker(pool, event.worker, costs=_costs(pool, event))
    state.autoscaler.scale_soon()
    state.settle_pool(pool)


def _costs(pool: LongLivedPool, event: WorkerEvent) -> bool:
    """Whether a worker is on a machine; one that was sent away may come nevertheless."""
    workers, came = pool.workers, isinstance(event, WorkerJoined) or event.worker in pool.paid
    there = event.worker in workers.dispatched or event.worker in workers.observed
    return there or (came and event.worker in workers.leaving)


def taken_on(state: ServiceState, worker: str) -> int:
    """How many slots of a worker are in use."""
    return len(state.on_worker.get(worker, ()))


def _join(state: ServiceState, pool: LongLivedPool, event: WorkerJoined) -> None:
    """A worker came, or came back; one that was sent away meanwhile gets nothing more."""
    pool.workers.silent.pop(event.worker, None)
    if pool.workers.join(event):
        pool.grew = event.at
        pool.seats.slots[event.worker] = event.slots
        pool.seats.open(event.worker, taken_on(state, event.worker))


def _lose(state: ServiceState, pool: LongLivedPool, event: WorkerLost) -> None:
    running = list(state.on_worker.get(event.worker, {}).values())
    pool.workers.lose(event, blameless=event.cause == "crashed" and len(running) == 1)
    pool.seats.forget(event.worker)
    for live in running:
        lose(state, live, event.reason, event.cause)


# Fold in what a compacted log kept, and make it: all that matters of the service, as a few events.


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
