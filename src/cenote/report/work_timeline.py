"""Find in a journal when each pool was busy, and with which tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cenote.engine.messages import RunStarted, TaskDone, TaskFailed, TaskStarted
from cenote.runs.folder import RunFolder
from cenote.runs.journal import read_events

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
    ended: list[_Attempt] = []
    begun: dict[int, TaskStarted] = {}
    for event in read_events(run.path) if run.holds_run else ():
        last = event.at
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
    attempts = [*ended, *open_ends]
    edges = np.linspace(0.0, last - first, STEPS + 1)
    spans: dict[str, list[tuple[float, float]]] = {}
    for attempt in attempts:
        spans.setdefault(attempt.pool, []).append((attempt.span.start, attempt.span.end))
    return Timeline(
        last - first,
        tuple((pool, _running(np.array(found), edges)) for pool, found in sorted(spans.items())),
        tuple(_slots(attempts)),
    )


def _attempt(event: TaskDone | TaskFailed, first: float) -> _Attempt:
    message = event.failure.message.partition("\n")[0] if isinstance(event, TaskFailed) else None
    end = event.at - first
    return _Attempt(event.pool, event.worker, TaskSpan(event.task, end - max(event.seconds, 0.0), end, message))


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


def _running(spans: NDArray[np.float64], edges: NDArray[np.float64]) -> tuple[float, ...]:
    """The mean number of tasks that ran during each step."""
    starts, ends = spans.T
    total = np.zeros(len(edges))
    for moments, sign in ((starts, 1.0), (ends, -1.0)):
        # The integral of a step function that rises by one at each moment, taken at the edges.
        ordered = np.sort(moments)
        before = np.searchsorted(ordered, edges)
        sums = np.concatenate([[0.0], np.cumsum(ordered)])
        total += sign * (before * edges - sums[before])
    return tuple((np.diff(total) / np.diff(edges)).round(4).tolist())
