"""See to it that every pool has the workers it should have, and write down how each pool is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from cenote.engine.fallback import PoolOutlook
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
from cenote.engine.pool_status import PoolState, pool_state
from cenote.engine.scaling import Load, needed_workers, remembered, wanted_workers
from cenote.engine.workers import PoolWorkers
from cenote.language.execution import RunLimits
from cenote.placement.pools import PlacedPool
from cenote.units import format_seconds

LOOK_EVERY = 0.2
"""Seconds; more often than that, only when a worker came or went."""


class Autoscaler:
    """The crews of all pools."""

    def __init__(self, pools: tuple[PlacedPool, ...], limits: RunLimits) -> None:
        self._crews = {pool.name: PoolWorkers(pool, limits.pool * (pool.most_workers + 1)) for pool in pools}
        self._lost: dict[str, tuple[LossCause, bool]] = {}
        """Workers that are gone → why, and whether they had only one task."""
        self._again: dict[int, str] = {}
        """Finished tasks that the backend makes again → their pool."""
        self._next_look = 0.0

    @property
    def pools(self) -> Iterable[str]:
        """The names of all pools."""
        return self._crews

    def crew(self, pool: str) -> PoolWorkers | None:
        """The workers of a pool; None for a pool that is not in the plan."""
        return self._crews.get(pool)

    def outlook(self, pool: str) -> PoolOutlook:
        """What the rules of fallback may know of a pool."""
        crew = self._crews[pool]
        return PoolOutlook(
            crew.pool,
            len(crew.observed),
            crew.wanting_since,
            crew.failed,
            crew.last_word,
            crew.last_lines,
            refused=crew.refused is not None,
        )

    # What happens

    def request(self, event: WorkerRequested) -> None:
        """A worker was asked for."""
        if crew := self._crews.get(event.pool):
            crew.request(event)
            self._next_look = 0.0

    def change_job(self, event: JobChanged) -> None:
        """The batch system has news."""
        if crew := self._crews.get(event.pool):
            crew.change_job(event)
            self._next_look = 0.0

    def join(self, event: WorkerJoined, commands: list[AnyCommand]) -> bool:
        """A worker came: whether it may work. One that comes after all, though told to stop, is told again."""
        self._next_look = 0.0
        crew = self._crews.get(event.pool)
        if crew is None or crew.join(event):
            return True
        commands.append(StopWorkers(event.pool, (event.worker,), "it is not needed any more"))
        return False

    def leave(self, event: WorkerLeaving) -> None:
        """A worker will go soon, and takes nothing more."""
        self._next_look = 0.0
        if crew := self._crews.get(event.pool):
            crew.leave(event.worker)

    def fall_silent(self, event: WorkerSilent) -> bool:
        """A worker does not answer: whether it is to be sent nothing for now."""
        crew = self._crews.get(event.pool)
        return crew is not None and crew.fall_silent(event)

    def answer(self, event: WorkerAnswers) -> int:
        """A silent worker answers: its slots, if it may work again."""
        crew = self._crews.get(event.pool)
        return crew.pool.slots if crew is not None and crew.answer(event.worker) else 0

    def lose(self, event: WorkerLost, *, tasks: int) -> None:
        """A worker is gone, with so many tasks on it."""
        self._next_look = 0.0
        self._lost[event.worker] = (event.cause, tasks == 1)
        if crew := self._crews.get(event.pool):
            crew.lose(event, blameless=event.cause == "crashed" and tasks == 1)

    def task_done(self, event: TaskDone) -> None:
        """The workers of this pool are able to work."""
        if crew := self._crews.get(event.pool):
            crew.losses = 0
        self._again.pop(event.task, None)

    def make_again(self, event: ResultLost) -> None:
        """A finished task is run again by the backend, behind our back."""
        self._next_look = 0.0
        self._again[event.task] = event.pool

    def spare(self, event: ResultNotNeeded) -> None:
        """A finished task is not run again after all."""
        self._next_look = 0.0
        self._again.pop(event.task, None)

    def made_again_in(self, pool: str) -> int:
        """How many finished tasks a pool has to run again."""
        return sum(name == pool for name in self._again.values())

    def fate_of(self, worker: str) -> tuple[LossCause, bool]:
        """Why a worker went, and whether it had only one task; unknown where nobody said."""
        return self._lost.get(worker, ("unknown", False))

    # What follows from it

    def is_due(self, now: float) -> bool:
        """Whether it is time to look at the pools again."""
        return now >= self._next_look

    def look(self, loads: Mapping[str, Load], busy: Callable[[], frozenset[str]], now: float) -> list[AnyCommand]:
        """Start, stop and write down what the loads call for; `busy` says which workers run a task."""
        self._next_look = now + LOOK_EVERY
        commands: list[AnyCommand] = []
        for name, crew in self._crews.items():
            load = loads[name]
            if crew.observed:
                crew.wanting_since = None
            elif crew.wanting_since is None and load.tasks:
                crew.wanting_since = now
            commands += [
                EndWorkers(name, (worker,), f"it did not answer for {format_seconds(seconds)}")
                for worker, seconds in crew.end_silent(now)
            ]
            self._judge(crew, load)
            commands += _resize(crew, load, busy, now)
            commands += _note(crew, now)
        return commands

    def close(self, reason: str, now: float) -> list[AnyCommand]:
        """The run is over: what is left to record."""
        open_ones = [crew for crew in self._crews.values() if crew.noted not in (PoolState.CLOSED, PoolState.FAILURE)]
        return [_state_record(crew, PoolState.CLOSED, reason, now) for crew in open_ones]

    @staticmethod
    def _judge(crew: PoolWorkers, load: Load) -> None:
        """Close a pool that nobody needs any more; give one up that keeps losing its workers."""
        crew.closed = load.to_come == 0
        if crew.closed or crew.failed is not None:
            return
        if crew.refused is not None:
            crew.failed = f"its workers were refused: {crew.refused}"
        elif crew.losses >= crew.loss_limit:
            words = f"it lost {crew.losses} workers in a row without finishing a task; the last: {crew.last_loss}"
            if not crew.ever_joined and crew.pool.strategy != "local":
                words += " (none of them ever joined: `cenote probe` tells what they find where they run)"
            crew.failed = words


def _resize(crew: PoolWorkers, load: Load, busy: Callable[[], frozenset[str]], now: float) -> list[AnyCommand]:
    if crew.closed or crew.failed is not None:
        return _empty(crew, "nothing is left for it to do" if crew.closed else "the pool was given up")
    size = crew.size - crew.expiring(now)
    crew.past = remembered(replace(crew.past, size=size), needed_workers(load, crew.limits), crew.limits, now)
    wanted = wanted_workers(load, crew.limits, crew.past, now)
    if wanted > size:
        if now < crew.pause_until:
            return []
        count = wanted - size
        crew.planned += count
        crew.past = replace(crew.past, size=wanted, resized=now)
        return [StartWorkers(crew.pool.name, count)]
    return _shrink(crew, size - wanted, busy(), now) if wanted < size else []


def _shrink(crew: PoolWorkers, surplus: int, busy: frozenset[str], now: float) -> list[AnyCommand]:
    """Those first that have not come yet, the latest first, then idle ones."""
    idle = [*reversed(crew.requested), *sorted(crew.observed - busy, reverse=True)][:surplus]
    if not idle:
        return []
    crew.send_away(idle)
    if crew.size == 0:
        crew.wanting_since = None
    crew.past = replace(crew.past, size=crew.size, resized=now)
    return [StopWorkers(crew.pool.name, tuple(idle), "idle")]


def _empty(crew: PoolWorkers, reason: str) -> list[AnyCommand]:
    workers = (*crew.requested, *sorted(crew.observed))
    if not workers:
        return []
    crew.send_away(workers)
    return [StopWorkers(crew.pool.name, workers, reason)]


def _note(crew: PoolWorkers, now: float) -> list[AnyCommand]:
    counts = crew.counts
    state = pool_state(counts, closed=crew.closed, failed=crew.failed is not None)
    if state is crew.noted:
        return []
    crew.noted = state
    return [_state_record(crew, state, _why(crew, state), now)]


def _state_record(crew: PoolWorkers, state: PoolState, reason: str, now: float) -> Record:
    return Record(PoolChanged(at=now, pool=crew.pool.name, state=state, reason=reason))


def _why(crew: PoolWorkers, state: PoolState) -> str:
    """The reason for a state, in words."""
    counts = crew.counts
    match state:
        case PoolState.FAILURE:
            return crew.failed or ""
        case PoolState.CLOSING | PoolState.CLOSED:
            return "nothing is left for it to do"
        case PoolState.SUBMITTED if crew.losses:
            return f"its workers were lost: {crew.last_loss}"
        case PoolState.SUBMITTED if crew.size:
            return f"waits for {crew.size} workers" + (f": {crew.last_word}" if crew.last_word else "")
        case PoolState.SUBMITTED:
            return "no work waits for it"
        case _:
            return f"{counts.joined} of {crew.size} workers joined"
