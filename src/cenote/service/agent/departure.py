"""Know when an agent must go: before the walltime of its job is over, and in time to hand over what it has."""

from __future__ import annotations

import asyncio
import os
import time

from cenote.units import format_seconds
from cenote.worker.process.lifetime import Lifetime, lifetime_of_job


class Departure:
    """The time that is left to one agent."""

    nearly_over = "its walltime is nearly over"

    def __init__(self, lifetime: Lifetime, age: float = 0.0) -> None:
        self._lifetime = lifetime
        self._began = time.monotonic() - age
        self.reasons = {self.nearly_over}
        """Why it goes, in words, that were given."""

    @classmethod
    def of_job(cls, walltime: int | None) -> Departure | None:
        """Of the job that this process runs in; None where its time has no end."""
        lifetime, age = lifetime_of_job(walltime, os.environ, time.time())
        return None if lifetime is None else cls(lifetime, age)

    @property
    def leaves_in(self) -> float:
        """Seconds until nothing more is begun."""
        return self._lifetime.leaves - self._age()

    def why_not(self, timeout: float | None) -> str:
        """Why an instance that may take so long is not begun; empty where it is.

        One that would have too little time on every worker is begun: it may well end sooner than it may.
        """
        left = self._lifetime.gives_up - self._age()
        if timeout is None or timeout <= left or timeout > self._lifetime.leaves:
            return ""
        reason = f"an instance may take {format_seconds(timeout)}, and it has {format_seconds(max(0.0, left))} left"
        self.reasons.add(reason)
        return reason

    async def time_to_leave(self) -> None:
        """Wait until nothing more is begun."""
        await asyncio.sleep(max(0.0, self.leaves_in))

    async def time_to_give_up(self) -> None:
        """Wait until what still runs must be ended."""
        await asyncio.sleep(max(0.0, self._lifetime.gives_up - self._age()))

    def _age(self) -> float:
        return time.monotonic() - self._began
