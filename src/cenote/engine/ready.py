"""Decide which ready task goes next, and to which pool.

Merges go first, then later segments before earlier ones (that finishes partitions and bounds what lies in memory),
then tasks in the order of the plan, which is the order of partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from cenote.engine.capacity import PoolCapacity, Pools
from cenote.engine.task_classes import TaskClasses, first_classes
from cenote.engine.tasks import READY, TaskStates
from cenote.plan.plan import Plan

_NUMBER_BITS = 40
_NUMBER = (1 << _NUMBER_BITS) - 1


class ReadyQueue:
    """The ready tasks that may go to the same pools, best first."""

    def __init__(self, pools: tuple[PoolCapacity, ...]) -> None:
        self.pools = pools
        self.classes: set[int] = set()
        """The numbers of the classes whose tasks are here."""
        self._first: memoryview[int] = np.empty(0, dtype=np.int64).data
        self._next = 0
        self._later: list[int] = []

    def start_with(self, ranks: NDArray[np.int64]) -> None:
        """Queue the tasks that are ready from the start: a flat array, for they may be a million."""
        self._first = np.sort(ranks).data

    def push(self, rank: int) -> None:
        """Queue a task."""
        heappush(self._later, rank)

    def best(self, states: TaskStates) -> int | None:
        """The rank of the next task; those that are not ready any more, or have fallen back, are thrown away."""
        codes, class_of = states.codes, states.class_of
        while self._later:
            task = self._later[0] & _NUMBER
            if codes[task] == READY and class_of(task) in self.classes:
                break
            heappop(self._later)
        while self._next < len(self._first):
            task = self._first[self._next] & _NUMBER
            if codes[task] == READY and class_of(task) in self.classes:
                break
            self._next += 1
        if self._next == len(self._first):
            return self._later[0] if self._later else None
        first = self._first[self._next]
        return min(first, self._later[0]) if self._later else first


class ReadyTasks:
    """All ready tasks of the run."""

    def __init__(self, plan: Plan, classes: TaskClasses, states: TaskStates, pools: Pools) -> None:
        self._states = states
        self._queues: dict[tuple[str, ...], ReadyQueue] = {}
        self._queue_of_class: list[ReadyQueue] = []
        self._rank_of_class: list[int] = []
        for task_class in classes:
            capacities = tuple(pools[name] for name in task_class.choice.pools)
            queue = self._queues.setdefault(task_class.choice.pools, ReadyQueue(capacities))
            queue.classes.add(task_class.number)
            self._queue_of_class.append(queue)
            self._rank_of_class.append(
                0 if task_class.merges else (len(plan.segments) - task_class.segment) << _NUMBER_BITS
            )
        self._start(plan)

    def _start(self, plan: Plan) -> None:
        tasks = self._states.ready_at_first()
        classes = first_classes(plan.tasks)[tasks]
        ranks = np.array(self._rank_of_class, dtype=np.int64)[classes] | tasks
        for queue in self._queues.values():
            queue.start_with(ranks[np.isin(classes, list(queue.classes))])

    def add(self, tasks: Iterable[int]) -> None:
        """These have become ready."""
        for task in tasks:
            number = self._states.class_of(task)
            self._queue_of_class[number].push(self._rank_of_class[number] | task)

    def next(self) -> tuple[int, PoolCapacity] | None:
        """The best task that a pool has capacity for, and the pool; the caller sends it."""
        best, target = None, None
        for queue in self._queues.values():
            pool = choose_pool(queue)
            if pool is None:
                continue
            rank = queue.best(self._states)
            if rank is not None and (best is None or rank < best):
                best, target = rank, pool
        return None if best is None or target is None else (best & _NUMBER, target)


def choose_pool(queue: ReadyQueue) -> PoolCapacity | None:
    """Where the next task of a queue goes now; None while it has to wait.

    Pools that share work take it in the order written: whichever has an idle slot, then whichever has capacity.
    """
    for pool in queue.pools:
        if pool.has_idle_slot:
            return pool
    return next((pool for pool in queue.pools if pool.has_capacity), None)
