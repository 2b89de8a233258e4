"""Fold in what becomes of workers."""

from __future__ import annotations

from typing import assert_never

from cenote.engine.messages import (
    JobChanged,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.service.allocator.fold.endings import lose
from cenote.service.allocator.messages import WorkerEvent
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.state import ServiceState


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
