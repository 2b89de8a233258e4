"""Predict a run: the real engine, with modelled workers and durations, and no time passing.

Nothing is random: the same plan and the same model give the same prediction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from heapq import heappop, heappush

from cenote.common.values import dataclass
from cenote.engine.machine import Engine
from cenote.engine.messages import (
    AnyEvent,
    CancelTask,
    FellBack,
    FinishRun,
    Record,
    RunStarted,
    RunTask,
    StartWorkers,
    StopWorkers,
    TaskDone,
    TaskStarted,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
)
from cenote.engine.task_classes import EngineOptions
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import MERGE, Plan

TICK = 1.0
"""Seconds without news after which the engine gets a Tick."""
_MOST_TICKS = 100_000
"""Without any command in between, the run never ends."""


@dataclass(frozen=True)
class DurationModel:
    """What is assumed."""

    seconds: Mapping[str, float]
    """Stage → seconds that one of its tasks takes."""
    unknown: float = 1.0
    """Seconds for tasks none of whose stages is known."""
    merge: float = 0.1
    """Seconds for a merge."""
    startup: float = 5.0
    """Seconds from asking for a worker until it joins."""


@dataclass(frozen=True)
class PoolUse:
    """What a pool did."""

    name: str
    workers: int
    """The most that there were at once."""
    slots: int
    """Of one worker."""
    tasks: int
    busy: float
    """Slot-seconds in which a task ran."""
    offered: float
    """Slot-seconds that its workers lived."""
    cost: float | None

    @property
    def use(self) -> float:
        """The share of its slots' time that was used."""
        return self.busy / self.offered if self.offered else 0.0

    @property
    def bound(self) -> float:
        """Seconds that its work takes even if none of its slots is ever idle: no run with it is shorter."""
        return self.busy / (self.workers * self.slots) if self.workers else 0.0


@dataclass(frozen=True)
class Prediction:
    """How the run would go."""

    status: str
    """As of a run; `stuck` when it would never end."""
    seconds: float
    pools: tuple[PoolUse, ...]
    moved: int
    """Tasks that would fall back."""

    @property
    def cost(self) -> float | None:
        """Of all pools that have one."""
        known = [pool.cost for pool in self.pools if pool.cost is not None]
        return sum(known) if known else None

    @property
    def bottleneck(self) -> PoolUse | None:
        """The pool whose work takes longest."""
        return max((pool for pool in self.pools if pool.tasks), key=lambda pool: pool.bound, default=None)


def predict(plan: Plan, model: DurationModel) -> Prediction:
    """Play the plan to its end."""
    return _Play(plan, model).run()


def gains(plan: Plan, model: DurationModel, base: Prediction) -> dict[str, float]:
    """Pool → seconds that one more worker in it would save; negative where it would cost some."""
    used = {pool.name for pool in base.pools if pool.tasks}
    return {
        pool.name: base.seconds - predict(with_one_more(plan, pool.name), model).seconds
        for pool in plan.placement.pools
        if pool.name in used
    }


def with_one_more(plan: Plan, name: str) -> Plan:
    """The same plan, with one more worker allowed in a pool."""

    def grown(pool: PlacedPool) -> PlacedPool:
        if pool.name != name:
            return pool
        if pool.elastic is not None:
            return replace(pool, elastic=replace(pool.elastic, max=pool.elastic.max + 1))
        return replace(pool, workers=(pool.workers or 0) + 1)

    pools = tuple(grown(pool) for pool in plan.placement.pools)
    return replace(plan, placement=replace(plan.placement, pools=pools))


@dataclass
class _Pool:
    """A pool in the model: tasks wait in line for free slots."""

    placed: PlacedPool
    line: deque[RunTask] = field(default_factory=deque)
    free: list[str] = field(default_factory=list)
    """A worker's name for each of its free slots."""
    joined: dict[str, float] = field(default_factory=dict)
    names: int = 0
    most: int = 0
    tasks: int = 0
    busy: float = 0.0
    offered: float = 0.0

    def leave(self, worker: str, now: float) -> None:
        began = self.joined.pop(worker, None)
        if began is not None:
            self.offered += (now - began) * self.placed.slots
            self.free = [name for name in self.free if name != worker]

    def use(self) -> PoolUse:
        cost = None
        if self.placed.spec.cost is not None:
            cost = self.placed.spec.cost * self.offered / self.placed.slots / 3600
        return PoolUse(self.placed.name, self.most, self.placed.slots, self.tasks, self.busy, self.offered, cost)


