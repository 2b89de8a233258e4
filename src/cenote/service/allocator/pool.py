"""Keep one pool of the service: its workers and their slots, what waits for it and what it runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from cenote.engine.scaling import Load
from cenote.engine.workers import PoolWorkers
from cenote.language.execution import Pool
from cenote.planning.placement.pools import PlacedPool
from cenote.service.allocator.accounts import SlotsInUse, WaitingTasks
from cenote.service.allocator.snapshot import LiveInstance
from cenote.service.client.definitions import PoolDefinition

# Know which workers of a pool have free slots, and which of them is the best to use next.


class FreeSeats:
    """The workers of one pool that may get work."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        """Worker → all its slots, also of those that get nothing for now."""
        self.free = 0
        """Slots that could be used now."""
        self._free: dict[str, int] = {}
        """Workers that may get work → their free slots; below 0 where they came back with more than they can hold."""
        self._by_room: dict[int, dict[str, None]] = {}
        """Free slots → the workers that have so many, those first that have had them for longest."""

    @property
    def usable(self) -> tuple[str, ...]:
        """Workers that may get work, whether they have room or not."""
        return tuple(self._free)

    @property
    def usable_slots(self) -> int:
        """Slots of those, in use or free."""
        return sum(self.slots[worker] for worker in self._free)

    def __contains__(self, worker: str) -> bool:
        return worker in self._free

    def open(self, worker: str, taken: int) -> None:
        """A worker may get work from now on; so many of its slots are in use."""
        if worker in self._free:
            self._move(worker, None)
        self._move(worker, self.slots[worker] - taken)

    def close(self, worker: str) -> None:
        """It gets nothing more, for now."""
        if worker in self._free:
            self._move(worker, None)

    def forget(self, worker: str) -> None:
        """It is gone."""
        self.close(worker)
        self.slots.pop(worker, None)

    def take(self, worker: str) -> None:
        """One slot of it is used from now on."""
        if worker in self._free:
            self._move(worker, self._free[worker] - 1)

    def give_back(self, worker: str) -> None:
        """One slot of it is free again."""
        if worker in self._free:
            self._move(worker, min(self._free[worker] + 1, self.slots[worker]))

    def best(self) -> str | None:
        """The worker with the most room: work is spread."""
        room = max((room for room, workers in self._by_room.items() if workers), default=0)
        return next(iter(self._by_room[room])) if room > 0 else None

    def _move(self, worker: str, room: int | None) -> None:
        if (before := self._free.pop(worker, None)) is not None:
            self.free -= max(0, before)
            del self._by_room[before][worker]
        if room is not None:
            self.free += max(0, room)
            self._free[worker] = room
            self._by_room.setdefault(room, {})[worker] = None


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
