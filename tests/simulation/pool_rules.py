"""Check every command about pools against what must always hold: limits, busy workers, rules of fallback."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    EndWorkers,
    FellBack,
    Record,
    RunTask,
    StartWorkers,
    StopWorkers,
    TaskDone,
    TaskFailed,
    TaskSplit,
    TaskStarted,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.engine.recovery.moving import time_to_leave
from cenote.engine.task_classes import CandidatePools, choices_of
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import MERGE
from simulation.scenario import Scenario


class BrokenError(Exception):
    """An invariant does not hold."""


def require(holds: bool, otherwise: str) -> None:
    """Raise BrokenError with these words unless it holds."""
    if not holds:
        raise BrokenError(otherwise)


@dataclass
class _PoolFacts:
    """What an onlooker knows of a pool."""

    pool: PlacedPool
    planned: int = 0
    named: set[str] = field(default_factory=set)
    """Requested or joined, and not told to stop."""
    joined: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    halfway: dict[str, float] = field(default_factory=dict)
    """Workers whose time is limited → when half of it is over: before that, none is asked for in their place."""
    resized: float | None = None

    @property
    def size(self) -> int:
        return self.planned + len(self.named)

    def lasting(self, now: float) -> int:
        """Workers that may not be replaced yet."""
        return self.planned + sum(now < self.halfway.get(worker, math.inf) for worker in self.named)


class PoolWatch:
    """Looks at everything about workers and pools that goes through one engine's door."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._pools = {pool.name: _PoolFacts(pool) for pool in scenario.plan.placement.pools}
        self._out: set[tuple[int, int]] = set()
        self._busy: dict[tuple[int, int], str] = {}
        """Attempts at tasks that run → their worker."""
        self._moved: set[tuple[str, str]] = set()
        self._silent: dict[str, float] = {}
        """Workers that do not answer → until when they may."""
        self._event: AnyEvent | None = None
        self._now = 0.0
        self._choices = {
            (segment.index, merges): choices_of(segment, scenario.plan, merges=merges)
            for segment in scenario.plan.segments
            for merges in (False, True)
        }

    def saw(self, event: AnyEvent) -> None:
        """An event goes in."""
        self._event, self._now = event, max(self._now, event.at)
        match event:
            case WorkerRequested():
                facts = self._pools[event.pool]
                facts.planned -= 1
                facts.named.add(event.worker)
            case WorkerJoined() if event.worker not in self._pools[event.pool].stopped:
                self._pools[event.pool].joined.add(event.worker)
                if event.leaves is not None:
                    self._pools[event.pool].halfway[event.worker] = (event.at + event.leaves) / 2
            case WorkerLeaving():
                self._pools[event.pool].named.discard(event.worker)
                self._pools[event.pool].joined.discard(event.worker)
            case WorkerSilent():
                self._silent[event.worker] = event.at - event.seconds + event.patience
            case WorkerAnswers():
                self._silent.pop(event.worker, None)
            case WorkerLost() if event.pool in self._pools:
                self._pools[event.pool].named.discard(event.worker)
                self._pools[event.pool].joined.discard(event.worker)
            case TaskStarted() if (event.task, event.attempt) in self._out:
                self._busy[event.task, event.attempt] = event.worker
            case TaskDone() | TaskFailed():
                self._out.discard((event.task, event.attempt))
                self._busy.pop((event.task, event.attempt), None)
            case _:
                pass

    def check(self, command: AnyCommand) -> None:
        """A command comes out."""
        match command:
            case StartWorkers(pool, count):
                self._check_start(self._pools[pool], count)
            case StopWorkers(pool, workers, reason):
                self._check_stop(self._pools[pool], workers, reason)
            case EndWorkers(_, workers):
                for worker in workers:
                    require(self._now >= self._silent.pop(worker, math.inf), f"ends {worker}, which may still answer")
            case Record(FellBack() as move):
                self._check_move(move)
            case Record(TaskSplit() as split):
                require(self._is_failure(("oom", "lost")), f"splits task {split.task}, though memory was not short")
                require(
                    split.pieces <= self._scenario.options.limits.splits, f"splits {split.task} into {split.pieces}"
                )
            case RunTask():
                self._out.add((command.task, command.attempt))
                self._check_pool(command)
            case _:
                pass

    def _check_start(self, facts: _PoolFacts, count: int) -> None:
        name, limit = facts.pool.name, facts.pool.most_workers
        require(count > 0, f"starts {count} workers in '{name}'")
        require(facts.lasting(self._now) + count <= limit, f"starts {count} workers in '{name}': above its {limit}")
        fewest = facts.pool.elastic.min if facts.pool.elastic else limit
        if facts.lasting(self._now) >= fewest:
            self._check_period(facts)
        facts.planned += count
        facts.resized = self._now

    def _check_stop(self, facts: _PoolFacts, workers: tuple[str, ...], reason: str) -> None:
        name = facts.pool.name
        running = set(self._busy.values()) & set(workers)
        if reason == "idle":
            elastic = facts.pool.elastic
            require(elastic is not None, f"stops workers of '{name}', which is fixed")
            require(not running, f"stops {running} of '{name}', which run tasks")
            fewest = elastic.min if elastic else 0
            require(facts.size - len(workers) >= fewest, f"shrinks '{name}' below its {fewest}")
            self._check_period(facts)
            facts.resized = self._now
        facts.stopped.update(workers)
        facts.named.difference_update(workers)
        facts.joined.difference_update(workers)

    def _check_period(self, facts: _PoolFacts) -> None:
        if facts.resized is not None and facts.pool.elastic is not None:
            passed = self._now - facts.resized
            require(passed >= facts.pool.elastic.resize_period, f"resizes '{facts.pool.name}' after {passed} s")

    def _check_move(self, move: FellBack) -> None:
        require(move.tasks > 0, f"{move} moves nothing")
        allowed = [choices for choices in self._choices.values() if _leads(choices, move.from_pool, move.to_pool)]
        require(bool(allowed), f"{move}: nobody allows that")
        self._moved.add((move.stage, move.to_pool))
        if move.task is not None:
            require(self._is_failure(("oom", "lost")), f"{move}, though it was neither lost nor short of memory")
            return
        facts = self._pools[move.from_pool]
        require(not facts.joined, f"{move}, though the pool has {facts.joined}")
        limits = self._scenario.options.limits
        limit = min(time_to_leave(facts.pool.spec, choices[1:], limits)[0] for choices in allowed)
        require(move.waited >= limit or facts.pool.most_workers == 0, f"{move} after {move.waited} s")

    def _check_pool(self, command: RunTask) -> None:
        plan = self._scenario.plan
        segment = plan.segments[int(plan.tasks.segment[command.task])]
        choices = self._choices[segment.index, bool(plan.tasks.kind[command.task] == MERGE)]
        allowed = [name for choice in choices for name in choice.pools]
        require(command.pool in allowed, f"runs task {command.task} outside its pools")
        if command.pool not in choices[0].pools:
            told = any((stage, command.pool) in self._moved for stage in segment.stages)
            require(told, f"runs task {command.task} in '{command.pool}', and nobody told of a move")

    def _is_failure(self, causes: tuple[str, ...]) -> bool:
        return isinstance(self._event, TaskFailed) and self._event.failure.cause in causes


def _leads(choices: tuple[CandidatePools, ...], first: str, then: str) -> bool:
    """Whether `then` comes after `first` among these choices."""
    order = [index for index, choice in enumerate(choices) if first in choice.pools]
    return any(then in choice.pools for choice in choices[order[0] + 1 :]) if order else False
