"""This file starts workers as jobs: the session says how, a strategy does it, and what becomes of the jobs is told.

Starting a worker is a fold: the session's command, then the job request, then the strategy. None knows another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cenote.backends.interface import JoinedSession, Session
from cenote.engine.messages import AnyEvent, JobChanged, TaskFailed, WorkerJoined, WorkerLost, WorkerRequested
from cenote.errors import CenoteError
from cenote.placement.pools import PlacedPool
from cenote.strategies.interface import EndCause, JobId, JobRequest, JobState, JobStatus, Strategy
from cenote.worker.envelope import TaskEnvelope

POLL_EVERY = 1.0
"""Seconds between two looks at the jobs of a strategy."""
_LAST_LINES = 8
_CRASH = "Fatal Python error:"
"""How the interpreter begins when a library crashes: the stack comes after it, innermost first."""
_LAST_BYTES = 20_000
"""Of which the last lines are taken: a worker's output may be very long."""


@dataclass
class _Job:
    """One worker that was asked for."""

    pool: str
    worker: str
    id: JobId
    out: Path
    err: Path
    log: Path
    status: JobStatus = JobStatus(JobState.PENDING)  # noqa: RUF009 (frozen)
    joined: bool = False
    stopping: bool = False


class WorkerJobs(Session):
    """A session whose workers are jobs. Tasks go straight through to the session inside."""

    manages_workers = True

    def __init__(
        self,
        inner: JoinedSession,
        pools: Sequence[PlacedPool],
        strategies: Mapping[str, Strategy],
        *,
        run: str,
        logs: Path,
        clock: Callable[[], float],
    ) -> None:
        self._inner = inner
        self._pools = {pool.name: pool for pool in pools}
        self._strategies = dict(strategies)
        self._run, self._logs, self._clock = run, logs, clock
        self._jobs: dict[str, _Job] = {}
        self._submitted: dict[str, set[JobId]] = {pool.name: set() for pool in pools}
        """Pool → jobs that are not known to have ended."""
        self._numbers: dict[str, int] = {}
        self._told: list[AnyEvent] = []
        self._last_words: dict[str, WorkerLost] = {}
        """The worker that was lost last, whose tasks are told of right after it."""
        self._polled = 0.0

    # tasks

    def run(self, envelope: TaskEnvelope, pool: str) -> None:
        self._inner.run(envelope, pool)

    def cancel(self, task: int) -> None:
        self._inner.cancel(task)

    def forget(self, names: Sequence[str]) -> None:
        self._inner.forget(names)

    def events(self, seconds: float) -> list[AnyEvent]:
        heard = self._inner.events(0.0 if self._told else seconds)
        if self._clock() - self._polled > POLL_EVERY:
            self._look()
        told, self._told = self._told, []
        return [*told, *(self._understood(event) for event in heard)]

    # workers

    def start_workers(self, pool: str, count: int) -> None:
        requests = [self._request(pool) for _ in range(count)]
        try:
            ids = self._strategies[pool].submit(requests)
        except CenoteError as problem:
            words = str(problem.problems[0].message)
            for request in requests:
                self._told.append(
                    WorkerLost(at=self._clock(), worker=request.worker, pool=pool, reason=words, cause="refused")
                )
            return
        self._submitted[pool].update(ids)
        for request, job in zip(requests, ids, strict=True):
            log = self._log(request.worker)
            self._jobs[request.worker] = _Job(pool, request.worker, job, request.out, request.err, log)
            self._told.append(WorkerRequested(at=self._clock(), pool=pool, worker=request.worker, job=job))

    def stop_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:  # noqa: ARG002  # in the journal
        known = [self._jobs[worker] for worker in workers if worker in self._jobs]
        for job in known:
            job.stopping = True
        if joined := [job.worker for job in known if job.joined]:
            self._inner.retire(joined)
        waiting = [job for job in known if not job.joined]
        self._strategies[pool].cancel([job.id for job in waiting])
        for job in waiting:
            self._drop(job, reason="it was not needed any more", cause="retired")

    def close(self) -> None:
        self._inner.close()
        for pool, strategy in self._strategies.items():
            strategy.cancel(sorted(self._submitted[pool]))
        self._jobs.clear()

    def _request(self, pool: str) -> JobRequest:
        self._numbers[pool] = self._numbers.get(pool, 0) + 1
        worker = f"{pool}-{self._numbers[pool]}"
        for folder in ("logs", "out", "err"):
            (self._logs / folder).mkdir(parents=True, exist_ok=True)
        return JobRequest(
            run=self._run,
            pool=pool,
            worker=worker,
            command=self._inner.worker_command(pool, worker, log=self._log(worker)),
            resources=self._pools[pool].granted,
            out=self._logs / "out" / worker,
            err=self._logs / "err" / worker,
        )

    def _log(self, worker: str) -> Path:
        return self._logs.absolute() / "logs" / worker

    # what becomes of them

    def _look(self) -> None:
        self._polled = self._clock()
        for pool, strategy in self._strategies.items():
            found = strategy.poll(sorted(self._submitted[pool])) if self._submitted[pool] else {}
            over = {id_ for id_, status in found.items() if status.state in (JobState.ENDED, JobState.FAILED)}
            self._submitted[pool] -= over
            for job in [job for job in self._jobs.values() if job.pool == pool]:
                if job.id in found and found[job.id] != job.status:
                    self._changed(job, found[job.id])

    def _changed(self, job: _Job, status: JobStatus) -> None:
        job.status = status
        self._told.append(
            JobChanged(
                at=self._clock(),
                pool=job.pool,
                worker=job.worker,
                job=job.id,
                state=status.state.value,
                native=status.native,
                reason=status.reason,
            )
        )
        if status.state in (JobState.ENDED, JobState.FAILED) and not job.joined:
            self._drop(job, reason=f"it never joined: {status.reason}", cause=_by_itself(status.cause))

    def _drop(self, job: _Job, *, reason: str, cause: EndCause) -> None:
        self._jobs.pop(job.worker, None)
        log = "" if cause == "retired" else _last_lines(job)
        self._told.append(
            WorkerLost(at=self._clock(), worker=job.worker, pool=job.pool, reason=reason, cause=cause, log=log)
        )

    def _understood(self, event: AnyEvent) -> AnyEvent:
        """An event of the session, with what the strategy and the worker's own log know about it."""
        if isinstance(event, WorkerJoined) and event.worker in self._jobs:
            self._jobs[event.worker].joined = True
        if isinstance(event, WorkerLost) and event.worker in self._jobs:
            lost = self._explained(event, self._jobs.pop(event.worker))
            self._last_words = {event.worker: lost}
            return lost
        if isinstance(event, TaskFailed) and event.failure.cause == "lost" and event.worker in self._last_words:
            return _in_full(event, self._last_words[event.worker])
        return event

    def _explained(self, event: WorkerLost, job: _Job) -> WorkerLost:
        if job.stopping:
            return msgspec.structs.replace(event, cause="retired", reason="it was asked to end")
        status = self._strategies[job.pool].poll([job.id]).get(job.id, job.status)
        if status.state in (JobState.ENDED, JobState.FAILED):
            cause = event.cause if event.cause != "unknown" else _by_itself(status.cause)
            return msgspec.structs.replace(event, cause=cause, reason=status.reason, log=_last_lines(job))
        self._strategies[job.pool].cancel([job.id])  # it left us, so it must not linger
        return msgspec.structs.replace(event, log=_last_lines(job))


def _by_itself(cause: EndCause) -> EndCause:
    """Why a worker ended that nobody told to: it may well have done so in good order, and is missed all the same."""
    return "died" if cause == "retired" else cause


def _in_full(event: TaskFailed, lost: WorkerLost) -> TaskFailed:
    """A task that went with its worker, with what became of that."""
    words = f"its worker {lost.worker} was lost: {lost.reason}"
    lines = [f"    {line}" for line in lost.log.splitlines()]
    message = "\n".join([words, *(["  what it wrote last:"] if lines else []), *lines])
    return msgspec.structs.replace(event, failure=msgspec.structs.replace(event.failure, message=message))


def _last_lines(job: _Job) -> str:
    """What it wrote to stderr, where crashes leave their traces; else what it logged."""
    return _tail(job.err) or _tail(job.log)


def _tail(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _LAST_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return last_words(text)


def last_words(text: str) -> str:
    """The lines of a worker's output that tell why it ended: a crash from its first line on, else the last ones."""
    lines = [line for line in text.splitlines() if line.strip()]
    crashes = [number for number, line in enumerate(lines) if line.startswith(_CRASH)]
    return "\n".join(lines[crashes[-1] :][:_LAST_LINES] if crashes else lines[-_LAST_LINES:])
