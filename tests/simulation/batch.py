"""A batch system without machines: it takes, delays, refuses and loses the workers that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from cenote.engine.messages import (
    AnyEvent,
    JobChanged,
    JobState,
    LossCause,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.planning.placement.pools import PlacedPool
from simulation.scenario import Weather

STOPPING_TIME = 3.0
"""The longest time that a worker takes to go when it is told to."""
FAREWELL = 2.0
"""The time that a worker has for its tasks once its walltime is nearly over."""


@dataclass(eq=False)
class Worker:
    """A simulated worker, from the moment it is asked for."""

    name: str
    pool: str
    slots: int
    running: set[Run] = field(default_factory=set)
    frozen: bool = False
    """Whether it does not answer now."""
    leaving: LossCause | None = None
    """Why it takes no more tasks."""
    joined: bool = False

    @property
    def has_room(self) -> bool:
        """Whether it takes one more task."""
        return self.joined and self.leaving is None and not self.frozen and len(self.running) < self.slots


@dataclass(frozen=True)
class Run:
    """One attempt at a task, with what it reads."""

    task: int
    attempt: int
    reads: tuple[int, ...]
    pieces: int = 1


@dataclass
class Batch:
    """Workers come and go; what happens is told to `deliver`, and `after` makes things happen later."""

    pools: dict[str, PlacedPool]
    weather: Weather
    random: Random
    now: Callable[[], float]
    after: Callable[[float, Callable[[], None]], None]
    deliver: Callable[[AnyEvent], None]
    came: Callable[[str], None]
    """Called with the pool when one of its workers may take tasks."""
    cut_off: Callable[[Worker], None]
    """Called when a worker has to go in the middle of its tasks."""
    workers: dict[str, Worker] = field(default_factory=dict)
    names: int = 0
    in_a_row: dict[str, int] = field(default_factory=dict)
    """Pool → workers lost since the engine last heard of a finished task."""

    def start(self, pool: str, count: int) -> None:
        """Ask for workers; each gets a name soon."""
        for _ in range(count):
            self.after(self.random.uniform(0, 0.5), lambda: self._request(pool))

    def stop(self, names: tuple[str, ...]) -> None:
        """They take no more tasks, and go when they have finished what they have."""
        for name in names:
            worker = self.workers.get(name)
            if worker is not None and worker.leaving is None:
                worker.leaving = "retired"
                self.go_if_idle(worker)

    def freeze(self, worker: Worker, seconds: float, *, patience: float, woken: Callable[[Worker], None]) -> None:
        """A worker does not answer for so long; then, unless it was ended, it goes on."""
        worker.frozen = True
        silent = WorkerSilent(at=self.now(), worker=worker.name, pool=worker.pool, seconds=1.0, patience=patience)
        self.deliver(silent)

        def wake() -> None:
            if self.workers.get(worker.name) is worker and worker.frozen:
                worker.frozen = False
                self.deliver(WorkerAnswers(at=self.now(), worker=worker.name, pool=worker.pool))
                woken(worker)

        self.after(seconds, wake)

    def go_if_idle(self, worker: Worker) -> None:
        """A worker that was told to stop, or whose walltime is nearly over, goes once it has nothing to do."""
        cause = worker.leaving
        if cause is not None and not worker.running and not worker.frozen:
            self.after(self.random.uniform(0, STOPPING_TIME), lambda: self.lose(worker, cause=cause))

    def may_lose_one(self, pool: str) -> bool:
        """Whether losing a worker leaves the pool short of being given up: that would be a story of its own."""
        return self.in_a_row.get(pool, 0) < 3 * self.pools[pool].most_workers

    def lose(self, worker: Worker, *, cause: LossCause) -> None:
        """A worker is gone."""
        if self.workers.pop(worker.name, None) is None:
            return
        if cause not in ("retired", "walltime"):
            self.in_a_row[worker.pool] = self.in_a_row.get(worker.pool, 0) + 1
        reason = f"simulated: {cause}"
        self.deliver(WorkerLost(at=self.now(), worker=worker.name, pool=worker.pool, reason=reason, cause=cause))

    def _request(self, pool: str) -> None:
        self.names += 1
        worker = Worker(f"{pool}-{self.names}", pool, self.pools[pool].slots)
        self.workers[worker.name] = worker
        self.deliver(WorkerRequested(at=self.now(), pool=pool, worker=worker.name, job=str(self.names)))
        if self.random.random() < self.weather.refusal_rate and self.may_lose_one(pool):
            self.after(0.0, lambda: self.lose(worker, cause="refused"))
        elif pool not in self.weather.barren:
            self.after(self.random.uniform(0, self.weather.queue_time), lambda: self._arrive(worker))

    def _arrive(self, worker: Worker) -> None:
        """Its job runs, and it joins; one that was told to stop may still come by accident."""
        if worker.name not in self.workers or (worker.leaving and self.random.random() < 0.5):
            return
        job = worker.name.rpartition("-")[2]
        self.deliver(JobChanged(at=self.now(), pool=worker.pool, worker=worker.name, job=job, state=JobState.RUNNING))
        worker.joined = True
        walltime = self.weather.walltime
        leaves = None if walltime is None else self.now() + walltime
        self.deliver(
            WorkerJoined(at=self.now(), worker=worker.name, pool=worker.pool, slots=worker.slots, leaves=leaves)
        )
        if walltime is not None:
            self.after(walltime, lambda: self._take_leave(worker))
        self.came(worker.pool)

    def _take_leave(self, worker: Worker) -> None:
        """Its walltime is nearly over: it begins nothing more, and what it cannot finish is cut off."""
        if worker.name in self.workers and worker.leaving is None:
            worker.leaving = "walltime"
            reason = "its walltime is nearly over"
            self.deliver(WorkerLeaving(at=self.now(), worker=worker.name, pool=worker.pool, reason=reason))
            self.go_if_idle(worker)
            self.after(FAREWELL, lambda: self.cut_off(worker))
