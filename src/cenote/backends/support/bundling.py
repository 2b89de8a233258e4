"""Decide which tasks travel together: those so short that the cost of sending each would outweigh them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cenote.worker.task_spec import TaskSpec

ENOUGH_SECONDS = 0.05
"""Work in a bundle: many times what it takes to send a task, and still short for whoever waits for its end."""
_FORGETS = 0.1
"""Weight of the latest task in what counts as typical."""

BundleKey = tuple[int, str]
"""Tasks of one segment and kind: alike in what they do and in what they ask for."""


def key_of(spec: TaskSpec) -> BundleKey:
    """The row that a task belongs to."""
    return spec.segment, spec.kind


class Bundling:
    """Knows how long tasks take, and makes bundles of the short ones. A bundle holds tasks of one row, in order."""

    def __init__(self) -> None:
        self._typical: dict[BundleKey, float] = {}
        self._longest: dict[BundleKey, float] = {}

    def finish(self, spec: TaskSpec, seconds: float) -> None:
        """A task took so long."""
        known = self._typical.get(key_of(spec), seconds)
        self._typical[key_of(spec)] = known + _FORGETS * (seconds - known)
        self.take_longer(spec, seconds)

    def take_longer(self, spec: TaskSpec, seconds: float) -> None:
        """A task takes at least so long."""
        row = key_of(spec)
        self._longest[row] = max(seconds, self._longest.get(row, 0.0))

    def expected(self, specs: Sequence[TaskSpec]) -> float:
        """Seconds that tasks of one row will hardly exceed together; 0 where nothing is known yet."""
        first = specs[0]
        if len(specs) > 1:
            return self._typical[key_of(first)] * len(specs)
        return self._longest.get(key_of(first), 0.0)

    def size(self, spec: TaskSpec, waiting: int, wanted: int) -> int:
        """How many tasks go together with this one, itself counted, where so many of its row wait for about so many
        bundles.

        Tasks of unknown length go alone. So do those that failed before: one that kills its worker is found out.
        """
        row = key_of(spec)
        if spec.attempt > 1 or spec.split > 1 or row not in self._typical:
            return 1
        enough = round(ENOUGH_SECONDS / max(self._typical[row], 1e-6))
        return max(1, min(enough, waiting // max(1, wanted)))

    def bundles(self, waiting: Sequence[TaskSpec], wanted: int) -> Iterator[tuple[TaskSpec, ...]]:
        """Share tasks out to about so many bundles, but none with more work than is enough.

        Tasks of unknown length go alone. So do those that failed before: one that kills its worker is found out.
        """
        rows: dict[BundleKey, list[TaskSpec]] = {}
        for spec in waiting:
            if spec.attempt > 1 or spec.split > 1 or key_of(spec) not in self._typical:
                yield (spec,)
            else:
                rows.setdefault(key_of(spec), []).append(spec)
        work = sum(self._typical[row] * len(specs) for row, specs in rows.items())
        seconds = min(ENOUGH_SECONDS, work / max(1, wanted))
        for row, specs in rows.items():
            size = max(1, round(seconds / max(self._typical[row], 1e-6)))
            for start in range(0, len(specs), size):
                yield tuple(specs[start : start + size])
