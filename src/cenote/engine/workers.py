"""This file keeps which workers have joined which pool, and how much more work each pool may be sent."""

from __future__ import annotations

import math
from collections.abc import Iterable


class PoolRoom:
    """One pool: the slots of its workers, and the tasks sent to it that have not come back."""

    def __init__(self, name: str, window_per_slot: float) -> None:
        self.name = name
        self.slots = 0
        self.window = 0
        """The most tasks to have out at once."""
        self.sent = 0
        self._window_per_slot = window_per_slot
        self._workers: dict[str, int] = {}

    @property
    def workers(self) -> int:
        """How many workers are there now."""
        return len(self._workers)

    @property
    def has_idle_slot(self) -> bool:
        """Whether a task sent now would start at once."""
        return self.sent < min(self.slots, self.window)

    @property
    def has_room(self) -> bool:
        """Whether a task may be sent now."""
        return self.sent < self.window

    def join(self, worker: str, slots: int) -> None:
        """A worker is there; told twice, it still counts once."""
        self._workers[worker] = slots
        self._measure()

    def leave(self, *workers: str) -> None:
        """Workers are gone, or to be sent nothing more; one that was never there is not an error."""
        for worker in workers:
            self._workers.pop(worker, None)
        self._measure()

    def _measure(self) -> None:
        self.slots = sum(self._workers.values())
        self.window = math.ceil(self.slots * self._window_per_slot)


class Pools:
    """Every pool of the run."""

    def __init__(self, names: Iterable[str], window_per_slot: float) -> None:
        self._window_per_slot = window_per_slot
        self._rooms = {name: PoolRoom(name, window_per_slot) for name in names}

    def room(self, name: str) -> PoolRoom:
        """The pool of this name; one that nobody has mentioned yet has no workers."""
        if name not in self._rooms:
            self._rooms[name] = PoolRoom(name, self._window_per_slot)
        return self._rooms[name]
