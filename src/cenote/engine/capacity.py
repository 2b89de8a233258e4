"""Keep which workers have joined which pool, and how much more work each pool may be sent."""

from __future__ import annotations

import math
from dataclasses import dataclass

_MOST_AHEAD = 100
"""Tasks per slot at the most, however short they are."""
_MOST_LATE = 1
"""Tasks per slot, at the most, that are sent earlier for their inputs' sake: these lie in the worker's memory."""
_FORGETS = 0.1
"""Weight of the latest task in what counts as typical."""


@dataclass
class _Held:
    """A worker that does not answer, and the tasks that it has."""

    slots: int
    tasks: int

    @property
    def counted(self) -> int:
        """Those that do not count against the window. The next one may be told of before the end of the last."""
        return min(self.tasks, self.slots)


class PoolCapacity:
    """One pool: the slots of its workers, and the tasks sent to it that have not come back."""

    def __init__(self, name: str, window_per_slot: float, ahead_seconds: float = 0.0) -> None:
        self.name = name
        self.slots = 0
        self.window = 0
        """The most tasks to have out at once."""
        self.sent = 0
        self._held: dict[str, _Held] = {}
        """Workers that do not answer."""
        self._window_per_slot = window_per_slot
        self._ahead_seconds = ahead_seconds
        self._typical = math.inf
        self._fetching = 0.0
        """Seconds that it typically takes to fetch the inputs of a task."""
        self._workers: dict[str, int] = {}

    @property
    def workers(self) -> int:
        """How many workers are there now."""
        return len(self._workers)

    @property
    def has_idle_slot(self) -> bool:
        """Whether a task sent now would start at once."""
        return self._active < min(self.slots, self.window)

    @property
    def has_capacity(self) -> bool:
        """Whether a task may be sent now."""
        return self._active < self.window

    @property
    def _active(self) -> int:
        return self.sent - sum(held.counted for held in self._held.values()) if self._held else self.sent

    def join(self, worker: str, slots: int) -> None:
        """A worker is there; one that joins twice counts once."""
        self._held.pop(worker, None)
        self._measure(slots - self._workers.get(worker, 0))
        self._workers[worker] = slots

    def leave(self, *workers: str) -> None:
        """Workers are gone, or to be sent nothing more; one that was never there is not an error."""
        for worker in workers:
            self._held.pop(worker, None)
            self._measure(-self._workers.pop(worker, 0))

    def hold(self, worker: str, tasks: int) -> None:
        """A worker does not answer, and has so many tasks: it is sent nothing more until it joins again."""
        slots = self._held[worker].slots if worker in self._held else self._workers.get(worker, 0)
        self.leave(worker)
        self._held[worker] = _Held(slots, tasks)

    def count_held(self, worker: str, more: int) -> None:
        """A worker has so many tasks more, or less if it is below zero; of interest where it does not answer."""
        if worker in self._held:
            self._held[worker].tasks += more

    def _measure(self, more: int) -> None:
        self.slots += more
        enough = self._ahead_seconds / max(self._typical, self._ahead_seconds / _MOST_AHEAD, 1e-9)
        late = min(_MOST_LATE, max(0.0, self._fetching / max(self._typical, 1e-9) - 1))
        self.window = math.ceil(self.slots * max(self._window_per_slot + late, enough))

    def finish(self, seconds: float, fetching: float = 0.0) -> None:
        """A task took so long, and its inputs so long to get there: the shorter tasks are, the more are sent ahead."""
        if self._ahead_seconds:
            known = self._typical if math.isfinite(self._typical) else seconds
            self._typical = known + _FORGETS * (seconds - known)
            self._fetching += _FORGETS * (fetching - self._fetching)
            self._measure(0)


class Pools(dict[str, PoolCapacity]):
    """Every pool of the run by its name; one that no event has named yet has no workers."""

    def __init__(self, window_per_slot: float, ahead_seconds: float = 0.0) -> None:
        super().__init__()
        self._window = (window_per_slot, ahead_seconds)

    def __missing__(self, name: str) -> PoolCapacity:
        self[name] = PoolCapacity(name, *self._window)
        return self[name]
