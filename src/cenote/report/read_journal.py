"""Read a journal for what the summary does not tell: when each pool was busy, and with which tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cenote.report.run_record import SlotRecord, TaskSpan, Timeline

STEPS = 160
"""Points of time that the picture shows."""
CLOCK_SKEW = 0.02
"""Seconds by which two tasks of one slot may seem to overlap: their ends are noted when they are heard of."""


class _Failure(msgspec.Struct, frozen=True):
    """As much of a failure as is needed here."""

    message: str = ""
    cause: str = ""


class _Line(msgspec.Struct, frozen=True):
    """As much of an event as is needed here."""

    type: str = ""
    at: float = 0.0
    pool: str = ""
    worker: str = ""
    task: int | None = None
    seconds: float = 0.0
    failure: _Failure | None = None


class _Attempt(NamedTuple):
    """A task on a worker."""

    pool: str
    worker: str
    span: TaskSpan


def read_timeline(journal: Path) -> Timeline:
    """How many tasks ran in each pool over the course of the last attempt, and what each slot of a worker ran."""
    first = last = None
    ended: list[_Attempt] = []
    begun: dict[int, _Line] = {}
    for line in _lines(journal):
        last = line.at
        match line.type:
            case "RunStarted":
                first, ended, begun = line.at, [], {}
            case "TaskStarted" if line.task is not None:
                begun[line.task] = line
            case "TaskDone" | "TaskFailed" if line.task is not None and first is not None:
                begun.pop(line.task, None)
                ended.append(_attempt(line, line.task, first))
    if first is None or last is None or last <= first or not (ended or begun):
        return Timeline(0.0, ())
    open_ends = [
        _Attempt(line.pool, line.worker, TaskSpan(task, line.at - first, last - first, cut_off=True))
        for task, line in begun.items()
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


def _attempt(line: _Line, task: int, first: float) -> _Attempt:
    message = line.failure.message.partition("\n")[0] if line.failure else None
    end = line.at - first
    return _Attempt(line.pool, line.worker, TaskSpan(task, end - max(line.seconds, 0.0), end, message))


def _slots(attempts: Iterable[_Attempt]) -> Iterator[SlotRecord]:
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
            yield SlotRecord(pool, worker, number, tuple(slot))


def _as_counted(names: tuple[str, str]) -> tuple[tuple[int | str, ...], ...]:
    """`gpu-2` before `gpu-10`."""
    return tuple(tuple(int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)) for name in names)


def _lines(journal: Path) -> Iterator[_Line]:
    """The events that can be read; a last line may be cut short by a kill."""
    decoder = msgspec.json.Decoder(_Line)
    try:
        with journal.open("rb") as file:
            for text in file:
                try:
                    yield decoder.decode(text)
                except msgspec.DecodeError:
                    continue
    except OSError:
        return


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
