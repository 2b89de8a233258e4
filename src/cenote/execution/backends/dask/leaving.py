"""Know which workers on Dask leave and which do not answer: walltimes, requests to drain, heartbeats.

Dask's own `lifetime` closes a worker in the middle of its tasks; this one looks first whether they will be through.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from distributed import Status, Worker

from cenote.common.units import format_seconds
from cenote.execution.backends.dask import private
from cenote.execution.backends.dask.messages import AnswersAgain, StopsAnswering
from cenote.execution.backends.support.outcomes import VitalSigns
from cenote.execution.worker.process.lifetime import Lifetime

_LOOK_EVERY = 0.2
_TRY_AGAIN = 1.0
"""Seconds until somebody is looked for again who could take the data."""
_WITHOUT_OTHERS = 3.0
"""Seconds that one waits for somebody who could take the data, if it is not its walltime that ends."""
_TO_STAY = {"close_workers": False, "remove": False}
_LOG = logging.getLogger("cenote.worker")


class Drain:
    """Knows how much time a worker has left, and whether that is enough for a task."""

    def __init__(self, lifetime: Lifetime | None, age: float = 0.0) -> None:
        self._leaves: float = lifetime.leaves if lifetime else math.inf
        """The age at which it begins nothing more."""
        self._gives_up: float = lifetime.gives_up if lifetime else math.inf
        """At which it waits no longer for what runs."""
        self._ends: float = lifetime.seconds if lifetime else math.inf
        """At which it is gone."""
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
            if self._finished and self._age() + expected > self._gives_up:
                left = format_seconds(self._gives_up - self._age())
                self._leave(f"a task takes about {format_seconds(expected)}, and it has {left} left of its walltime")
            if self._reason is None:
                self._running += 1
            return self._reason is None

    def ends(self) -> None:
        """A task that was begun is through."""
        with self._lock:
            self._running -= 1
            self._finished += 1

    def end_within(self, seconds: float, reason: str) -> None:
        """Leave now: this process is ended in so many seconds. What runs has two thirds of them, the data the rest."""
        with self._lock:
            self._gives_up = min(self._gives_up, self._age() + seconds * 2 / 3)
            self._ends = min(self._ends, self._gives_up + _WITHOUT_OTHERS)
            self._leave(reason)

    async def attend(self, worker: Worker) -> None:
        """Stay with a worker until it leaves: at the latest when its time comes, earlier when a task asked too much, or
        when it is asked to."""
        while self._reason is None and worker.status is not Status.closed:
            if self._age() >= self._leaves:
                with self._lock:
                    self._leave("its walltime is nearly over")
            await asyncio.sleep(_LOOK_EVERY)
        private.stay_paused(worker)  # for good
        while self._running and self._age() < self._gives_up:
            await asyncio.sleep(_LOOK_EVERY)
        if worker.status is not Status.closed:
            await self._depart(worker)

    async def _depart(self, worker: Worker) -> None:
        """Move the data to whoever is there, and go. Where nobody is, somebody may come in time."""
        _LOG.info("hands over its data and leaves with %d tasks still running", self._running)
        until = min(self._ends, self._age() + _WITHOUT_OTHERS) if math.isinf(self._leaves) else self._ends
        while self._age() < until:
            if await private.ask_scheduler(worker, "retire_workers", workers=[worker.address], **_TO_STAY):
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


# Decide which workers on Dask do not answer: by their heartbeats, and by how their processes are.


LOOK_EVERY = 1.0
_QUIET = 10.0
"""Seconds without a heartbeat after which a worker counts as silent: they come every half second, or every few on a
machine with more to do than it can."""
_MISSED = 10
"""Heartbeats that are missing by then at the least: where there are many workers, they come less often."""
_STANDSTILL = 2.0
"""If this process itself did not look for so long, it could not hear anybody."""


class Heartbeats:
    """Remembers when each worker was last known to live."""

    def __init__(self, patience: float) -> None:
        self._quiet = min(_QUIET, patience / 2)
        self._looked: float | None = None
        self._excused: dict[str, float] = {}
        """Workers → until when their silence does not count: they computed, or we did not listen."""
        self._computed: dict[str, int] = {}
        self._silent: set[str] = set()

    def look(
        self, now: float, heard: Mapping[str, float], signs: Callable[[str], VitalSigns | None], *, every: float
    ) -> Iterator[StopsAnswering | AnswersAgain]:
        """What has changed; `heard` is when each worker was last heard of, `every` how often that should be.

        A worker of this machine that computes is not silent: user code may hold Python's lock for minutes.
        """
        if self._looked is None or now - self._looked > LOOK_EVERY + _STANDSTILL:
            self._excused = dict.fromkeys(heard, now)
        self._looked = now
        self._silent &= heard.keys()
        limit = max(self._quiet, _MISSED * every) if self._quiet == _QUIET else self._quiet
        for worker, last in heard.items():
            silence = now - max(last, self._excused.get(worker, last))
            if silence > limit / 2 and self._computes(worker, signs):
                self._excused[worker], silence = now, 0.0
            if silence > limit and worker not in self._silent:
                self._silent.add(worker)
                yield StopsAnswering(worker, silence)
            elif silence <= limit and worker in self._silent:
                self._silent.discard(worker)
                yield AnswersAgain(worker)

    def _computes(self, worker: str, signs: Callable[[str], VitalSigns | None]) -> bool:
        """Whether it has had a core since it was last looked at."""
        found = signs(worker)
        if found is None or found.stopped:
            return False
        before = self._computed.get(worker, -1)  # looked at for the first time, it has the benefit of the doubt
        self._computed[worker] = found.computed
        return found.computed > before
