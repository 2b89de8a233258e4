"""This file reads a journal for the one thing that the summary does not tell: when each pool was busy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from cenote.report.run_record import Timeline

STEPS = 160
"""Points of time that the picture shows."""


class _Line(msgspec.Struct, frozen=True):
    """As much of an event as is needed here."""

    type: str = ""
    at: float = 0.0
    pool: str = ""
    seconds: float = 0.0


_ENDS_A_TASK = frozenset({"TaskDone", "TaskFailed"})


def read_timeline(journal: Path) -> Timeline:
    """How many tasks ran in each pool over the course of the last attempt."""
    first = last = None
    tasks: dict[str, list[tuple[float, float]]] = {}
    for line in _lines(journal):
        if line.type == "RunStarted":
            first, tasks = line.at, {}
        if line.type in _ENDS_A_TASK and line.pool:
            tasks.setdefault(line.pool, []).append((line.at - max(line.seconds, 0.0), line.at))
        last = line.at
    if first is None or last is None or last <= first or not tasks:
        return Timeline(0.0, ())
    edges = np.linspace(0.0, last - first, STEPS + 1)
    return Timeline(
        last - first,
        tuple((pool, _running(np.array(spans) - first, edges)) for pool, spans in sorted(tasks.items())),
    )


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
