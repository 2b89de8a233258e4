"""Start workers as jobs: a launch says how, a strategy does it, and what becomes of the jobs is reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import msgspec

from cenote.common.errors import Problem
from cenote.common.text import with_last_lines, worker_name
from cenote.common.units import format_seconds
from cenote.engine.messages import (
    AnyEvent,
    JobChanged,
    JobState,
    LossCause,
    TaskFailed,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
)
from cenote.execution.backends.interface import EventSource, JoinedWorkers, Workers
from cenote.execution.launch import Launch
from cenote.execution.runtime.job_queue import BackgroundCalls, JobQueue
from cenote.execution.strategies.interface import OVER, JobId, JobStatus, Strategy, TracedJob
from cenote.execution.worker.process.user_output import last_lines

# Keep the news that a worker is gone until the batch system has said why, or has taken too long.


_PATIENCE = 4.0
"""Seconds that a batch system has to notice that a job is over."""
_AGAIN = 0.5
"""Seconds between two questions about it."""


class PendingLosses:
    """Workers that are gone, and their tasks, in the order in which it was heard."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: list[WorkerLost | TaskFailed] = []
        self._since: dict[str, float] = {}
        self._asked = 0.0

    def keep(self, event: WorkerLost, *, to_end: float) -> bool:
        """Keep the news for now; False when it has been kept for long enough.

        `to_end` is how many seconds a job needs to bring its output home, which tells more than its absence.
        """
        now = self._clock()
        if now - self._since.setdefault(event.worker, now) >= _PATIENCE + to_end:
            return False
        self._kept.append(event)
        self._asked = now
        return True

    def follows(self, event: TaskFailed) -> bool:
        """Keep the news of a task whose worker's is kept."""
        kept = any(isinstance(one, WorkerLost) and one.worker == event.worker for one in self._kept)
        if kept:
            self._kept.append(event)
        return kept

    def again(self) -> list[WorkerLost | TaskFailed]:
        """What is to be looked at once more, if it is time for that."""
        if self._clock() - self._asked < _AGAIN:
            return []
        kept, self._kept = self._kept, []
        return kept


_POLL_EVERY = 0.2


@dataclass
class _Job:
    """One worker that was asked for."""

    id: JobId
    worker: str
    launch: Launch
    status: JobStatus = JobStatus(JobState.PENDING)  # noqa: RUF009 (frozen)
    running: float | None = None
    """When it was first seen to run."""
    joined: bool = False
    stopping: bool = False
    ended: str = ""
    """Why it was ended, when it did not answer."""

    @property
    def pool(self) -> str:
        """Its pool."""
        return self.launch.pool

    @property
    def last_lines(self) -> str:
        """What it wrote to stderr, where crashes leave their traces; else what it logged."""
        return last_lines(*(self.launch.run.folder(stream) / self.worker for stream in ("err", "logs")))


