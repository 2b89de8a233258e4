"""Let a worker leave before its walltime is over: nothing new is begun, what runs ends, data is handed over.

Dask's own `lifetime` closes a worker in the middle of its tasks; this one looks first whether they will be through.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable

from distributed import Status, Worker

from cenote.units import format_seconds
from cenote.worker.process.lifetime import Lifetime

_LOOK_EVERY = 0.2
_TRY_AGAIN = 1.0
"""Seconds until somebody is looked for again who could take the data."""
_LOG = logging.getLogger("cenote.worker")


class Drain:
    """Knows how much time a worker has left, and whether that is enough for a task."""

    def __init__(self, lifetime: Lifetime | None, age: float = 0.0) -> None:
        self._lifetime = lifetime
        self._began = time.monotonic() - age
        self._lock = threading.Lock()
        self._running = 0
        self._finished = 0
        self._say: Callable[[str], None] = _LOG.info
        self._reason: str | None = None
        """Why nothing is begun any more."""

    def tell(self, say: Callable[[str], None]) -> None:
        """From now on, this is told why the worker leaves."""
        self._say = say

    def begins(self, expected: float) -> bool:
        """Whether to begin a task that takes about so many seconds. If there is no time for it, the worker leaves.

        One that has not finished any task yet begins whatever comes: no other worker would have more time.
        """
        with self._lock:
            if self._finished and self._lifetime and self._age() + expected > self._lifetime.gives_up:
                left = format_seconds(self._lifetime.gives_up - self._age())
                self._leave(f"a task takes about {format_seconds(expected)}, and it has {left} left of its walltime")
            if self._reason is None:
                self._running += 1
            return self._reason is None

    def ends(self) -> None:
        """A task that was begun is through."""
        with self._lock:
            self._running -= 1
            self._finished += 1

    async def attend(self, worker: Worker) -> None:
        """Stay with a worker until it leaves: at the latest when its time comes, earlier when a task asked too much."""
        if self._lifetime is None:
            return
        while self._reason is None and worker.status is not Status.closed:
            if self._age() >= self._lifetime.leaves:
                with self._lock:
                    self._leave("its walltime is nearly over")
            await asyncio.sleep(_LOOK_EVERY)
        worker.memory_manager.memory_pause_fraction = False  # it is paused for good: Dask must not wake it up
        while self._running and self._age() < self._lifetime.gives_up:
            await asyncio.sleep(_LOOK_EVERY)
        if worker.status is not Status.closed:
            await self._depart(worker, self._lifetime)

    async def _depart(self, worker: Worker, lifetime: Lifetime) -> None:
        """Move the data to whoever is there, and go. Where nobody is, somebody may come in time."""
        _LOG.info("hands over its data and leaves with %d tasks still running", self._running)
        while self._age() < lifetime.seconds:
            if await worker.scheduler.retire_workers(workers=[worker.address], close_workers=False, remove=False):
                break
            await asyncio.sleep(_TRY_AGAIN)
        await worker.close(reason=self._reason or "its walltime is nearly over")

    def _leave(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
            _LOG.info("takes no more tasks: %s", reason)
            self._say(reason)

    def _age(self) -> float:
        return time.monotonic() - self._began
