"""Keep one task in little memory: a byte and two numbers per instance, and more only of those that run or failed."""

from __future__ import annotations

import heapq
import sys
import zlib
from array import array
from functools import lru_cache

import msgspec

from cenote.service.allocator.snapshot import LiveInstance, TaskKept, Trouble
from cenote.service.client.definitions import InstanceState, TaskDefinition, TaskState

CODES = tuple(InstanceState)
"""The state of an instance is the place of its name here, as one byte."""
WAITING, ASSIGNED, RUNNING, SUCCEEDED, FAILED, CANCELLED = range(len(CODES))


class QueuedTask:
    """A task, from the time it is added until its record is in the archive."""

    def __init__(self, definition: TaskDefinition, order: tuple[int, ...]) -> None:
        many = max(0, definition.instances)
        self.definition = definition
        self.order = order
        """Smaller ones come first, among tasks of the same user and priority."""
        self.pending: set[str] = set()
        """Tasks that must succeed first, and have not."""
        self.been: tuple[str, ...] = ()
        """Pools that it fell back from."""
        self.waiting_since: float | None = None
        """Since when it has waited for slots alone, and had none."""
        self.arrived = 0.0
        """When it came to its pool."""
        self.busy = 0.0
        """Seconds that its successful attempts took together."""
        self.paused = False
        self.cancelled: str | None = None
        """Why, if it was."""
        self.doomed: str | None = None
        """Why it can never start, if that is so."""
        self.started: float | None = None
        self.state: TaskState | None = None
        """How it ended, if it did."""
        self.reason = ""
        self.ended: float | None = None
        self.live: dict[int, LiveInstance] = {}
        self.troubles: dict[int, Trouble] = {}
        """Instances whose latest attempt failed."""
        self.states = bytearray(many)
        self.attempts = array("I", bytes(4 * many))
        self.seats = array("I", bytes(4 * many))
        """Which of `workers` had the instance last, counted from 1."""
        self.workers: dict[str, int] = {}
        self.counts = [many, 0, 0, 0, 0, 0]
        """Instances in each state, in the order of `CODES`."""
        self.copied: TaskKept | None = None
        """All of this, where it was copied ahead and has not changed since."""
        self._fresh = 0
        """No instance from here on was ever taken."""
        self._returned: list[int] = []
        """Instances below that, which wait again: a heap, with some that do not wait any more."""

    @property
    def id(self) -> str:
        """The task's own."""
        return self.definition.id

    @property
    def waiting(self) -> int:
        """Instances that want a slot."""
        return self.counts[WAITING]

    @property
    def unfinished(self) -> int:
        """Instances to which something may still happen."""
        return self.counts[WAITING] + self.counts[ASSIGNED] + self.counts[RUNNING]

    @property
    def may_start(self) -> bool:
        """Whether its instances may get slots, as far as the task itself is concerned."""
        held = self.paused or self.cancelled is not None or self.doomed is not None or self.pending
        return self.state is None and not held

    def next_waiting(self) -> int | None:
        """The instance that starts next: the lowest number."""
        while self._returned and self.states[self._returned[0]] != WAITING:
            heapq.heappop(self._returned)
        while self._fresh < len(self.states) and self.states[self._fresh] != WAITING:
            self._fresh += 1
        if self._returned:
            return self._returned[0]
        return self._fresh if self._fresh < len(self.states) else None

    def assign(self, live: LiveInstance) -> None:
        """An instance got a slot."""
        self.attempts[live.instance] = live.attempt
        self.seats[live.instance] = self.workers.setdefault(live.worker, len(self.workers) + 1)
        self.live[live.instance] = live
        self._turn(live.instance, RUNNING if live.running else ASSIGNED)
        if self.started is None:
            self.started = live.since

    def change(self, live: LiveInstance, **changes: bool | str) -> None:
        """Something is new of an attempt that has a slot."""
        self.live[live.instance] = changed = msgspec.structs.replace(live, **changes)
        self._turn(live.instance, RUNNING if changed.running else ASSIGNED)

    def finish(self, instance: int, code: int) -> None:
        """An instance has no slot any more, and is over, or waits again."""
        self.live.pop(instance, None)
        self._turn(instance, code)
        if code == WAITING and instance < self._fresh:
            heapq.heappush(self._returned, instance)

    def drop_waiting(self) -> None:
        """What waits will not run."""
        self.states = self.states.replace(bytes([WAITING]), bytes([CANCELLED]))
        self.counts[CANCELLED] += self.counts[WAITING]
        self.counts[WAITING] = 0

    def _turn(self, instance: int, code: int) -> None:
        self.counts[self.states[instance]] -= 1
        self.counts[code] += 1
        self.states[instance] = code


# Turn a task into one event, and back: for compacted logs and for the archive.


_SMALL = 4096


def keep_task(task: QueuedTask, at: float) -> TaskKept:
    """All that matters of a task."""
    return TaskKept(
        at=at,
        task=task.definition,
        order=task.order,
        states=_compressed(bytes(task.states)),
        attempts=_packed(task.attempts),
        seats=_packed(task.seats),
        workers=tuple(task.workers),
        live=tuple(task.live.values()),
        troubles=dict(task.troubles),
        pending=tuple(sorted(task.pending)),
        been=task.been,
        waiting_since=task.waiting_since,
        arrived=task.arrived,
        busy=task.busy,
        paused=task.paused,
        cancelled=task.cancelled,
        doomed=task.doomed,
        started=task.started,
        state=task.state,
        reason=task.reason,
        ended=task.ended,
    )


def restored_task(kept: TaskKept) -> QueuedTask:
    """The task as it was."""
    task = QueuedTask(kept.task, kept.order)
    task.states = bytearray(zlib.decompress(kept.states))
    task.attempts, task.seats = _unpacked(kept.attempts), _unpacked(kept.seats)
    task.counts = [task.states.count(code) for code in range(len(CODES))]
    task.workers = {worker: number for number, worker in enumerate(kept.workers, 1)}
    task.live = {live.instance: live for live in kept.live}
    task.troubles = dict(kept.troubles)
    task.pending, task.been = set(kept.pending), kept.been
    task.waiting_since, task.arrived, task.busy = kept.waiting_since, kept.arrived, kept.busy
    task.paused, task.cancelled, task.doomed = kept.paused, kept.cancelled, kept.doomed
    task.started, task.state, task.reason, task.ended = kept.started, kept.state, kept.reason, kept.ended
    return task


def _packed(numbers: array[int]) -> bytes:
    return _compressed(_little_endian(numbers).tobytes())


def _compressed(data: bytes) -> bytes:
    """Tasks that wait are alike, and compressing takes most of the time of keeping a small one."""
    return _compressed_before(data) if len(data) < _SMALL else zlib.compress(data)


_compressed_before = lru_cache(maxsize=1000)(zlib.compress)


def _unpacked(packed: bytes) -> array[int]:
    return _little_endian(array("I", zlib.decompress(packed)))


def _little_endian(numbers: array[int]) -> array[int]:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
