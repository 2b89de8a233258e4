"""Turn a task into one event, and back: for compacted logs and for the archive."""

from __future__ import annotations

import sys
import zlib
from array import array
from functools import lru_cache

from cenote.service.allocator.kept import TaskKept
from cenote.service.allocator.queued_task import CODES, QueuedTask

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
