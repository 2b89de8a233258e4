"""Keep the jobs of one pool, and call its batch system beside the driver's own work.

Every question to the batch system is a background call: the driver works meanwhile, and takes the answer when it comes.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from cenote.common.errors import CenoteError, Problem
from cenote.common.values import dataclass
from cenote.execution.launch import Launch
from cenote.execution.strategies.interface import OVER, JobId, JobStatus, Strategy

# Make calls to batch systems beside the driver's own work, so that a slow answer stops nothing.


def _one_thread() -> Executor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="background-call")


class BackgroundCalls:
    """Calls to others: those to the same one are made one after the other, in the order in which they were sent.

    What follows from an answer is done in the thread that calls `hear`.
    """

    def __init__(self, make_executor: Callable[[], Executor] = _one_thread) -> None:
        self._make_executor = make_executor
        self._executors: dict[int, tuple[object, Executor]] = {}
        """Who is called, by identity, and what makes the calls."""
        self._back: queue.SimpleQueue[tuple[Future[Any], Callable[[Future[Any]], Any]]] = queue.SimpleQueue()
        self._under_way: set[Future[Any]] = set()

    def send(self, to: object, call: Callable[[], Any], then: Callable[[Future[Any]], Any]) -> None:
        """Make this call, and `then` what follows from it: its result, or what it raised."""
        if id(to) not in self._executors:
            self._executors[id(to)] = (to, self._make_executor())
        future = self._executors[id(to)][1].submit(call)
        self._under_way.add(future)
        future.add_done_callback(lambda done: self._back.put((done, then)))

    def hear(self) -> None:
        """Do what follows from the answers that are there."""
        while not self._back.empty():
            self._hear_one()

    def finish(self) -> None:
        """Wait for all that was sent, and do what follows from it. Nothing can be sent afterwards.

        All of it is done, though something may raise; what was raised first is raised in the end.
        """
        problems: list[Exception] = []
        while self._under_way:
            try:
                self._hear_one()
            except Exception as problem:  # whatever it is, the others must be heard too
                problems.append(problem)
        for _, executor in self._executors.values():
            executor.shutdown()
        if problems:
            raise problems[0]

    def _hear_one(self) -> None:
        future, then = self._back.get()
        self._under_way.discard(future)
        then(future)


ASK_AGAIN = 5.0
"""Seconds until workers are asked for again that the batch system could not be asked for."""
PATIENCE = 600.0
"""Seconds after which they count as refused."""
JobAnswer = TypeVar("JobAnswer")


@dataclass(frozen=True)
class Unasked:
    """Workers that the batch system could not be asked for yet."""

    workers: Sequence[str]
    since: float
    again: float


class JobListener(Protocol):
    """What takes the news of the jobs of a pool."""

    def jobs_taken(self, pool: str, workers: Sequence[str], jobs: Sequence[JobId]) -> None: ...
    def jobs_delayed(self, pool: str, problem: Problem) -> None:
        """Workers could not be asked for and will be asked for again; said once."""

    def jobs_refused(self, pool: str, workers: Sequence[str], problem: Problem) -> None: ...
    def jobs_polled(self, pool: str, found: Mapping[JobId, JobStatus]) -> None: ...


class JobQueue:
    """The jobs of one pool."""

    def __init__(
        self,
        strategy: Strategy,
        launch: Launch,
        *,
        calls: BackgroundCalls,
        clock: Callable[[], float],
        listener: JobListener,
    ) -> None:
        self.strategy, self.launch = strategy, launch
        self._calls, self._clock, self._listener = calls, clock, listener
        self._open: set[JobId] = set()
        """Jobs that are not known to be over."""
        self._unasked: list[Unasked] = []
        self._in_doubt = False
        """Whether a submission was not answered, and may have been taken later."""
        self._polling = False
        self._polled = 0.0

    def submit(self, workers: Sequence[str], *, since: float | None = None) -> None:
        """Ask for workers."""
        self._send(partial(self.strategy.submit, self.launch, workers), partial(self._submitted, workers, since))

    def adopt(self, jobs: Iterable[JobId]) -> None:
        """Keep these jobs too, which were asked for by another process."""
        self._open.update(jobs)

    def cancel(self, jobs: Iterable[JobId]) -> None:
        """Stop jobs."""
        if wanted := list(jobs):
            self._send(partial(self.strategy.cancel, wanted), Future.result)

    def workers_left(self, jobs: Iterable[JobId] | None = None) -> None:
        """Workers of these jobs have left the run; None for all of them."""
        if gone := sorted(self._open if jobs is None else self._open.intersection(jobs)):
            self._send(partial(self.strategy.workers_left, gone), Future.result)

    def submit_again(self) -> None:
        """Ask for the workers that could not be asked for, if it is time for that."""
        now = self._clock()
        for unasked in [one for one in self._unasked if now >= one.again]:
            self._unasked.remove(unasked)
            self.submit(unasked.workers, since=unasked.since)

    def poll(self, *, at_once: bool = False) -> None:
        """Ask how the jobs are, unless that was done a moment ago."""
        now = self._clock()
        due = at_once or now - self._polled >= self.strategy.seconds_between_polls
        if due and self._open and not self._polling:
            self._polling, self._polled = True, now
            self._send(partial(self.strategy.poll, sorted(self._open)), self._seen)

    def end(self) -> None:
        """Stop everything that is not known to be over. What was asked before must have been answered."""
        self.strategy.cancel(sorted(self._open | self._taken_unanswered()))
        self._open.clear()

    def _taken_unanswered(self) -> set[JobId]:
        with suppress(CenoteError):
            return {traced.job for traced in self.strategy.trace(self.launch.run.id)} if self._in_doubt else set()
        return set()

    @property
    def is_empty(self) -> bool:
        """Whether all jobs are known to be over."""
        return not self._open

    def _send(self, call: Callable[[], JobAnswer], then: Callable[[Future[JobAnswer]], Any]) -> None:
        self._calls.send(self.strategy, call, then)  # pools that are alike share it, and it keeps what it did

    def _submitted(self, workers: Sequence[str], since: float | None, answer: Future[list[JobId]]) -> None:
        try:
            jobs = answer.result()
        except CenoteError as problem:
            self._in_doubt |= problem.problems[0].kind.transient
            self._not_taken(workers, problem.problems[0], since)
            return
        self._open.update(jobs)
        self._listener.jobs_taken(self.launch.pool, workers, jobs)

    def _not_taken(self, workers: Sequence[str], problem: Problem, since: float | None) -> None:
        now = self._clock()
        if not problem.kind.transient or (since is not None and now - since >= PATIENCE):
            self._listener.jobs_refused(self.launch.pool, workers, problem)
            return
        self._unasked.append(Unasked(workers, since or now, now + ASK_AGAIN))
        if since is None:
            self._listener.jobs_delayed(self.launch.pool, problem)

    def _seen(self, answer: Future[dict[JobId, JobStatus]]) -> None:
        """Jobs that are over are not asked for again; those held are cancelled."""
        self._polling = False
        found = answer.result()
        over = {job for job, status in found.items() if status.state in OVER}
        self._open -= over
        self.cancel(sorted(job for job in over if found[job].needs_cancel))
        self._listener.jobs_polled(self.launch.pool, found)
