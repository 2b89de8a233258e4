"""Decide which tasks travel together: those so short that Dask's own cost per task would outweigh them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cenote.worker.task_spec import TaskSpec

ENOUGH_SECONDS = 0.05
"""Work in a bundle: many times what Dask needs for a task, and still short for whoever waits for its end."""
_FORGETS = 0.1
"""Weight of the latest task in what counts as typical."""

BundleKey = tuple[int, str]
"""Tasks of one segment and kind: alike in what they do and in what they ask for."""


def row_of(envelope: TaskSpec) -> BundleKey:
    """The row that a task belongs to."""
    return envelope.segment, envelope.kind


@dataclass
class Bundle:
    """Tasks that are one task for Dask."""

    key: str
    pool: str
    envelopes: dict[int, TaskSpec]
    """By task; those that are cancelled are taken out."""
    future: Any
    """Its result, for as long as somebody waits for it."""
    worker: str | None = None
    """Who has begun it."""
    since: float = 0.0

    def __post_init__(self) -> None:
        self.segment, self.kind = row_of(next(iter(self.envelopes.values())))

    def slim(self) -> None:
        """Keep no more of the tasks than who they are: they are through, and many may wait for their readers."""
        bare = {task: replace(one, pieces=(), products=(), parts=()) for task, one in self.envelopes.items()}
        self.envelopes = bare


class Bundling:
    """Knows how long tasks take, and makes bundles of the short ones. A bundle holds tasks of one row, in order."""

    def __init__(self) -> None:
        self._typical: dict[BundleKey, float] = {}
        self._longest: dict[BundleKey, float] = {}

    def finish(self, envelope: TaskSpec, seconds: float) -> None:
        """A task took so long."""
        known = self._typical.get(row_of(envelope), seconds)
        self._typical[row_of(envelope)] = known + _FORGETS * (seconds - known)
        self.take_longer(envelope, seconds)

    def take_longer(self, envelope: TaskSpec, seconds: float) -> None:
        """A task takes at least so long."""
        row = row_of(envelope)
        self._longest[row] = max(seconds, self._longest.get(row, 0.0))

    def expected(self, envelopes: Sequence[TaskSpec]) -> float:
        """Seconds that tasks of one row will hardly exceed together; 0 where nothing is known yet."""
        first = envelopes[0]
        if len(envelopes) > 1:
            return self._typical[row_of(first)] * len(envelopes)
        return self._longest.get(row_of(first), 0.0)

    def bundles(self, waiting: Sequence[TaskSpec], wanted: int) -> Iterator[tuple[TaskSpec, ...]]:
        """Share tasks out to about so many bundles, but none with more work than is enough.

        Tasks of unknown length go alone. So do those that failed before: one that kills its worker is found out.
        """
        rows: dict[BundleKey, list[TaskSpec]] = {}
        for envelope in waiting:
            if envelope.attempt > 1 or envelope.split > 1 or row_of(envelope) not in self._typical:
                yield (envelope,)
            else:
                rows.setdefault(row_of(envelope), []).append(envelope)
        work = sum(self._typical[row] * len(envelopes) for row, envelopes in rows.items())
        seconds = min(ENOUGH_SECONDS, work / max(1, wanted))
        for row, envelopes in rows.items():
            size = max(1, round(seconds / max(self._typical[row], 1e-6)))
            for start in range(0, len(envelopes), size):
                yield tuple(envelopes[start : start + size])
