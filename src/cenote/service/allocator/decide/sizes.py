"""Start and stop workers as pools need them, within their bounds, by the same rules as in a run."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.engine.messages import EndWorkers, PoolChanged, Record, StartWorkers, StopWorkers
from cenote.service.allocator.accounts import RESERVE
from cenote.service.allocator.decide.endings import stop
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.messages import (
    InstancePreempted,
    PoolBounded,
    RecordDecision,
    ServiceCommand,
    WorkersAsked,
    WorkersEnded,
    WorkersSentAway,
)
from cenote.service.allocator.pool import Bounds, LongLivedPool
from cenote.service.allocator.queue import affordable, overspent, why_used_up
from cenote.service.allocator.snapshot import LiveInstance
from cenote.service.allocator.state import ServiceState

_SMALLER = "the pool was made smaller"


def resize_pools(state: ServiceState) -> Iterator[ServiceCommand]:
    """Every pool; the autoscaler changes what it knows of workers as it decides."""
    for pool in list(state.pools.values()):
        yield from _shrink(state, pool)
    loads = {name: pool.load() for name, pool in state.pools.items()}
    for command in state.autoscaler.scale(loads, lambda: frozenset(state.on_worker), state.now):
        match command:
            case Record(PoolChanged() as event):
                yield RecordDecision(event)
            case StartWorkers(pool=name, count=count):
                yield RecordDecision(WorkersAsked(at=state.now, pool=name, count=count))
                yield command
            case StopWorkers(pool=name, workers=workers, reason=reason):
                for worker in workers:
                    state.pools[name].seats.close(worker)
                yield RecordDecision(WorkersSentAway(at=state.now, pool=name, workers=workers, reason=reason))
                yield command
            case EndWorkers(pool=name, workers=workers, reason=reason):
                yield RecordDecision(WorkersEnded(at=state.now, pool=name, workers=workers, reason=reason))
                yield command
            case _:
                raise AssertionError(f"the autoscaler does not say {command}")
    for pool in list(state.pools.values()):
        state.settle_pool(pool)


def send_away_again(state: ServiceState) -> Iterator[ServiceCommand]:
    """After a restart: workers that were to leave may not have heard of it."""
    for name, pool in state.pools.items():
        if pool.workers.leaving:
            yield StopWorkers(name, tuple(sorted(pool.workers.leaving)), "it is no longer needed")


def _shrink(state: ServiceState, pool: LongLivedPool) -> Iterator[ServiceCommand]:
    """More workers than it may have, since it was made smaller: those that have least to do finish it and go."""
    workers = pool.workers
    surplus = workers.size - workers.planned - workers.pool.most_workers
    if surplus <= 0 or pool.closed:
        return
    by_work = sorted(workers.observed, key=lambda worker: (len(state.on_worker.get(worker, ())), worker))
    names = (*reversed(workers.requested), *by_work)[:surplus]
    reason = pool.bounds.reason if pool.bounds and pool.bounds.reason else _SMALLER
    event = WorkersSentAway(at=state.now, pool=pool.name, workers=tuple(names), reason=reason)
    fold(state, event)
    yield RecordDecision(event)
    yield StopWorkers(pool.name, event.workers, reason)


# Keep pools within their hours and budgets: other limits for now, and an end for what a budget pays no longer.


def bound_pools(state: ServiceState) -> Iterator[ServiceCommand]:
    """Pools whose limits are others from now on."""
    for pool in list(state.pools.values()):
        if (wanted := _bounds(state, pool)) == pool.bounds or pool.closed:
            continue
        if wanted and pool.bounds and wanted[:2] == pool.bounds[:2] and bool(wanted.reason) == bool(pool.bounds.reason):
            continue  # only its words have other numbers
        least, most, reason = wanted or (None, None, "")
        event = PoolBounded(at=state.now, pool=pool.name, least=least, most=most, reason=reason)
        fold(state, event)
        yield RecordDecision(event)


def end_spending(state: ServiceState) -> Iterator[ServiceCommand]:
    """Workers and instances that would cost more than their budgets have."""
    for pool in list(state.pools.values()):
        if (pool.paid or pool.workers.requested) and (reason := why_used_up(state, pool)):
            yield from _end_workers(state, pool, reason)
    for user, reason in overspent(state):
        for live in _latest_first(state, user):
            if not any(name == user for name, _ in overspent(state)):
                break
            yield from _give_way(state, live, reason)
            yield stop(state, state.tasks[live.task].live[live.instance])


def _bounds(state: ServiceState, pool: LongLivedPool) -> Bounds | None:
    definition = pool.definition
    elastic, workers = definition.elastic, definition.workers or 0
    own = (elastic.min, elastic.max) if elastic else (workers, workers)
    name = definition.name if definition.name in state.rules.pools else definition.profile
    least, most = state.sizes.get(name, own) if elastic else own
    reason = ""
    if (limit := affordable(state, pool)) is not None and limit[0] < most:
        most, reason = limit
        least = min(least, most)
    return None if (least, most) == own and not reason else Bounds(least, most, reason)


def _end_workers(state: ServiceState, pool: LongLivedPool, reason: str) -> Iterator[ServiceCommand]:
    """Whatever they run waits again. Those that are not gone after a while are told once more."""
    for live in list(pool.live.values()):
        if not live.preempted:
            yield from _give_way(state, live, reason)
    workers = sorted({*pool.workers.requested, *pool.workers.observed, *pool.workers.leaving})
    names = tuple(name for name in workers if state.now - pool.ended.get(name, -RESERVE) >= RESERVE)
    if names:
        pool.ended.update(dict.fromkeys(names, state.now))
        event = WorkersEnded(at=state.now, pool=pool.name, workers=names, reason=reason)
        fold(state, event)
        yield RecordDecision(event)
        yield EndWorkers(pool.name, names, reason)


def _give_way(state: ServiceState, live: LiveInstance, reason: str) -> Iterator[ServiceCommand]:
    event = InstancePreempted(
        at=state.now,
        task=live.task,
        instance=live.instance,
        attempt=live.attempt,
        worker=live.worker,
        ahead="",
        reason=reason,
    )
    fold(state, event)
    yield RecordDecision(event)


def _latest_first(state: ServiceState, user: str) -> list[LiveInstance]:
    """Those without a time limit: the others were paid for when they started."""
    found = [
        live
        for pool in state.pools.values()
        for live in pool.live.values()
        if live.timeout is None and not live.preempted and state.tasks[live.task].definition.user == user
    ]
    return sorted(found, key=lambda live: -live.serial)
