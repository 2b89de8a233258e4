"""Keep the workers of one pool: planned, requested, observed, leaving; and how they were lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cenote.engine.messages import JobChanged, JobState, WorkerJoined, WorkerLost, WorkerRequested, WorkerSilent
from cenote.engine.scaling import Past, PoolState, WorkerCounts
from cenote.planning.placement.pools import PlacedPool

_UNFIT_LIMIT = 3
"""So many workers that are turned away for their software, with none that ever joined, mean that none will."""
_LONGEST_PAUSE = 30.0
"""Seconds between two attempts to replace workers that keep going."""
_FIRST_WAY_PAUSE, _LONGEST_WAY_PAUSE = 10.0, 60.0
"""Seconds after workers that did not reach the driver: twice as long each time."""
_WAY_TRIES, _WAY_TRIES_AGAIN = 3, 5
"""So often, at the least, workers look for a way to the driver until none is expected; and where there was one before,
which a cut of some minutes takes away."""
_AHEAD = 1.5
"""A worker that will leave is replaced ahead of time: so many times what the slowest one took to come lately."""
_LEAST_AHEAD = 2.0
"""Seconds, however quickly workers come: one leaves as soon as its next task would not fit."""
_FORGETS = 0.2
"""How fast a slow arrival is forgotten, once workers come faster."""


@dataclass(frozen=True)
class CutOff:
    """Workers start, and do not reach the driver."""

    since: float
    tries: int


@dataclass
class PoolWorkers:
    """One pool's workers. Each is counted once: planned, then requested, then observed, perhaps leaving."""

    pool: PlacedPool
    loss_limit: int
    """How many workers may be lost in a row, without a task done, before the pool is given up."""
    planned: int = 0
    """Asked for by StartWorkers, and not heard of yet."""
    requested: dict[str, float] = field(default_factory=dict)
    """Workers that have a name and have not joined, in order → when they were asked for."""
    dispatched: set[str] = field(default_factory=set)
    """Of those, the ones that have a machine."""
    observed: set[str] = field(default_factory=set)
    """Workers that have joined."""
    stays: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Of those, the ones whose time is limited → when they came, and when they will leave."""
    slow_arrival: float = 0.0
    """Seconds from asking for a worker until it came, of the slower ones lately."""
    leaving: set[str] = field(default_factory=set)
    """Workers that were asked to stop, or that announced it, and are not gone."""
    silent: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Workers that do not answer → since when, and the seconds after which they are ended."""
    ever_joined: bool = False
    """Whether any worker ever came."""
    losses: int = 0
    """Workers lost since a task was last done here."""
    unfit: int = 0
    """Workers that were turned away for their software before any ever joined."""
    cut_off: CutOff | None = None
    """Since workers last tried to reach the driver and none did."""
    last_loss: str = ""
    last_lines: str = ""
    """What the worker that was lost last wrote."""
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
    """The state that was last recorded."""

    @property
    def size(self) -> int:
        """Workers that there are or will be."""
        return self.planned + len(self.requested) + len(self.observed)

    @property
    def may_have_workers(self) -> bool:
        """Whether it has a worker or may still get one."""
        return self.failed is None and bool(self.observed or self.pool.most_workers)

    @property
    def is_unfit(self) -> bool:
        """Whether all that came were turned away for their software, and there is no reason to expect better."""
        return not self.ever_joined and self.unfit >= max(1, min(_UNFIT_LIMIT, self.pool.most_workers))

    def is_cut_off(self, now: float, patience: float) -> bool:
        """Whether there is no way from its nodes to the driver, and no reason to expect one: for so many seconds."""
        tries = _WAY_TRIES_AGAIN if self.ever_joined else _WAY_TRIES
        return self.cut_off is not None and self.cut_off.tries >= tries and now - self.cut_off.since >= patience

    @property
    def counts(self) -> WorkerCounts:
        """Each worker once, by how far it is."""
        return WorkerCounts(
            queued=self.planned + len(self.requested) - len(self.dispatched),
            dispatched=len(self.dispatched),
            joined=len(self.observed),
            leaving=len(self.leaving),
        )

    def expiring(self, now: float) -> int:
        """Workers that will have left before one that is asked for now could come: they have to be replaced."""
        ahead = max(_LEAST_AHEAD, _AHEAD * self.slow_arrival)
        return sum(now >= leaves - min(ahead, (leaves - came) / 2) for came, leaves in self.stays.values())

    def request(self, event: WorkerRequested | WorkerJoined) -> None:
        """A planned worker got a name."""
        if not self._knows(event.worker):
            self.planned = max(0, self.planned - 1)
            self.requested[event.worker] = event.at

    def change_job(self, event: JobChanged) -> None:
        """The batch system has news of a worker that has not joined."""
        if event.worker in self.requested and event.state is JobState.RUNNING:
            self.dispatched.add(event.worker)
        elif event.worker in self.requested:
            self.dispatched.discard(event.worker)
        if event.state in (JobState.PENDING, JobState.FAILED, JobState.UNKNOWN):
            self.last_word = event.reason or event.native or self.last_word

    def join(self, event: WorkerJoined) -> bool:
        """A worker came; False when it was asked to leave meanwhile, and so does not count."""
        worker = event.worker
        if worker in self.leaving:
            return False
        self.request(event)
        if worker in self.requested:
            took = event.at - self.requested[worker]
            self.slow_arrival = max(took, self.slow_arrival + _FORGETS * (took - self.slow_arrival))
        self._forget_request(worker)
        self.observed.add(worker)
        if event.leaves is not None:
            self.stays[worker] = (event.at, event.leaves)
        self.wanting_since = self.cut_off = None
        self.ever_joined = True
        return True

    def lose(self, event: WorkerLost, *, blameless: bool = False) -> None:
        """A worker is gone; one that was asked to leave is no loss. The pool is `blameless` when the only task that the
        worker had is the reason: that task is counted, and the next worker is welcome at once."""
        self.silent.pop(event.worker, None)
        if event.worker in self.leaving:
            self.leaving.discard(event.worker)
            return
        if event.worker not in self.observed and event.worker not in self.requested:
            if event.cause != "refused" or not self.planned:
                return
            self.planned -= 1
            if not self.observed and not self.requested:
                self.refused = event.reason
        self._take_off(event.worker)
        if event.cause == "walltime":
            return  # its time was over, and that was known from the start
        self.last_loss = self.last_word = event.reason
        self.last_lines = event.log
        if event.cause == "unreachable":
            self._wait_for_a_way(event.at)
            return
        if blameless:
            return
        self.losses += 1
        self.unfit += event.cause == "unfit" and not self.ever_joined
        beyond = self.losses - self.pool.most_workers
        if beyond > 0:
            self.pause_until = event.at + min(0.5 * 2.0**beyond, _LONGEST_PAUSE)

    def _wait_for_a_way(self, now: float) -> None:
        """The next worker is asked for later, and those that went together are one try."""
        tried = self.cut_off or CutOff(since=now, tries=0)
        if now >= self.pause_until:
            pause = min(_FIRST_WAY_PAUSE * 2.0**tried.tries, _LONGEST_WAY_PAUSE)
            tried, self.pause_until = CutOff(tried.since, tried.tries + 1), now + pause
        self.cut_off = tried

    def fall_silent(self, event: WorkerSilent) -> bool:
        """A worker does not answer: whether it is one of ours."""
        if event.worker not in self.observed and event.worker not in self.leaving:
            return False
        self.silent[event.worker] = (event.at - event.seconds, event.patience)
        return True

    def answer(self, worker: str) -> bool:
        """A worker answers: whether it was silent, and may work again."""
        return self.silent.pop(worker, None) is not None and worker in self.observed

    def end_silent(self, now: float) -> list[tuple[str, float]]:
        """Workers that have been silent for too long, and for how long; each comes once."""
        silences = [(worker, now - since, patience) for worker, (since, patience) in self.silent.items()]
        overdue = [(worker, seconds) for worker, seconds, patience in silences if seconds >= patience]
        for worker, _ in overdue:
            del self.silent[worker]
        return overdue

    def leave(self, worker: str) -> None:
        """A worker says that it will go; one that is gone already is not an error."""
        if worker in self.observed or worker in self.requested:
            self.send_away([worker])

    def send_away(self, workers: Iterable[str]) -> None:
        """These will go: from now on they count as leaving."""
        for worker in workers:
            self._take_off(worker)
            self.leaving.add(worker)

    def _take_off(self, worker: str) -> None:
        self._forget_request(worker)
        self.observed.discard(worker)
        self.stays.pop(worker, None)

    def _forget_request(self, worker: str) -> None:
        self.requested.pop(worker, None)
        self.dispatched.discard(worker)

    def _knows(self, worker: str) -> bool:
        return worker in self.requested or worker in self.observed or worker in self.leaving
