"""Keep one pool of the service: its workers and their slots, what waits for it and what it runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cenote.client.definitions import PoolDefinition
from cenote.engine.scaling import Load
from cenote.engine.workers import PoolWorkers
from cenote.language.execution import Pool
from cenote.placement.pools import PlacedPool
from cenote.service.allocator.kept import LiveInstance
from cenote.service.allocator.seats import FreeSeats
from cenote.service.allocator.share import SlotsInUse
from cenote.service.allocator.waiting import WaitingTasks

_SPREAD = 15.0
"""Seconds after a worker joined, in which the others are waited for."""
_WORK_FOR_EVER = 1 << 40
"""An open pool expects work without end, so that it keeps its size."""


class Bounds(NamedTuple):
    """Limits that hold for now."""

    least: int
    most: int
    reason: str
    """Empty where the hour is the reason."""


class LongLivedPool:
    """A pool, from the time it is added until it is removed and its workers are gone."""

    def __init__(self, definition: PoolDefinition, workers: PoolWorkers) -> None:
        self.definition = definition
        self.workers = workers
        self.seats = FreeSeats()
        self.waiting = WaitingTasks()
        self.used = SlotsInUse()
        self.live: dict[tuple[str, int], LiveInstance] = {}
        """What its workers run."""
        self.victims: dict[int, set[tuple[str, int]]] = {}
        """Priority → instances that may be stopped for a higher one, and have not been asked to."""
        self.preempted = 0
        """Instances that were asked to give way and have not ended."""
        self.paid: dict[str, float] = {}
        """Workers that cost → since when."""
        self.bounds: Bounds | None = None
        """Where they differ from those of the definition."""
        self.ended: dict[str, float] = {}
        """Workers that a budget ended → when they were last told. Not kept: they are told again."""
        self.careful = False
        """Whether nothing is begun before all its workers came back, or are lost."""
        self.grew = -math.inf
        """When a worker joined last. Not kept: it matters for some seconds."""
        self.closed = False
        self.removed = False

    @property
    def name(self) -> str:
        """Its own."""
        return self.definition.name

    @property
    def is_gone(self) -> bool:
        """Whether it was removed, and has nothing left."""
        return self.removed and not self.live and not self.workers.counts.total

    @property
    def may_start(self) -> bool:
        """Whether work and a slot for it are here."""
        held = self.closed or (self.careful and bool(self.workers.silent))
        return not held and self.seats.free > 0 and bool(self.waiting.instances)

    def waits_for_workers(self, now: float) -> bool:
        """Whether more workers of a fixed number are about to come, and each can have an instance of its own."""
        coming = self.definition.workers is not None and self.workers.size > len(self.workers.observed)
        enough = self.waiting.instances + len(self.live) <= self.workers.size
        return coming and enough and now - self.grew < _SPREAD

    def load(self) -> Load:
        """The work that its size follows."""
        if self.closed:
            return Load(waiting=0, sent=0, to_come=0)
        staying = sum(live.worker in self.workers.observed for live in self.live.values())
        return Load(waiting=self.waiting.instances, sent=staying, to_come=_WORK_FOR_EVER)

    def note_waiting(self, now: float) -> None:
        """Remember since when work has waited here without a worker."""
        if self.workers.observed or not self.waiting.instances:
            self.workers.wanting_since = None
        elif self.workers.wanting_since is None:
            self.workers.wanting_since = now


def placed(definition: PoolDefinition, bounds: Bounds | None = None) -> PlacedPool:
    """The pool as the engine's autoscaler knows it."""
    workers, elastic = definition.workers, definition.elastic
    if bounds is not None:
        workers = None if workers is None else min(workers, bounds.most)
        elastic = None if elastic is None else replace(elastic, min=bounds.least, max=bounds.most)
    return PlacedPool(
        spec=Pool(name=definition.name, cost=definition.cost, resources=definition.resources),
        strategy=definition.strategy,
        workers=workers,
        elastic=elastic,
        slots=definition.slots,
        resources=definition.resources,
        granted=definition.resources,
        fallback=definition.fallback,
    )
