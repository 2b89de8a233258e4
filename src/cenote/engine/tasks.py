"""Keep how far every task is, and find what each change makes ready, not needed or unreadable.

Everything is one byte or a few per task, so that a million tasks fit and each change costs a microsecond.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cenote.engine.capacity import PoolCapacity, Pools
from cenote.engine.task_classes import TaskClasses, first_classes
from cenote.planning.plan import MERGE, RUN, Plan

WAITING: Final = 0  # for tasks that it needs
READY: Final = 1  # to be sent to a pool
SENT: Final = 2  # to a pool: it runs, or waits for a slot there
DONE: Final = 3
PARTIAL: Final = 4  # a merge that is done with the parts that there are
FAILED: Final = 5
ABANDONED: Final = 6  # something that it needs has failed
NOT_NEEDED: Final = 7  # no task will read it: those that would have are done already, or abandoned
STATES: Final = 8

_RESULT: Final = 1  # the run is for this task's sake
_KEPT: Final = 2  # a later run may still read it: a task that would have read it did not succeed


class TaskStates:
    """The state of every task of a plan.

    What follows from a change is left for the caller to take: `ready`, `unread`, `not_needed` and `abandoned`.
    """

    def __init__(self, plan: Plan, classes: TaskClasses) -> None:
        table = plan.tasks
        self._kind = np.ascontiguousarray(table.kind, dtype=np.uint8).data
        self._class = first_classes(table).data
        self._needs_start = np.ascontiguousarray(table.needs_start, dtype=np.int64).data
        self._needs = np.ascontiguousarray(table.needs, dtype=np.int32).data
        self._users_start = np.ascontiguousarray(table.users_start, dtype=np.int64).data
        self._users = np.ascontiguousarray(table.users, dtype=np.int32).data
        unmet = np.diff(table.needs_start).astype(np.int32)
        states = np.where(unmet == 0, READY, WAITING).astype(np.uint8)
        results = plan.result_tasks()
        self._state = bytearray(states.tobytes())
        self._marks = bytearray((results * _RESULT).astype(np.uint8).tobytes())
        self._unmet = array("i", unmet.tobytes())
        self._readers = array("i", np.diff(table.users_start).astype(np.int32).tobytes())
        self._tally: list[int] = np.bincount(
            np.asarray(self._class, dtype=np.int64) * STATES + states, minlength=STATES * len(classes)
        ).tolist()
        self._something_missing = False
        self.blame: dict[int, int] = {}
        """Abandoned task → the failed task that is the reason."""
        self.ready: list[int] = []
        """Tasks that became ready and are to be taken from here."""
        self.unread: list[int] = []
        """Done tasks that no task will read any more."""
        self.not_needed: set[int] = set()
        """Tasks that need not run, because all that would read them is reused."""
        self.abandoned: list[int] = []
        """Tasks that do not run, because one that they need failed, or because what would read them is abandoned."""
        self.open_results = int(results.sum())
        """Results that are still to come."""
        self.results_there = 0
        """Results that are done, partial ones included."""

    def __len__(self) -> int:
        return len(self._state)

    @property
    def codes(self) -> bytearray:
        """The state of every task; to look at, not to change."""
        return self._state

    def ready_at_first(self) -> NDArray[np.int64]:
        """The tasks that are ready now, by number: all of those that need nothing, on a fresh table."""
        return np.flatnonzero(np.frombuffer(self._state, dtype=np.uint8) == READY)

    def class_of(self, task: int) -> int:
        """The number of the class that it is in."""
        return self._class[task]

    def change_class(self, task: int, number: int) -> None:
        """A task falls back."""
        state = self._state[task]
        self._tally[self._class[task] * STATES + state] -= 1
        self._tally[number * STATES + state] += 1
        self._class[task] = number

    def ready_in(self, number: int) -> list[int]:
        """The ready tasks of a class, by number. Looks at every task: for when something rare happens."""
        if not self.count(number, READY):
            return []
        codes, classes = np.frombuffer(self._state, dtype=np.uint8), np.asarray(self._class)
        found: list[int] = np.flatnonzero((codes == READY) & (classes == number)).tolist()
        return found

    def count(self, number: int, state: int) -> int:
        """How many tasks of a class are in this state."""
        return self._tally[number * STATES + state]

    def count_open(self, number: int) -> int:
        """How many tasks of a class are not settled."""
        return self.count(number, WAITING) + self.count(number, READY) + self.count(number, SENT)

    def is_wanted(self, task: int) -> bool:
        """Whether a task still reads it, or the run is for its sake."""
        return self._readers[task] > 0 or bool(self._marks[task] & _RESULT)

    def missing_needs(self, task: int) -> tuple[int, ...]:
        """What it needs and can not read: tasks that failed or were abandoned. A ready merge may have some."""
        if not self._something_missing:
            return ()
        return tuple(need for need in self._needs_of(task) if self._state[need] not in (DONE, PARTIAL))

    def unsettled(self) -> list[int]:
        """The tasks that are neither done nor sure never to be."""
        found: list[int] = np.flatnonzero(np.frombuffer(self._state, dtype=np.uint8) < DONE).tolist()
        return found

    def send(self, task: int) -> None:
        """A ready task goes to a pool."""
        self._move(task, SENT)

    def take_back(self, task: int) -> None:
        """A task that was sent is to be sent again."""
        self._move(task, READY)

    def drop(self, task: int) -> None:
        """A task that was sent did not succeed, and no task would read it."""
        self._leave_out(task)
        self._close_needs(task)

    def reuse(self, task: int) -> None:
        """An earlier run has done a task, and its data is there."""
        if self._state[task] in (WAITING, READY, SENT):
            self._finish_whole(task)
        elif self._state[task] == NOT_NEEDED and not self._marks[task] & _KEPT:
            self.not_needed.discard(task)
            self.unread.append(task)

    def finish(self, task: int) -> None:
        """A task is done: its users may become ready, its needs unread."""
        if self._something_missing and not self._is_whole(task):
            self._finish_partial(task)
        else:
            self._finish_whole(task)

    def _finish_whole(self, task: int) -> None:
        self._move(task, DONE)
        state, unmet = self._state, self._unmet
        for user in self._users[self._users_start[task] : self._users_start[task + 1]]:
            if state[user] == WAITING:
                unmet[user] -= 1
                if unmet[user] == 0:
                    self._move(user, READY)
                    self.ready.append(user)
        self._close_needs(task)
        if not self.is_wanted(task) and not self._marks[task] & _KEPT:
            self.unread.append(task)

    def fail(self, task: int) -> None:
        """A task failed for good. What depends on it is abandoned, except merges: they take the parts there are."""
        self._move(task, FAILED)
        self._something_missing = True
        self._spread(task, [task])

    def stop_at(self, task: int) -> None:
        """A task failed for good, and the run ends with it: nothing else changes."""
        self._move(task, FAILED)

    def _finish_partial(self, task: int) -> None:
        """A merge is done without some of its parts: merges go on with it, anything else would be misled."""
        self._move(task, PARTIAL)
        blamed = self._blame_of_parts(task)
        abandoned = [user for user in self._users_of(task) if self._blocks(user, blame=blamed)]
        self._close_needs(task, keep=True)
        self._spread(blamed, abandoned)

    def _spread(self, blamed: int, gone: list[int]) -> None:
        while gone:
            task = gone.pop()
            gone += [user for user in self._users_of(task) if self._blocks(user, blame=blamed)]
            self._close_needs(task, keep=True)

    def _blocks(self, user: int, *, blame: int) -> bool:
        """Abandon a user of a task that is missing or partial, unless it is a merge with other parts."""
        if self._state[user] != WAITING:
            return False
        if self._kind[user] == MERGE:
            self._unmet[user] -= 1
            if self._unmet[user] > 0:
                return False
            if any(self._state[need] in (DONE, PARTIAL) for need in self._needs_of(user)):
                self._move(user, READY)
                self.ready.append(user)
                return False
        self._move(user, ABANDONED)
        self.abandoned.append(user)
        self.blame[user] = blame
        return True

    def _is_whole(self, task: int) -> bool:
        return self._kind[task] == RUN or all(self._state[need] == DONE for need in self._needs_of(task))

    def _blame_of_parts(self, task: int) -> int:
        """A failed task that explains why this merge is partial."""
        while self._state[task] == PARTIAL:
            task = next(need for need in self._needs_of(task) if self._state[need] != DONE)
        return self.blame.get(task, task)

    def _close_needs(self, task: int, *, keep: bool = False) -> None:
        """A task reads its needs no more: those that no other task reads are unread, or need not run at all."""
        closing = [task]
        while closing:
            closed = closing.pop()
            mark = _KEPT if keep or (self._state[closed] == NOT_NEEDED and self._marks[closed] & _KEPT) else 0
            for need in self._needs[self._needs_start[closed] : self._needs_start[closed + 1]]:
                self._readers[need] -= 1
                self._marks[need] |= mark
                if self._readers[need] or self._marks[need] & _RESULT:
                    continue
                code = self._state[need]
                if code in (WAITING, READY):
                    self._leave_out(need)
                    closing.append(need)
                elif code == PARTIAL or (code == DONE and not self._marks[need] & _KEPT):
                    self.unread.append(need)

    def _leave_out(self, task: int) -> None:
        """A task is read by none; one that a later run may read is abandoned rather than not needed."""
        self._move(task, NOT_NEEDED)
        if self._marks[task] & _KEPT:
            self.abandoned.append(task)
        else:
            self.not_needed.add(task)

    def _move(self, task: int, state: int) -> None:
        base = self._class[task] * STATES
        self._tally[base + self._state[task]] -= 1
        self._tally[base + state] += 1
        self._state[task] = state
        if state >= DONE and self._marks[task] & _RESULT:
            self.open_results -= 1
            self.results_there += state <= PARTIAL

    def _needs_of(self, task: int) -> Iterable[int]:
        return self._needs[self._needs_start[task] : self._needs_start[task + 1]]

    def _users_of(self, task: int) -> Iterable[int]:
        return self._users[self._users_start[task] : self._users_start[task + 1]]


# Decide which ready task goes next, and to which pool.
#
# Merges go first, then later segments before earlier ones (that finishes partitions and bounds what lies in memory),
# then tasks in the order of the plan, which is the order of partitions.


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


# Write many task numbers in little space: as ranges.


TaskRanges = tuple[tuple[int, int], ...]
"""(first, last) of each run of consecutive task numbers, in order."""


def ranges_of(tasks: Iterable[int]) -> TaskRanges:
    """The ranges of these tasks, each of which may come once."""
    found: list[tuple[int, int]] = []
    for task in sorted(tasks):
        if found and found[-1][1] == task - 1:
            found[-1] = (found[-1][0], task)
        else:
            found.append((task, task))
    return tuple(found)


def tasks_in(ranges: TaskRanges) -> Iterator[int]:
    """Every task of the ranges, in order."""
    for first, last in ranges:
        yield from range(first, last + 1)
