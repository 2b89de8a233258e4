"""Foresee when tasks that wait would start and end: the real allocator, with modelled workers and durations.

Nothing is random, and no time passes: a copy of the allocator is told what would happen next, event by event.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import assert_never

import msgspec

from cenote.engine.messages import (
    EndWorkers,
    StartWorkers,
    StopWorkers,
    Tick,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
)
from cenote.service.allocator.allocator import Allocator
from cenote.service.allocator.messages import (
    ArchiveTask,
    EndCause,
    InstanceEnded,
    InstanceStarted,
    KeptEvent,
    RecordDecision,
    ServiceCommand,
    ServiceEvent,
    StartInstance,
    StopInstance,
    TaskArchived,
)
from cenote.service.allocator.queued_task import SUCCEEDED
from cenote.service.allocator.snapshot import PoolKept, TaskKept
from cenote.service.client.definitions import TaskDefinition
from cenote.service.server.calendar import next_turn, now_is

_STEP = 10.0
"""Seconds between two looks at the clock."""
_MOST_EVENTS = 200_000
_QUIET = 2000
"""So many looks at the clock without any news mean that nothing would ever happen."""
_SHORTEST = 0.1
"""Seconds that an instance runs at least."""


class Duration(msgspec.Struct, frozen=True):
    """How long an instance of a task is taken to run."""

    seconds: float
    source: str
    """Where that is from, in words."""


class ForeseenTask(msgspec.Struct, frozen=True):
    """When a task would start and end."""

    task: str
    starts: float | None
    """Of its first instance that waits now; None where that is not within sight."""
    ends: float | None
    pool: str
    """Where its instances would start."""
    duration: Duration


class PastDurations:
    """What instances of ended tasks took."""

    def __init__(self, ended: Iterable[TaskKept], assumed: float) -> None:
        self._assumed = assumed
        self._found: dict[tuple[str, ...], list[float]] = {}
        for kept in ended:
            succeeded = zlib.decompress(kept.states).count(SUCCEEDED)
            if kept.busy > 0 and succeeded:
                for _, key in _keys(kept.task):
                    self._found.setdefault(key, []).append(kept.busy / succeeded)

    def of(self, task: TaskDefinition, busy: float, succeeded: int) -> Duration:
        """From its own instances, else from tasks that are more and more different; else as assumed."""
        if succeeded:
            return Duration(busy / succeeded, f"as {succeeded} of its own took")
        for words, key in _keys(task):
            if times := self._found.get(key):
                return Duration(sum(times) / len(times), f"as {words} took")
        return Duration(self._assumed, "assumed")


def _keys(task: TaskDefinition) -> Sequence[tuple[str, tuple[str, ...]]]:
    return (
        ("the same command of this user", ("command", task.user, task.command)),
        ("tasks of this name", ("name", task.user, task.name)),
        ("other tasks of this user in this pool", ("user", task.user, task.pool)),
        ("other tasks in this pool", ("pool", task.pool)),
    )


class Forecast:
    """One look ahead."""

    def __init__(
        self,
        kept: Iterable[KeptEvent],
        durations: Mapping[str, Duration],
        *,
        now: float,
        startup: float,
        horizon: float,
    ) -> None:
        events = list(kept)
        self._allocator = Allocator.replay(events)
        self._durations, self._now, self._startup = durations, now, startup
        self._until = now + horizon
        self._coming: list[tuple[float, int, ServiceEvent]] = []
        self._numbers = count()
        self._running: dict[tuple[str, int, int], str] = {}
        """Attempts → their worker."""
        self._leaving: set[str] = set()
        self._pools: dict[str, str] = {}
        """Workers → their pool."""
        self._slots = {view.definition.name: view.definition.slots for view in self._allocator.pools()}
        self._starts: dict[str, tuple[float, str]] = {}
        self._ends: dict[str, float] = {}
        self._turn = next_turn(self._allocator.rules, now)
        for event in events:
            for live in event.live if isinstance(event, TaskKept) else ():
                left = max(_SHORTEST, durations[live.task].seconds - (now - live.since))
                self._run(live.task, live.instance, live.attempt, live.worker, left)
            if isinstance(event, PoolKept):
                self._know_workers(event)

    def _know_workers(self, kept: PoolKept) -> None:
        """Those that were asked for are as far away as new ones; those that leave do when they are idle."""
        name, workers = kept.pool.name, kept.workers
        self._pools.update(dict.fromkeys((*workers.observed, *workers.requested, *workers.leaving), name))
        for worker in workers.requested:
            self._later(self._startup, WorkerJoined(at=0, pool=name, worker=worker, slots=kept.pool.slots))
        for _ in range(workers.planned):
            self._start_worker(name)
        self._leaving |= workers.leaving

    def look(self) -> list[ForeseenTask]:
        """Until everything has ended, or nothing would happen any more."""
        waiting = [view.definition.id for view in self._allocator.tasks() if not view.state.is_over]
        self._tell(Tick(at=self._now))
        quiet = events = 0
        while len(self._ends) < len(waiting) and self._now < self._until and events < _MOST_EVENTS and quiet < _QUIET:
            tick = min(self._now + _STEP, self._turn)
            if self._coming and self._coming[0][0] <= tick:
                at, _, event = heappop(self._coming)
                self._now, quiet = max(self._now, at), 0
                self._happen(msgspec.structs.replace(event, at=self._now))
                self._tell(Tick(at=self._now))
            else:
                self._now, quiet = tick, quiet + 1
                self._tell(self._clock_event())
            events += 1
        return [self._foreseen(task) for task in waiting]

    def _happen(self, event: ServiceEvent) -> None:
        """An attempt that was stopped, or whose worker was ended, does not end once more."""
        if not isinstance(event, InstanceEnded):
            self._tell(event)
            return
        known = self._running.pop((event.task, event.instance, event.attempt), None)
        if known is not None or event.cause == "stopped":
            self._tell(event)
            if event.worker in self._leaving:
                self._leave_if_idle(self._pools[event.worker], event.worker)

    def _clock_event(self) -> ServiceEvent:
        if self._now < self._turn:
            return Tick(at=self._now)
        self._turn = next_turn(self._allocator.rules, self._now)
        return now_is(self._allocator.rules, self._now)

    def _foreseen(self, task: str) -> ForeseenTask:
        starts, pool = self._starts.get(task, (None, ""))
        return ForeseenTask(task, starts, self._ends.get(task), pool, self._durations[task])

    def _tell(self, event: ServiceEvent) -> None:
        for command in self._allocator.handle(event):
            self._carry_out(command)

    def _carry_out(self, command: ServiceCommand) -> None:
        match command:
            case StartInstance(task, instance, attempt, worker):
                self._starts.setdefault(task, (self._now, self._pools.get(worker, "")))
                self._run(task, instance, attempt, worker, max(_SHORTEST, self._durations[task].seconds))
            case StopInstance(task, instance, attempt, worker):
                self._running.pop((task, instance, attempt), None)
                self._later(0.0, _ended(task, instance, attempt, worker, code=None))
            case StartWorkers(pool, many):
                for _ in range(many):
                    self._start_worker(pool)
            case StopWorkers(pool, workers):
                self._leaving.update(workers)
                for worker in workers:
                    self._leave_if_idle(pool, worker)
            case EndWorkers(pool, workers):
                for worker in workers:
                    self._running = {key: where for key, where in self._running.items() if where != worker}
                    self._later(0.0, WorkerLost(at=0, worker=worker, pool=pool, reason="ended", cause="retired"))
            case ArchiveTask(task):
                self._ends[task] = self._now
                self._later(0.0, TaskArchived(at=0, task=task))
            case RecordDecision():
                pass
            case _:
                assert_never(command)

    def _run(self, task: str, instance: int, attempt: int, worker: str, seconds: float) -> None:
        self._running[task, instance, attempt] = worker
        started = InstanceStarted(at=0, task=task, instance=instance, attempt=attempt, worker=worker)
        self._later(0.0, started)
        self._later(seconds, _ended(task, instance, attempt, worker, code=0))

    def _start_worker(self, pool: str) -> None:
        name = f"{pool}-foreseen-{next(self._numbers)}"
        self._pools[name] = pool
        self._later(0.0, WorkerRequested(at=0, pool=pool, worker=name))
        self._later(self._startup, WorkerJoined(at=0, pool=pool, worker=name, slots=self._slots.get(pool, 1)))

    def _leave_if_idle(self, pool: str, worker: str) -> None:
        if worker in self._leaving and worker not in self._running.values():
            self._later(0.0, WorkerLost(at=0, worker=worker, pool=pool, reason="it left", cause="retired"))

    def _later(self, seconds: float, event: ServiceEvent) -> None:
        heappush(self._coming, (self._now + seconds, next(self._numbers), event))


def _ended(task: str, instance: int, attempt: int, worker: str, *, code: int | None) -> InstanceEnded:
    cause: EndCause = "stopped" if code is None else "exit"
    return InstanceEnded(
        at=0, task=task, instance=instance, attempt=attempt, worker=worker, exit_code=code, cause=cause
    )
