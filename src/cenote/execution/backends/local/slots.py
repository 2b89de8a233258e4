"""Keep which tasks wait and which places are free: a place is one slot of one worker of a pool."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from cenote.common.text import worker_name
from cenote.engine.messages import WorkerJoined
from cenote.execution.backends.support.outcomes import key_of
from cenote.execution.worker.task_spec import TaskSpec
from cenote.planning.placement.pools import PlacedPool


class SlotTable:
    """The places of all pools on this machine, and the tasks that wait for one."""

    def __init__(self, pools: Iterable[PlacedPool]) -> None:
        self._pools = tuple(pools)
        self._free = {pool.name: list(range(max(1, pool.most_slots))) for pool in self._pools}
        self._slots = {pool.name: max(1, pool.slots) for pool in self._pools}
        self._waiting: dict[str, deque[TaskSpec]] = {pool.name: deque() for pool in self._pools}
        self.places = sum(len(places) for places in self._free.values())
        """Of all pools together: so many tasks run at once at the most."""
        self._turns = deque(self._free)
        """Pools, the one whose turn it is first."""

    def joined(self, at: float) -> list[WorkerJoined]:
        """One event for every worker."""
        return [
            WorkerJoined(at=at, worker=self.worker(pool.name, first), pool=pool.name, slots=self._slots[pool.name])
            for pool in self._pools
            for first in range(0, len(self._free[pool.name]), self._slots[pool.name])
        ]

    def worker(self, pool: str, place: int) -> str:
        """The name of the worker that a place belongs to: `gpu-1`."""
        return worker_name(pool, place // self._slots[pool] + 1)

    @property
    def waiting(self) -> int:
        """How many tasks wait."""
        return sum(len(tasks) for tasks in self._waiting.values())

    def wait(self, spec: TaskSpec, pool: str) -> None:
        """Let a task wait for a place."""
        self._waiting[pool].append(spec)

    def withdraw(self, task: int) -> tuple[TaskSpec, str] | None:
        """Take a waiting task back, with its pool; None when it does not wait."""
        for pool, tasks in self._waiting.items():
            for spec in tasks:
                if spec.task == task:
                    tasks.remove(spec)
                    return spec, pool
        return None

    def take(self) -> tuple[TaskSpec, str, int] | None:
        """The next task that has a place, with its pool and place; pools take turns."""
        self._turns.rotate(-1)
        for pool in self._turns:
            if self._waiting[pool] and self._free[pool]:
                return self._waiting[pool].popleft(), pool, heapq.heappop(self._free[pool])
        return None

    def first(self, pool: str) -> TaskSpec | None:
        """The next one that waits for this pool."""
        return self._waiting[pool][0] if self._waiting[pool] else None

    def alike(self, spec: TaskSpec, pool: str) -> int:
        """How many tasks that wait for this pool come right after each other and do the same as this one."""
        return sum(1 for _ in takewhile(lambda one: key_of(one) == key_of(spec), self._waiting[pool]))

    def take_more(self, spec: TaskSpec, pool: str, count: int) -> list[TaskSpec]:
        """So many of those, at the most: they share the place of this one, one after the other."""
        return [self._waiting[pool].popleft() for _ in range(min(count, self.alike(spec, pool)))]

    def wait_first(self, specs: Sequence[TaskSpec], pool: str) -> None:
        """Let tasks wait before all others: they were taken, and not begun."""
        self._waiting[pool].extendleft(reversed(specs))

    def free(self, pool: str, place: int) -> None:
        """Give a place back."""
        heapq.heappush(self._free[pool], place)
