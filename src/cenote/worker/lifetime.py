"""This file divides the time that a batch system gives to a worker: for tasks, for ending them, for handing over."""

from __future__ import annotations

from dataclasses import dataclass

_SHORTEST_FAREWELL, _LONGEST_FAREWELL = 30, 300
"""Seconds between the last task that a worker begins and the end of its time."""


@dataclass(frozen=True)
class Lifetime:
    """How long a worker may live, in seconds from its start."""

    seconds: int
    """When the batch system ends it."""

    @property
    def leaves(self) -> int:
        """When it begins nothing new, at the latest: a tenth of its time is left, though never more than half."""
        farewell = min(_LONGEST_FAREWELL, max(_SHORTEST_FAREWELL, self.seconds // 10))
        return max(self.seconds - farewell, self.seconds // 2)

    @property
    def gives_up(self) -> int:
        """When it stops waiting for tasks that still run: the rest is for moving its data to others."""
        return self.seconds - (self.seconds - self.leaves) // 3
