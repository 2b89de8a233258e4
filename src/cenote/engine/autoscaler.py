"""Start and stop workers so that every pool has as many as it should, and record the state of each pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cenote.common.units import format_seconds
from cenote.engine.messages import (
    AnyCommand,
    EndWorkers,
    JobChanged,
    LossCause,
    PoolChanged,
    Record,
    ResultLost,
    ResultNotNeeded,
    StartWorkers,
    StopWorkers,
    TaskDone,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.engine.scaling import Load, PoolState, needed_workers, pool_state, remembered, wanted_workers
from cenote.engine.workers import PoolWorkers
from cenote.language.execution import RunLimits
from cenote.planning.placement.pools import PlacedPool

SCALE_EVERY = 0.2
"""Seconds; more often than that, only when a worker came or went."""


class Autoscaler:
    """The workers of all pools."""

    def __init__(self, pools: tuple[PlacedPool, ...], limits: RunLimits) -> None:
        self._limits = limits
        self.pools: dict[str, PoolWorkers] = {}
        for pool in pools:
            self.add(pool)
        self._lost: dict[str, tuple[LossCause, bool]] = {}
        """Workers that are gone → why, and whether they had only one task."""
        self._again: dict[int, str] = {}
        """Finished tasks that the backend makes again → their pool."""
        self._next_scaling = 0.0

    # Pools that come and go

    def add(self, pool: PlacedPool) -> PoolWorkers:
        """A pool, without workers so far."""
        self.pools[pool.name] = workers = PoolWorkers(pool, self._loss_limit(pool))
        return workers

    def remove(self, pool: str) -> None:
        """A pool is no more; one that is not known is not an error."""
        self.pools.pop(pool, None)

    def resize(self, pool: PlacedPool) -> None:
        """A pool gets another size. One that failed gets another chance."""
        workers = self.pools[pool.name]
        workers.pool, workers.loss_limit = pool, self._loss_limit(pool)
        workers.losses = workers.unfit = 0
        workers.failed = workers.refused = workers.cut_off = None
        self.scale_soon()

    def scale_soon(self) -> None:
        """Something happened: the next scaling does not wait for its time."""
        self._next_scaling = 0.0

    def _loss_limit(self, pool: PlacedPool) -> int:
        return self._limits.pool * (pool.most_workers + 1)

    # What happens

    def request(self, event: WorkerRequested) -> None:
        """A worker was asked for."""
        if workers := self.pools.get(event.pool):
            workers.request(event)
            self._next_scaling = 0.0

    def change_job(self, event: JobChanged) -> None:
        """The batch system has news."""
        if workers := self.pools.get(event.pool):
            workers.change_job(event)
            self._next_scaling = 0.0

    def join(self, event: WorkerJoined, commands: list[AnyCommand]) -> bool:
        """A worker came: whether it may work. One that was asked to stop before it came is asked again."""
        self._next_scaling = 0.0
        workers = self.pools.get(event.pool)
        if workers is None or workers.join(event):
            return True
        commands.append(StopWorkers(event.pool, (event.worker,), "it is no longer needed"))
        return False

    def leave(self, event: WorkerLeaving) -> None:
        """A worker will go soon, and takes nothing more."""
        self._next_scaling = 0.0
        if workers := self.pools.get(event.pool):
            workers.leave(event.worker)

    def fall_silent(self, event: WorkerSilent) -> bool:
        """A worker does not answer: whether it is to be sent nothing for now."""
        workers = self.pools.get(event.pool)
        return workers is not None and workers.fall_silent(event)

    def answer(self, event: WorkerAnswers) -> int:
        """A silent worker answers: its slots, if it may work again."""
        workers = self.pools.get(event.pool)
        return workers.pool.slots if workers is not None and workers.answer(event.worker) else 0

    def lose(self, event: WorkerLost, *, tasks: int) -> None:
        """A worker is gone, with so many tasks on it."""
        self._next_scaling = 0.0
        self._lost[event.worker] = (event.cause, tasks == 1)
        if workers := self.pools.get(event.pool):
            workers.lose(event, blameless=event.cause in ("crashed", "overdue") and tasks == 1)

    def task_done(self, event: TaskDone) -> None:
        """The workers of this pool are able to work."""
        if workers := self.pools.get(event.pool):
            workers.losses = 0
        self._again.pop(event.task, None)

    def make_again(self, event: ResultLost) -> None:
        """A finished task is run again by the backend on its own."""
        self._next_scaling = 0.0
        self._again[event.task] = event.pool

    def spare(self, event: ResultNotNeeded) -> None:
        """A finished task is not run again after all."""
        self._next_scaling = 0.0
        self._again.pop(event.task, None)

    def made_again_in(self, pool: str) -> int:
        """How many finished tasks a pool has to run again."""
        return sum(name == pool for name in self._again.values())

    def fate_of(self, worker: str) -> tuple[LossCause, bool]:
        """Why a worker went, and whether it had only one task; unknown where no event said."""
        return self._lost.get(worker, ("unknown", False))

    # What follows from it

    def is_due(self, now: float) -> bool:
        """Whether it is time to scale the pools again."""
        return now >= self._next_scaling

    def scale(self, loads: Mapping[str, Load], busy: Callable[[], frozenset[str]], now: float) -> list[AnyCommand]:
        """Start and stop workers as the loads call for, and record new states; `busy` says which workers run a task."""
        self._next_scaling = now + SCALE_EVERY
        commands: list[AnyCommand] = []
        for name, workers in sorted(self.pools.items(), key=lambda one: not loads[one[0]].tasks):  # first what waits
            load = loads[name]
            if workers.observed:
                workers.wanting_since = None
            elif workers.wanting_since is None and load.tasks:
                workers.wanting_since = now
            commands += [
                EndWorkers(name, (worker,), f"it did not answer for {format_seconds(seconds)}")
                for worker, seconds in workers.end_silent(now)
            ]
            self._judge(workers, load, now)
            commands += _resize(workers, load, busy, now)
            commands += _note(workers, now)
        return commands

    def close(self, reason: str, now: float) -> list[AnyCommand]:
        """The run is over: what is left to record."""
        open_ones = [
            workers for workers in self.pools.values() if workers.noted not in (PoolState.CLOSED, PoolState.FAILURE)
        ]
        return [_state_record(workers, PoolState.CLOSED, reason, now) for workers in open_ones]

    def _judge(self, workers: PoolWorkers, load: Load, now: float) -> None:
        """Close a pool that no task needs any more; give up one that keeps losing its workers."""
        workers.closed = load.to_come == 0
        if workers.closed or workers.failed is not None:
            return
        if workers.refused is not None:
            workers.failed = f"its workers were refused: {workers.refused}"
        elif workers.is_unfit:
            workers.failed = f"its workers were turned away: {workers.last_loss}"
        elif workers.is_cut_off(now, self._limits.no_worker_for):
            assert workers.cut_off is not None
            seconds = format_seconds(now - workers.cut_off.since)
            workers.failed = f"its workers have not reached the driver for {seconds}; the last: {workers.last_loss}"
        elif workers.losses >= workers.loss_limit:
            words = f"it lost {workers.losses} workers in a row without finishing a task; the last: {workers.last_loss}"
            if not workers.ever_joined and not workers.pool.starts_here:
                words += " (none of them ever joined: `cenote probe` reports what they find on their nodes)"
            workers.failed = words


def _resize(workers: PoolWorkers, load: Load, busy: Callable[[], frozenset[str]], now: float) -> list[AnyCommand]:
    if workers.closed or workers.failed is not None:
        return _empty(workers, "it has no work left" if workers.closed else "the pool failed")
    size, limits = workers.size - workers.expiring(now), workers.pool.size
    workers.past = remembered(replace(workers.past, size=size), needed_workers(load, limits), limits, now)
    wanted = wanted_workers(load, limits, workers.past, now)
    if wanted > size:
        if now < workers.pause_until:
            return []
        count = wanted - size
        workers.planned += count
        workers.past = replace(workers.past, size=wanted, resized=now)
        return [StartWorkers(workers.pool.name, count)]
    return _shrink(workers, size - wanted, busy(), now) if wanted < size else []


def _shrink(workers: PoolWorkers, surplus: int, busy: frozenset[str], now: float) -> list[AnyCommand]:
    """Those first that have not come yet, the latest first, then idle ones."""
    idle = [*reversed(workers.requested), *sorted(workers.observed - busy, reverse=True)][:surplus]
    if not idle:
        return []
    workers.send_away(idle)
    if workers.size == 0:
        workers.wanting_since = None
    workers.past = replace(workers.past, size=workers.size, resized=now)
    return [StopWorkers(workers.pool.name, tuple(idle), "idle")]


def _empty(workers: PoolWorkers, reason: str) -> list[AnyCommand]:
    names = (*workers.requested, *sorted(workers.observed))
    if not names:
        return []
    workers.send_away(names)
    return [StopWorkers(workers.pool.name, names, reason)]


def _note(workers: PoolWorkers, now: float) -> list[AnyCommand]:
    counts = workers.counts
    state = pool_state(counts, closed=workers.closed, failed=workers.failed is not None)
    if state is workers.noted:
        return []
    workers.noted = state
    return [_state_record(workers, state, _why(workers, state), now)]


def _state_record(workers: PoolWorkers, state: PoolState, reason: str, now: float) -> Record:
    return Record(PoolChanged(at=now, pool=workers.pool.name, state=state, reason=reason))


def _why(workers: PoolWorkers, state: PoolState) -> str:
    """The reason for a state, in words."""
    counts = workers.counts
    match state:
        case PoolState.FAILURE:
            return workers.failed or ""
        case PoolState.CLOSING | PoolState.CLOSED:
            return "it has no work left"
        case PoolState.SUBMITTED if workers.losses or workers.cut_off:
            return f"its workers were lost: {workers.last_loss}"
        case PoolState.SUBMITTED if workers.size:
            return f"waits for {workers.size} workers" + (f": {workers.last_word}" if workers.last_word else "")
        case PoolState.SUBMITTED:
            return "no work waits for it"
        case _:
            return f"{counts.joined} of {workers.size} workers joined"