class _Play:
    """One run in the model. What is to happen is a heap of (when, order, what)."""

    def __init__(self, plan: Plan, model: DurationModel) -> None:
        self._plan, self._model = plan, model
        self._engine = Engine(plan, EngineOptions(manages_workers=True, limits=plan.limits))
        self._pools = {pool.name: _Pool(pool) for pool in plan.placement.pools}
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._now = 0.0
        self._status: str | None = None
        self._idle_ticks = 0
        self._moved = 0
        self._segment = plan.tasks.segment
        self._kind = plan.tasks.kind
        self._seconds = [self._seconds_of(segment.stages) for segment in plan.segments]

    def run(self) -> Prediction:
        self._tell(RunStarted(at=0.0, run="predicted", tasks=len(self._plan.tasks)))
        while self._status is None:
            if self._idle_ticks > _MOST_TICKS:
                self._status = "stuck"
            elif self._agenda and self._agenda[0][0] <= self._now + TICK:
                self._now, _, act = heappop(self._agenda)
                act()
            else:
                self._now += TICK
                self._idle_ticks += 1
                self._tell(Tick(at=self._now))
        for pool in self._pools.values():
            for worker in list(pool.joined):
                pool.leave(worker, self._now)
        used = tuple(pool.use() for pool in self._pools.values())
        return Prediction(self._status, self._now, used, self._moved)

    def _seconds_of(self, stages: tuple[str, ...]) -> float:
        known = [self._model.seconds[stage] for stage in stages if stage in self._model.seconds]
        return sum(known) if known else self._model.unknown

    def _later(self, delay: float, act: Callable[[], None]) -> None:
        self._order += 1
        heappush(self._agenda, (self._now + delay, self._order, act))

    def _tell(self, event: AnyEvent) -> None:
        for command in self._engine.handle(event):
            self._idle_ticks = 0
            match command:
                case RunTask():
                    self._pools[command.pool].line.append(command)
                    self._assign(self._pools[command.pool])
                case StartWorkers(name, count):
                    for _ in range(count):
                        self._later(0.0, partial(self._request, name))
                case StopWorkers(name, workers):
                    for worker in workers:
                        self._later(0.0, partial(self._retire, name, worker))
                case Record(FellBack() as move):
                    self._moved += move.tasks
                case CancelTask(task):
                    for pool in self._pools.values():
                        pool.line = deque(run for run in pool.line if run.task != task)
                case FinishRun(status):
                    self._status = status
                case _:
                    pass

    def _request(self, name: str) -> None:
        pool = self._pools[name]
        pool.names += 1
        worker = f"{name}-{pool.names}"
        self._tell(WorkerRequested(at=self._now, pool=name, worker=worker))
        self._later(self._model.startup, partial(self._join, pool, worker))

    def _join(self, pool: _Pool, worker: str) -> None:
        name, slots = pool.placed.name, pool.placed.slots
        pool.joined[worker] = self._now
        pool.most = max(pool.most, len(pool.joined))
        pool.free += [worker] * slots
        self._tell(WorkerJoined(at=self._now, worker=worker, pool=name, slots=slots))
        self._assign(pool)

    def _retire(self, name: str, worker: str) -> None:
        self._pools[name].leave(worker, self._now)
        self._tell(WorkerLost(at=self._now, worker=worker, pool=name, reason="not needed", cause="retired"))

    def _assign(self, pool: _Pool) -> None:
        while pool.line and pool.free:
            run, worker = pool.line.popleft(), pool.free.pop()
            seconds = self._model.merge if self._kind[run.task] == MERGE else self._seconds[self._segment[run.task]]
            at, name = self._now, pool.placed.name
            self._tell(TaskStarted(at=at, task=run.task, pool=name, worker=worker, attempt=run.attempt))
            self._later(seconds, partial(self._finish, pool, run, worker, seconds))

    def _finish(self, pool: _Pool, run: RunTask, worker: str, seconds: float) -> None:
        pool.tasks += 1
        pool.busy += seconds
        if worker in pool.joined:
            pool.free.append(worker)
        name = pool.placed.name
        done = TaskDone(at=self._now, task=run.task, pool=name, worker=worker, seconds=seconds, attempt=run.attempt)
        self._tell(done)
        self._assign(pool)
