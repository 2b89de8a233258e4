"""Find in a journal when each pool was busy, and with which tasks."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cenote.common.values import dataclass
from cenote.engine.messages import AnyEvent, GroupStats, RunStarted, StageStats, TaskDone, TaskFailed, TaskStarted
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.journal import read_events

STEPS = 160
"""Points of time that the picture shows."""
CLOCK_SKEW = 0.02
"""Seconds by which two tasks of one slot may seem to overlap: their ends are noted when they are heard of."""


@dataclass(frozen=True)
class TaskSpan:
    """One attempt at a task: when and how it ran, in seconds since the start of the run."""

    task: int
    start: float
    end: float
    failure: str | None = None
    """Why it failed; None where it did not."""
    cut_off: bool = False
    """Whether its end was not reported."""
    stages: Mapping[str, StageStats] = field(default_factory=dict)
    """What its stages did; empty where it failed."""
    groups: tuple[GroupStats, ...] = ()
    """What modifiers measured of those that were compiled together."""
    events: int = 0
    """Read from files."""
    bytes_read: int = 0


@dataclass(frozen=True)
class WorkerSlot:
    """One slot of a worker, with what ran there, in order of time."""

    pool: str
    worker: str
    slot: int
    spans: tuple[TaskSpan, ...]


@dataclass(frozen=True)
class Timeline:
    """How many tasks each pool ran over the course of the run, in steps of equal length; and what each slot ran."""

    seconds: float
    pools: tuple[tuple[str, tuple[float, ...]], ...]
    slots: tuple[WorkerSlot, ...] = ()


class _Attempt(NamedTuple):
    """A task on a worker."""

    pool: str
    worker: str
    span: TaskSpan


def read_timeline(run: RunFolder) -> Timeline:
    """How many tasks ran in each pool over the course of the last attempt, and what each slot of a worker ran."""
    first = last = None
    work = PoolWork()
    ended: list[_Attempt] = []
    begun: dict[int, TaskStarted] = {}
    for event in read_events(run.path) if run.holds_run else ():
        last = event.at
        work.apply(event)
        match event:
            case RunStarted():
                first, ended, begun = event.at, [], {}
            case TaskStarted():
                begun[event.task] = event
            case TaskDone() | TaskFailed() if first is not None:
                begun.pop(event.task, None)
                ended.append(_attempt(event, first))
            case _:
                pass
    if first is None or last is None or last <= first or not (ended or begun):
        return Timeline(0.0, ())
    open_ends = [
        _Attempt(event.pool, event.worker, TaskSpan(task, event.at - first, last - first, cut_off=True))
        for task, event in begun.items()
    ]
    return Timeline(last - first, work.lanes(last), tuple(_slots([*ended, *open_ends])))


class PoolWork:
    """When tasks ran in each pool, event by event: for a run that is in progress too."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._starts: dict[str, array[float]] = {}
        self._ends: dict[str, array[float]] = {}
        self._begun: dict[int, tuple[str, float]] = {}
        """Tasks that run → their pool, and since when."""

    def apply(self, event: AnyEvent) -> None:
        """Take one event, in order."""
        match event:
            case RunStarted():
                self._first, self._starts, self._ends, self._begun = event.at, {}, {}, {}
            case TaskStarted():
                self._begun[event.task] = event.pool, event.at
            case TaskDone() | TaskFailed() if self._first is not None:
                self._begun.pop(event.task, None)
                self._starts.setdefault(event.pool, array("d")).append(event.at - max(event.seconds, 0.0))
                self._ends.setdefault(event.pool, array("d")).append(event.at)
            case _:
                pass

    def lanes(self, now: float) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """Pool → the mean number of tasks that ran during each step, from the start of the run until now."""
        if self._first is None or now <= self._first:
            return ()
        edges = np.linspace(0.0, now - self._first, STEPS + 1)
        pools = sorted({*self._starts, *(pool for pool, _ in self._begun.values())})
        return tuple((pool, self._lane(pool, self._first, now, edges)) for pool in pools)

    def _lane(self, pool: str, first: float, now: float, edges: NDArray[np.float64]) -> tuple[float, ...]:
        open_starts = [at for name, at in self._begun.values() if name == pool]
        starts = np.array([*self._starts.get(pool, ()), *open_starts]) - first
        ends = np.array([*self._ends.get(pool, ()), *(now for _ in open_starts)]) - first
        return _running(starts, ends, edges)


def _attempt(event: TaskDone | TaskFailed, first: float) -> _Attempt:
    message = event.failure.message.partition("\n")[0] if isinstance(event, TaskFailed) else None
    end = event.at - first
    span = TaskSpan(event.task, end - max(event.seconds, 0.0), end, message)
    if isinstance(event, TaskDone):
        span = replace(span, stages=event.stages, groups=event.groups)
        span = replace(span, events=event.events, bytes_read=event.bytes_read)
    return _Attempt(event.pool, event.worker, span)


def _slots(attempts: Iterable[_Attempt]) -> Iterator[WorkerSlot]:
    """What ran at once on a worker ran in different slots: each task takes the first that is free."""
    workers: dict[tuple[str, str], list[TaskSpan]] = {}
    for attempt in attempts:
        if attempt.worker:  # stopped before any worker took it
            workers.setdefault((attempt.pool, attempt.worker), []).append(attempt.span)
    for (pool, worker), spans in sorted(workers.items(), key=lambda one: _as_counted(one[0])):
        slots: list[list[TaskSpan]] = []
        for span in sorted(spans, key=lambda span: (span.start, span.task)):
            free = next((slot for slot in slots if slot[-1].end <= span.start + CLOCK_SKEW), None)
            if free is None:
                slots.append([span])
            else:
                free.append(span)
        for number, slot in enumerate(slots):
            yield WorkerSlot(pool, worker, number, tuple(slot))


def _as_counted(names: tuple[str, str]) -> tuple[tuple[int | str, ...], ...]:
    """`gpu-2` before `gpu-10`."""
    return tuple(tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)) for name in names)


def _running(starts: NDArray[np.float64], ends: NDArray[np.float64], edges: NDArray[np.float64]) -> tuple[float, ...]:
    """The mean number of tasks that ran during each step."""
    total = np.zeros(len(edges))
    for moments, sign in ((starts, 1.0), (ends, -1.0)):
        # The integral of a step function that rises by one at each moment, taken at the edges.
        ordered = np.sort(moments)
        before = np.searchsorted(ordered, edges)
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        total += sign * (before * edges - sums[before])
    return tuple((np.diff(total) / np.diff(edges)).round(4).tolist())
