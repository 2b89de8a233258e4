"""Keep the jobs of one pool: what was asked of its batch system, and what that last said of each.

Whatever asks the batch system is an errand: the driver goes on meanwhile, and hears the answer when it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from cenote.errors import CenoteError, Problem
from cenote.runtime.background_calls import BackgroundCalls
from cenote.strategies.interface import OVER, JobId, JobRequest, JobStatus, Strategy

ASK_AGAIN = 5.0
"""Seconds until workers are asked for again that the batch system could not be asked for."""
PATIENCE = 600.0
"""Seconds after which they count as refused."""
JobAnswer = TypeVar("JobAnswer")


@dataclass(frozen=True)
class Unasked:
    """Workers that the batch system could not be asked for yet."""

    requests: Sequence[JobRequest]
    since: float
    again: float


@dataclass(frozen=True)
class JobListener:
    """Whom a queue tells."""

    taken: Callable[[Sequence[JobRequest], Sequence[JobId]], None]
    delayed: Callable[[Problem], None]
    """Workers could not be asked for and will be asked for again; said once."""
    refused: Callable[[Sequence[JobRequest], Problem], None]
    found: Callable[[Mapping[JobId, JobStatus]], None]


class JobQueue:
    """The jobs of one pool."""

    def __init__(
        self, strategy: Strategy, *, errands: BackgroundCalls, clock: Callable[[], float], listener: JobListener
    ) -> None:
        self.strategy = strategy
        self._errands, self._clock, self._listener = errands, clock, listener
        self._open: set[JobId] = set()
        """Jobs that are not known to be over."""
        self._unasked: list[Unasked] = []
        self._in_doubt: set[str] = set()
        """Runs with requests that were not answered, and may have been taken later all the same."""
        self._looking = False
        self._looked = 0.0

    def submit(self, requests: Sequence[JobRequest], *, since: float | None = None) -> None:
        """Ask for workers."""
        self._send(partial(self.strategy.submit, requests), partial(self._submitted, requests, since))

    def cancel(self, jobs: Iterable[JobId]) -> None:
        """Stop jobs."""
        if wanted := list(jobs):
            self._send(partial(self.strategy.cancel, wanted), Future.result)

    def submit_again(self) -> None:
        """Ask for the workers that could not be asked for, if it is time for that."""
        now = self._clock()
        for unasked in [one for one in self._unasked if now >= one.again]:
            self._unasked.remove(unasked)
            self.submit(unasked.requests, since=unasked.since)

    def look(self, *, at_once: bool = False) -> None:
        """Ask how the jobs are, unless that was done a moment ago."""
        now = self._clock()
        due = at_once or now - self._looked >= self.strategy.seconds_between_polls
        if due and self._open and not self._looking:
            self._looking, self._looked = True, now
            self._send(partial(self.strategy.poll, sorted(self._open)), self._seen)

    def end(self) -> None:
        """Stop everything that is not known to be over. What was asked before must have been answered."""
        self.strategy.cancel(sorted(self._open | self._taken_unheard()))
        self._open.clear()

    def _taken_unheard(self) -> set[JobId]:
        with suppress(CenoteError):
            return {traced.job for run in self._in_doubt for traced in self.strategy.trace(run)}
        return set()

    @property
    def is_empty(self) -> bool:
        """Whether all jobs are known to be over."""
        return not self._open

    def _send(self, call: Callable[[], JobAnswer], then: Callable[[Future[JobAnswer]], Any]) -> None:
        self._errands.send(self.strategy, call, then)  # pools that are alike share it, and it keeps what it did

    def _submitted(self, requests: Sequence[JobRequest], since: float | None, answer: Future[list[JobId]]) -> None:
        try:
            jobs = answer.result()
        except CenoteError as problem:
            if problem.problems[0].kind.transient:
                self._in_doubt.add(requests[0].run)
            self._not_taken(requests, problem.problems[0], since)
            return
        self._open.update(jobs)
        self._listener.taken(requests, jobs)

    def _not_taken(self, requests: Sequence[JobRequest], problem: Problem, since: float | None) -> None:
        now = self._clock()
        if not problem.kind.transient or (since is not None and now - since >= PATIENCE):
            self._listener.refused(requests, problem)
            return
        self._unasked.append(Unasked(requests, since or now, now + ASK_AGAIN))
        if since is None:
            self._listener.delayed(problem)

    def _seen(self, answer: Future[dict[JobId, JobStatus]]) -> None:
        """Jobs that are over are not asked for again, and do not linger."""
        self._looking = False
        found = answer.result()
        over = {job for job, status in found.items() if status.state in OVER}
        self._open -= over
        self.cancel(sorted(job for job in over if found[job].lingers))
        self._listener.found(found)
