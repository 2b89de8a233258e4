"""Define placed pools, verdicts, and the arithmetic of amounts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from functools import cached_property

from cenote.common.errors import Problem
from cenote.common.values import dataclass
from cenote.language.execution import AMOUNTS, Amounts, Elastic, Pool, PoolSize


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
    passed_over: Candidate | None = None
    """The pool that the stage prefers, where others have to do."""


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


# Do the arithmetic of amounts: what holds what, and how many times.


_ROUNDING = 1e-9
"""Three tenths of a cpu are not exactly 0.3."""


def amount(amounts: Amounts, kind: str) -> float | None:
    """One of the four numbers."""
    found: float | None = getattr(amounts, kind)
    return found


def share(worker: Amounts, slots: int) -> tuple[float, float, float, float]:
    """What one slot of a worker holds, in the order of `AMOUNTS`.

    What the worker leaves unstated counts as boundless for memory and disk (taken on trust), one cpu per slot, and
    no GPU.
    """
    return (
        1.0 if worker.cpus is None else worker.cpus / slots,
        math.inf if worker.memory is None else worker.memory / slots,
        (worker.gpus or 0) / slots,
        math.inf if worker.disk is None else worker.disk / slots,
    )


def lacking(held: tuple[float, float, float, float], asked: Amounts) -> list[str]:
    """The kinds of which a share is smaller than asked. Written out: it runs once per requirement and pool."""
    cpus, memory, gpus, disk = held
    kinds = []
    if asked.cpus is not None and asked.cpus > cpus + _ROUNDING:
        kinds.append("cpus")
    if asked.memory is not None and asked.memory > memory:
        kinds.append("memory")
    if asked.gpus is not None and asked.gpus > gpus + _ROUNDING:
        kinds.append("gpus")
    if asked.disk is not None and asked.disk > disk:
        kinds.append("disk")
    return kinds


def unstated(worker: Amounts, asked: Amounts) -> tuple[str, ...]:
    """The kinds that are asked for and cannot be compared, because the worker does not state them."""
    kinds = ("memory",) if asked.memory and worker.memory is None else ()
    return (*kinds, "disk") if asked.disk and worker.disk is None else kinds


def slots_for(worker: Amounts, asked: Iterable[Amounts]) -> int:
    """How many tasks at once, where the file does not say: as many as fit whichever of these stages they belong to.

    A stage that states no cpus takes one. A worker with GPUs has at most one slot per GPU, so that tasks do not
    fight for its memory. At least one slot.
    """
    most = largest(asked)
    limits = [] if worker.cpus is None else [worker.cpus / (most.cpus or 1)]
    if worker.gpus:
        limits.append(worker.gpus / (most.gpus or 1))
    for kind in ("memory", "disk"):
        held, wanted = amount(worker, kind), amount(most, kind)
        if held is not None and wanted:
            limits.append(held / wanted)
    return max(1, int(min(limits, default=1) + _ROUNDING))


def most_of_each(asked: Iterable[Amounts]) -> Amounts:
    """The largest amount of each kind; None where it is not stated."""
    rows = [[getattr(amounts, kind) for kind in AMOUNTS] for amounts in asked]
    stated = ([found for found in column if found is not None] for column in zip(*rows, strict=True))
    return Amounts(*(max(column, default=None) for column in stated))


def largest(asked: Iterable[Amounts]) -> Amounts:
    """The largest of each kind. Cpus count as one where a stage does not state them."""
    return most_of_each(amounts.over(Amounts(cpus=1)) for amounts in asked)
