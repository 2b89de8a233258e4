"""This file keeps the workers of one pool: planned, requested, observed, leaving; and what befell them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cenote.engine.messages import JobChanged, WorkerLost
from cenote.engine.pool_status import PoolState, WorkerCounts
from cenote.engine.scaling import Limits, Past
from cenote.placement.pools import PlacedPool

_LONGEST_PAUSE = 30.0
"""Seconds between two attempts to replace workers that keep going."""


@dataclass
class Crew:
    """One pool's workers. Each is counted once: planned, then requested, then observed, perhaps leaving."""

    pool: PlacedPool
    planned: int = 0
    """Asked for by StartWorkers, and not heard of yet."""
    requested: dict[str, None] = field(default_factory=dict)
    """Workers that have a name and have not joined, in order."""
    dispatched: set[str] = field(default_factory=set)
    """Of those, the ones that have a machine."""
    observed: set[str] = field(default_factory=set)
    """Workers that have joined."""
    leaving: set[str] = field(default_factory=set)
    """Workers that were told to stop and are not gone."""
    losses: int = 0
    """Workers lost since a task was last done here."""
    last_loss: str = ""
    refused: str | None = None
    """Why the batch system took none of its workers, when it said so at once."""
    last_word: str = ""
    """The latest reason that was given for a worker that has not come."""
    pause_until: float = 0.0
    """No worker is asked for before this time."""
    wanting_since: float | None = None
    """Since when work has waited for a first worker."""
    past: Past = field(default_factory=Past)
    closed: bool = False
    failed: str | None = None
    noted: PoolState | None = None
    """The state that was last written down."""

    @property
    def size(self) -> int:
        """Workers that there are or will be."""
        return self.planned + len(self.requested) + len(self.observed)

    @property
    def limits(self) -> Limits:
        """What the author allows."""
        return Limits(self.pool.slots, self.pool.workers or 0, self.pool.elastic)

    @property
    def counts(self) -> WorkerCounts:
        """Each worker once, by how far it is."""
        return WorkerCounts(
            queued=self.planned + len(self.requested) - len(self.dispatched),
            dispatched=len(self.dispatched),
            joined=len(self.observed),
            leaving=len(self.leaving),
        )

    @property
    def loss_limit(self) -> int:
        """How many workers may be lost in a row, without a task done, before the pool is given up."""
        return 3 * self.pool.most_workers + 3

    def request(self, worker: str) -> None:
        """A planned worker got a name."""
        if not self._knows(worker):
            self.planned = max(0, self.planned - 1)
            self.requested[worker] = None

    def change_job(self, event: JobChanged) -> None:
        """The batch system has news of a worker that has not joined."""
        if event.worker in self.requested and event.state == "running":
            self.dispatched.add(event.worker)
        elif event.worker in self.requested:
            self.dispatched.discard(event.worker)
        if event.state in ("pending", "failed", "unknown"):
            self.last_word = event.reason or event.native or self.last_word

    def join(self, worker: str) -> bool:
        """A worker came; False when it was told to leave meanwhile, and so does not count."""
        if worker in self.leaving:
            return False
        self.request(worker)
        self._forget_request(worker)
        self.observed.add(worker)
        self.wanting_since = None
        return True

    def lose(self, event: WorkerLost) -> None:
        """A worker is gone; one that was told to leave is no loss."""
        if event.worker in self.leaving:
            self.leaving.discard(event.worker)
            return
        if event.worker not in self.observed and event.worker not in self.requested:
            if event.cause != "refused" or not self.planned:
                return
            self.planned -= 1
            if not self.observed and not self.requested:
                self.refused = event.reason
        self.observed.discard(event.worker)
        self._forget_request(event.worker)
        self.losses += 1
        self.last_loss = self.last_word = event.reason
        beyond = self.losses - self.pool.most_workers
        if beyond > 0:
            self.pause_until = event.at + min(0.5 * 2.0**beyond, _LONGEST_PAUSE)

    def send_away(self, workers: Iterable[str]) -> None:
        """These were told to stop: from now on they count as leaving."""
        for worker in workers:
            self._forget_request(worker)
            self.observed.discard(worker)
            self.leaving.add(worker)

    def _forget_request(self, worker: str) -> None:
        self.requested.pop(worker, None)
        self.dispatched.discard(worker)

    def _knows(self, worker: str) -> bool:
        return worker in self.requested or worker in self.observed or worker in self.leaving