class WorkerJobs(Workers, EventSource):
    """Workers that are jobs until they join; whoever they joined reports to this, and this to the driver."""

    def __init__(
        self,
        joined: JoinedWorkers,
        pools: Mapping[str, tuple[Launch, Strategy]],
        *,
        clock: Callable[[], float],
        calls: BackgroundCalls | None = None,
        hurried: Callable[[], bool] = lambda: False,
    ) -> None:
        """`hurried` says whether the end must not take long."""
        self._joined = joined
        self._clock, self._hurried = clock, hurried
        self._calls = calls or BackgroundCalls()
        self._queues: dict[str, JobQueue] = {}
        self._jobs: dict[str, _Job] = {}
        self._numbers: dict[str, int] = {}
        for pool, (launch, strategy) in pools.items():
            self.add_pool(pool, launch, strategy)
        self._events: list[AnyEvent] = []
        self._last_words: dict[str, WorkerLost] = {}
        """The worker that was lost last, whose tasks are reported right after it."""
        self._departures = PendingLosses(clock)

    # pools that come and go

    def add_pool(self, pool: str, launch: Launch, strategy: Strategy) -> None:
        """Workers of this pool are started so, from now on."""
        self._queues[pool] = JobQueue(strategy, launch, calls=self._calls, clock=self._clock, listener=self)
        self._numbers.setdefault(pool, 0)

    def relaunch(self, pool: str, launch: Launch) -> None:
        """Workers of this pool that are asked for from now on are started so."""
        self._queues[pool].launch = launch

    def take_over(self, pool: str, jobs: Iterable[TracedJob], joined: Collection[str]) -> None:
        """Those of these jobs that are of this pool, which an earlier process asked for; these workers had joined it,
        and may be there still."""
        queue = self._queues[pool]
        found = [job for job in jobs if job.pool == pool]
        queue.adopt(job.job for job in found)
        for job in found:
            self._jobs[job.worker] = taken = _Job(job.job, job.worker, queue.launch)
            if job.worker in joined:
                taken.status, taken.running, taken.joined = JobStatus(JobState.RUNNING), self._clock(), True
            number = job.worker.rpartition("-")[2]
            self._numbers[pool] = max(self._numbers[pool], int(number) if number.isdecimal() else 0)

    def pool_of(self, worker: str) -> str | None:
        """The pool of a worker that was asked for; None where it is not known."""
        job = self._jobs.get(worker)
        return None if job is None else job.pool

    def events(self, seconds: float) -> list[AnyEvent]:
        news = self._joined.events(0.0 if self._events else seconds)
        self._calls.hear()  # a worker that joins was asked for before, and so its job is known now
        heard = [*self._departures.again(), *(self._noted(event) for event in news)]
        lost = [event for event in heard if isinstance(event, WorkerLost)]
        missed = {event.pool for event in lost if self._is_missed(event)}
        for pool, queue in self._queues.items():
            queue.submit_again()
            queue.workers_left(self._jobs[event.worker].id for event in lost if event.worker in self._jobs)
            queue.poll(at_once=pool in missed)
        self._calls.hear()
        self._give_up_those_that_never_join()
        events, self._events = self._events, []
        return [*events, *self._understood(heard)]

    # workers

    def start_workers(self, pool: str, count: int) -> None:
        first = self._numbers[pool] + 1
        self._numbers[pool] += count
        self._queues[pool].launch.run.make_folders()
        self._queues[pool].submit([worker_name(pool, number) for number in range(first, first + count)])

    def stop_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:  # noqa: ARG002  # in the journal
        known = [self._jobs[worker] for worker in workers if worker in self._jobs]
        for job in known:
            job.stopping = True
        if joined := [job.worker for job in known if job.joined]:
            self._joined.retire(joined)
        waiting = [job for job in known if not job.joined]
        self._queues[pool].cancel(job.id for job in waiting)
        for job in waiting:
            self._drop(job, reason="it was no longer needed", cause="retired")

    def end_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:
        known = [self._jobs[worker] for worker in workers if worker in self._jobs]
        for job in known:
            job.ended = reason
        self._joined.drop([job.worker for job in known])
        self._queues[pool].cancel(job.id for job in known)

    def close(self) -> None:
        """End the workers, give those a moment that bring their output home, and stop every job that is left: also when
        something breaks on the way."""
        with ExitStack() as at_last:
            for queue in self._queues.values():
                at_last.callback(queue.strategy.close)
            for queue in self._queues.values():
                at_last.callback(queue.end)
            at_last.callback(self._calls.finish)  # whoever was asked for meanwhile is known before all are stopped
            self._joined.close()
            self._bring_output_home()
        self._jobs.clear()

    def _bring_output_home(self) -> None:
        self._calls.hear()
        patience = max((queue.strategy.seconds_to_end for queue in self._queues.values()), default=0.0)
        until = time.monotonic() + patience
        for queue in self._patient_queues():  # those that never joined have nothing to bring
            queue.cancel(job.id for job in self._jobs.values() if job.pool == queue.launch.pool and not job.joined)
            queue.workers_left()
        while not all(queue.is_empty for queue in self._patient_queues()):
            if self._hurried() or time.monotonic() >= until:
                return
            for queue in self._patient_queues():
                queue.poll()
            time.sleep(_POLL_EVERY)
            self._calls.hear()

    def _patient_queues(self) -> list[JobQueue]:
        return [queue for queue in self._queues.values() if queue.strategy.seconds_to_end]

    # what the batch systems say

    def jobs_taken(self, pool: str, workers: Sequence[str], jobs: Sequence[JobId]) -> None:
        for worker, job in zip(workers, jobs, strict=True):
            self._jobs[worker] = _Job(job, worker, self._queues[pool].launch)
            self._events.append(WorkerRequested(at=self._clock(), pool=pool, worker=worker, job=job))

    def jobs_delayed(self, pool: str, problem: Problem) -> None:
        words = f"cannot submit workers for pool '{pool}' yet, retrying: {problem.message}"
        self._events.append(Warned(at=self._clock(), message=words))

    def jobs_refused(self, pool: str, workers: Sequence[str], problem: Problem) -> None:
        reason = "; ".join(filter(None, (problem.message, problem.hint)))
        self._events += [
            WorkerLost(at=self._clock(), worker=worker, pool=pool, reason=reason, cause="refused") for worker in workers
        ]

    def jobs_polled(self, pool: str, found: Mapping[JobId, JobStatus]) -> None:
        for job in [job for job in self._jobs.values() if job.pool == pool]:
            if job.id in found and found[job.id] != job.status:
                self._changed(job, found[job.id])

    def _changed(self, job: _Job, status: JobStatus) -> None:
        job.status = status
        if status.state is JobState.RUNNING and job.running is None:
            job.running = self._clock()
        self._events.append(
            JobChanged(
                at=self._clock(),
                pool=job.pool,
                worker=job.worker,
                job=job.id,
                state=status.state,
                native=status.native,
                reason=status.reason,
            )
        )
        if status.state in OVER and not job.joined:
            self._drop(job, reason=f"it never joined: {status.reason}", cause=_by_itself(status.cause, joined=False))

    def _give_up_those_that_never_join(self) -> None:
        """A job that runs and brings no worker: something on its node, or the way to us, is broken."""
        now = self._clock()
        for job in list(self._jobs.values()):
            if job.running is None or job.joined or job.status.state is not JobState.RUNNING:
                continue
            queue = self._queues[job.pool]
            patience = queue.strategy.seconds_to_join
            if now - job.running > patience:
                queue.cancel([job.id])
                reason = f"its job {job.id} has run for {format_seconds(patience)}, and it has not joined"
                self._drop(job, reason=reason, cause="died")

    def _drop(self, job: _Job, *, reason: str, cause: LossCause) -> None:
        self._jobs.pop(job.worker, None)
        log = "" if cause == "retired" else job.last_lines
        self._events.append(
            WorkerLost(at=self._clock(), worker=job.worker, pool=job.pool, reason=reason, cause=cause, log=log)
        )

    # what those say whom workers joined

    def _noted(self, event: AnyEvent) -> AnyEvent:
        """A worker that joins stays for as long as it says, or else its strategy; of one that was turned away there is
        no more to know."""
        if isinstance(event, WorkerLost) and event.cause == "unfit":
            self._jobs.pop(event.worker, None)
        if not isinstance(event, WorkerJoined) or event.worker not in self._jobs:
            return event
        job = self._jobs[event.worker]
        job.joined = True
        lifetime = None if event.leaves is not None else self._queues[job.pool].strategy.lifetime
        began = event.at if job.running is None else job.running
        return msgspec.structs.replace(event, leaves=began + lifetime.leaves) if lifetime else event

    def _is_missed(self, event: WorkerLost) -> bool:
        """Whether nobody knows yet why a worker is gone."""
        job = self._jobs.get(event.worker)
        return job is not None and not job.stopping and not job.ended and job.status.state not in OVER

    def _understood(self, events: Iterable[AnyEvent]) -> list[AnyEvent]:
        """What is heard of workers, with what the strategies and the workers' own logs know about them."""
        kept = (WorkerLost, TaskFailed)
        return [self._explained(event) for event in events if not (isinstance(event, kept) and self._keep(event))]

    def _keep(self, event: WorkerLost | TaskFailed) -> bool:
        """Whether to ask again before it is reported: it takes a moment until a job is over and that is known."""
        if isinstance(event, TaskFailed):
            return self._departures.follows(event)
        if not self._is_missed(event):
            return False
        return self._departures.keep(event, to_end=self._queues[event.pool].strategy.seconds_to_end)

    def _explained(self, event: AnyEvent) -> AnyEvent:
        if isinstance(event, WorkerLost) and event.worker in self._jobs:
            lost = self._lost(event, self._jobs.pop(event.worker))
            self._last_words = {event.worker: lost}
            return lost
        if isinstance(event, TaskFailed) and event.failure.cause == "lost" and event.worker in self._last_words:
            return _in_full(event, self._last_words[event.worker])
        return event

    def _lost(self, event: WorkerLost, job: _Job) -> WorkerLost:
        if job.stopping:
            return msgspec.structs.replace(event, cause="retired", reason="it was asked to end")
        if job.ended:
            return msgspec.structs.replace(event, cause="silent", reason=job.ended, log=job.last_lines)
        status = job.status
        if status.state not in OVER:
            self._queues[job.pool].cancel([job.id])  # it left us, so it must not linger
            return msgspec.structs.replace(event, log=job.last_lines)
        if event.cause != "unknown" and status.cause != "preempted":
            return msgspec.structs.replace(event, log=job.last_lines)
        cause = _by_itself(status.cause, joined=True)
        return msgspec.structs.replace(event, cause=cause, reason=status.reason, log=job.last_lines)


def _by_itself(cause: LossCause, *, joined: bool) -> LossCause:
    """Why a worker ended that nobody told to: it may well have done so in good order, and is missed all the same. One
    that never joined had its walltime for nothing."""
    return "died" if cause == "retired" or (cause == "walltime" and not joined) else cause


def _in_full(event: TaskFailed, lost: WorkerLost) -> TaskFailed:
    """A task that went with its worker, with what became of that."""
    why = "" if lost.reason == event.failure.message else f": {lost.reason}"
    words = f"its worker {lost.worker} was lost{why}"
    message = with_last_lines(words, lost.log)
    return msgspec.structs.replace(event, failure=msgspec.structs.replace(event.failure, message=message))
