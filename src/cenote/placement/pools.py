"""Define placed pools and verdicts: what placement says of every stage."""

from __future__ import annotations

import math
from enum import Enum
from functools import cached_property

from cenote.errors import Problem
from cenote.language.execution import Amounts, Elastic, Pool, PoolSize
from cenote.values import dataclass


class Verdict(Enum):
    """Whether a stage can run."""

    YES = "yes"
    NOT_NOW = "not now"
    NEVER = "never"


@dataclass(frozen=True)
class PlacedPool:
    """A pool with nothing left open: what the file says, and what placement made of it."""

    spec: Pool
    """As the file has it."""
    strategy: str
    """Its own, or the run's."""
    workers: int | None
    elastic: Elastic | None
    slots: int
    """Tasks at once per worker."""
    resources: Amounts
    """Of one worker, as asked for."""
    granted: Amounts
    """Of one worker, as it will be: smaller on a machine that has less."""
    starts_here: bool = True
    """Whether its workers start on this machine; others are jobs that wait in a queue."""
    near: bool = False
    """Whether its workers are on this machine although another program starts them; known when a run begins."""
    fallback: tuple[str, ...] = ()
    """Names of the pools that take over; the file may name them by label."""
    scaled_from: PoolSize | None = None
    """What the file asks for, where this machine has less; None when that is its size."""

    @property
    def name(self) -> str:
        """The pool's own."""
        return self.spec.name

    @property
    def asked_size(self) -> PoolSize:
        """How large it would be where there is room."""
        return self.scaled_from or self.size

    @property
    def size(self) -> PoolSize:
        """How large it may be."""
        return PoolSize(self.workers, self.elastic, self.slots)

    @property
    def memory_per_slot(self) -> float:
        """Bytes that one task may use; infinite where it is not stated."""
        memory = self.granted.memory if self.granted.memory is not None else self.resources.memory
        return math.inf if memory is None else memory / self.slots

    @property
    def most_workers(self) -> int:
        """How many workers it may ever have."""
        return self.elastic.max if self.elastic else self.workers or 0

    @property
    def most_slots(self) -> int:
        """How many tasks it may ever run at once."""
        return self.most_workers * self.slots


@dataclass(frozen=True)
class Candidate:
    """What placement found about one stage and one pool."""

    pool: str
    fits: bool
    reason: str
    """`provides 'gpu'`, `holds 4 GB, the stage asks for 40 GB`."""


@dataclass(frozen=True)
class StagePlacement:
    """Where one stage may run."""

    stage: str
    pools: tuple[str, ...]
    """Candidates in order; empty when the verdict is never."""
    verdict: Verdict
    reason: str
    shared: bool = False
    """Whether the pools share the work (same label) rather than being tried one after the other."""
    considered: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Placement:
    """The whole answer: pools made concrete, a verdict per stage, what to warn of, what is wrong."""

    pools: tuple[PlacedPool, ...]
    stages: tuple[StagePlacement, ...]
    warnings: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    merge_pool: str = "default"
    """Where merges run: the pool called `merge` if there is one, else the default CPU pool."""

    @cached_property
    def by_stage(self) -> dict[str, StagePlacement]:
        """Stage → where it may run."""
        return {placement.stage: placement for placement in self.stages}

    def pool(self, name: str) -> PlacedPool:
        """The pool of this name."""
        return next(pool for pool in self.pools if pool.name == name)
