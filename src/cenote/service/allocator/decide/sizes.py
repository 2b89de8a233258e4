"""Start and stop workers as pools need them, by the same rules as in a run."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.engine.messages import EndWorkers, PoolChanged, Record, StartWorkers, StopWorkers
from cenote.service.allocator.fold.event import fold
from cenote.service.allocator.messages import (
    RecordDecision,
    ServiceCommand,
    WorkersAsked,
    WorkersEnded,
    WorkersSentAway,
)
from cenote.service.allocator.pool import LongLivedPool
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
