"""Keep which attempts at tasks are out, where they are, and what each task went through."""

from __future__ import annotations

from array import array

from cenote.engine.capacity import PoolCapacity
from cenote.engine.recovery.retries import History


class Attempts:
    """Every task that was ever sent. An attempt that is not the latest, or has come back, is not current."""

    def __init__(self, tasks: int) -> None:
        self._number = array("I", bytes(4 * tasks))
        self.out: dict[int, PoolCapacity] = {}
        """Tasks that were sent and have not come back → their pool."""
        self.taken: dict[int, str] = {}
        """Of those, the ones that a worker said it has → the worker."""
        self.history: dict[int, History] = {}
        """Of tasks that did not succeed at once."""
        self.pieces: dict[int, int] = {}
        """Tasks that did not fit into memory → the pieces that they are taken in."""

    def number(self, task: int) -> int:
        """How often it was sent."""
        return self._number[task]

    def is_current(self, task: int, attempt: int) -> bool:
        """Whether this attempt is out; 0 is taken for the latest."""
        return task in self.out and attempt in (0, self._number[task])

    def send(self, task: int, pool: PoolCapacity) -> int:
        """A task goes to a pool: the number of the attempt."""
        self._number[task] += 1
        self.out[task] = pool
        pool.sent += 1
        return self._number[task]

    def take(self, task: int, attempt: int, worker: str) -> None:
        """A worker has it."""
        if self.is_current(task, attempt):
            self._let_go(task)
            self.taken[task] = worker
            self.out[task].count_held(worker, 1)

    def come_back(self, task: int) -> None:
        """It is not out any more."""
        self._let_go(task)
        self.out.pop(task).sent -= 1

    def _let_go(self, task: int) -> None:
        """Whichever worker had it has it no more."""
        if (worker := self.taken.pop(task, None)) is not None:
            self.out[task].count_held(worker, -1)

    def busy_workers(self) -> frozenset[str]:
        """The workers that have a task."""
        return frozenset(self.taken.values())

    def tasks_on(self, worker: str) -> int:
        """How many tasks a worker has."""
        return sum(other == worker for other in self.taken.values())
