"""Sort tasks into classes, alike and at the same choice of pools; the options of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from cenote.common.values import dataclass
from cenote.language.execution import Amounts, RunLimits
from cenote.planning.placement.pools import PlacedPool, lacking, share
from cenote.planning.plan import Plan, Segment, TaskTable


@dataclass(frozen=True)
class CandidatePools:
    """Pools that a task may be sent to; several share the work. The next choice is for when they do not do."""

    pools: tuple[str, ...]
    own: bool = True
    """Whether the stage itself allows them; otherwise a pool's `fallback` does."""


@dataclass(frozen=True)
class TaskClass:
    """The tasks of one segment and kind, while they are at one of their choices."""

    number: int
    segment: int
    merges: bool
    choice: CandidatePools
    later: tuple[int, ...]
    """The classes of the choices that come after this one, in order."""


def first_classes(tasks: TaskTable) -> NDArray[np.int32]:
    """The class that each task begins in: one for the tasks of a segment, the next one for its merges."""
    return (2 * tasks.segment + tasks.kind).astype(np.int32)


class TaskClasses:
    """All classes of a plan: those of `first_classes`, where tasks begin, and behind them those of later choices."""

    def __init__(self, plan: Plan) -> None:
        kinds = [(segment, merges) for segment in plan.segments for merges in (False, True)]
        choices = [choices_of(segment, plan, merges=merges) for segment, merges in kinds]
        found: list[TaskClass] = []
        free = len(choices)
        for base, some in enumerate(choices):
            numbers = (base, *range(free, free + len(some) - 1))
            free += len(some) - 1
            found += [
                TaskClass(number, kinds[base][0].index, kinds[base][1], choice, numbers[place + 1 :])
                for place, (number, choice) in enumerate(zip(numbers, some, strict=True))
            ]
        self._classes = sorted(found, key=lambda one: one.number)
        self.choosing: dict[str, list[int]] = {}
        """Pool → the classes whose tasks may go there now."""
        self.reaching: dict[str, list[int]] = {}
        """Pool → the classes whose tasks may go there, now or when they have fallen back."""
        for one in self._classes:
            for pool in one.choice.pools:
                self.choosing.setdefault(pool, []).append(one.number)
            for pool in {pool for number in (one.number, *one.later) for pool in self[number].choice.pools}:
                self.reaching.setdefault(pool, []).append(one.number)

    def __len__(self) -> int:
        return len(self._classes)

    def __iter__(self) -> Iterator[TaskClass]:
        return iter(self._classes)

    def __getitem__(self, number: int) -> TaskClass:
        return self._classes[number]


def choices_of(segment: Segment, plan: Plan, *, merges: bool) -> tuple[CandidatePools, ...]:
    """First what the stage says, in order; then what the `fallback` of those pools says, where the tasks fit."""
    if merges:
        first: tuple[CandidatePools, ...] = (CandidatePools((plan.placement.merge_pool,)),)
    elif segment.shared or not segment.pools:
        first = (CandidatePools(segment.pools),)
    else:
        first = tuple(CandidatePools((pool,)) for pool in segment.pools)
    known = {pool.name: pool for pool in plan.placement.pools}
    asked = Amounts() if merges else segment.room
    reached = [name for choice in first for name in choice.pools]
    for name in reached:  # grows while it is read: fallbacks of fallbacks come last
        further = known[name].fallback if name in known else ()
        reached += [other for other in further if other not in reached and _fits(known.get(other), asked)]
    own = sum(len(choice.pools) for choice in first)
    return (*first, *(CandidatePools((name,), own=False) for name in reached[own:]))


def _fits(pool: PlacedPool | None, asked: Amounts) -> bool:
    return pool is not None and not lacking(share(pool.resources, pool.slots), asked)


# Hold the options of the engine: what to do about failures, how far ahead to send work.


@dataclass(frozen=True)
class EngineOptions:
    """How the engine runs one plan."""

    keep_going: bool = False
    """Finish everything that a failed task does not spoil, instead of stopping at the first failure."""
    skips: frozenset[str] = frozenset()
    """Datasets that do without files which cannot be read: these do not end the run, whoever plans it again."""
    limits: RunLimits = field(default_factory=RunLimits)
    """Of the plan."""
    window_per_slot: float = 2.0
    """Tasks sent to a pool for each of its slots, so that a worker finds its next task already there."""
    ahead_seconds: float = 0.0
    """Work for each slot, in seconds, that is sent where tasks are so short that the window would not last."""
    manages_workers: bool = False
    """Whether the engine asks for workers and ends them; False where they join by themselves (backend local)."""
