"""This file starts workers as jobs: the session says how, a strategy does it, and what becomes of the jobs is told.

Starting a worker is a fold: the session's command, then the job request, then the strategy. None knows another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cenote.backends.interface import JoinedSession, Session
from cenote.engine.messages import AnyEvent, JobChanged, TaskFailed, Warned, WorkerJoined, WorkerLost, WorkerRequested
from cenote.errors import CenoteError, Problem
from cenote.placement.pools import PlacedPool
from cenote.runtime.departures import Departures
from cenote.strategies.interface import OVER, EndCause, JobId, JobRequest, JobState, JobStatus, Strategy
from cenote.worker.envelope import TaskEnvelope

_ASK_AGAIN = 5.0
"""Seconds until workers are asked for again that the batch system could not be asked for."""
_PATIENCE = 600.0
"""Seconds after which they count as refused."""
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
    joined: float | None = None
    stopping: bool = False


@dataclass(frozen=True)
class _Unasked:
    """Workers that the batch system could not be asked for yet."""

    pool: str
    requests: list[JobRequest]
    since: float
    again: float


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
        self._polled = dict.fromkeys(self._pools, 0.0)
        self._unasked: list[_Unasked] = []
        self._departures = Departures(clock)

    # tasks

    def run(self, envelope: TaskEnvelope, pool: str) -> None:
        self._inner.run(envelope, pool)

    def cancel(self, task: int) -> None:
        self._inner.cancel(task)

    def forget(self, names: Sequence[str]) -> None:
        self._inner.forget(names)

    def events(self, seconds: float) -> list[AnyEvent]:
        heard = self._inner.events(0.0 if self._told else seconds)
        self._ask_again()
        self._look()
        told, self._told = self._told, []
        return [*told, *self._understood([*self._departures.again(), *heard])]

    # workers

    def start_workers(self, pool: str, count: int) -> None:
        self._ask_for(pool, [self._request(pool) for _ in range(count)])

    def _ask_for(self, pool: str, requests: list[JobRequest], *, since: float | None = None) -> None:
        try:
            ids = self._strategies[pool].submit(requests)
        except CenoteError as problem:
            self._not_taken(pool, requests, problem.problems[0], since)
            return
        self._submitted[pool].update(ids)
        for request, job in zip(requests, ids, strict=True):
            log = self._log(request.worker)
            self._jobs[request.worker] = _Job(pool, request.worker, job, request.out, request.err, log)
            self._told.append(WorkerRequested(at=self._clock(), pool=pool, worker=request.worker, job=job))

    def _not_taken(self, pool: str, requests: list[JobRequest], problem: Problem, since: float | None) -> None:
        """Workers that are refused are told of; those that could not be asked for are asked for again."""
        now = self._clock()
        if problem.kind.transient and (since is None or now - since < _PATIENCE):
            self._unasked.append(_Unasked(pool, requests, since or now, now + _ASK_AGAIN))
            words = f"pool '{pool}' waits until its workers can be asked for: {problem.message}"
            self._told += [Warned(at=now, message=words)] if since is None else []
            return
        self._told += [
            WorkerLost(at=now, worker=request.worker, pool=pool, reason=problem.message, cause="refused")
            for request in requests
        ]

    def _ask_again(self) -> None:
        due = [unasked for unasked in self._unasked if self._clock() >= unasked.again]
        self._unasked = [unasked for unasked in self._unasked if unasked not in due]
        for unasked in due:
            self._ask_for(unasked.pool, unasked.requests, since=unasked.since)

    def stop_workers(self, pool: str, workers: tuple[str, ...], reason: str) -> None:  # noqa: ARG002  # in the journal
        known = [self._jobs[worker] for worker in workers if worker in self._jobs]
        for job in known:
            job.stopping = True
        if joined := [job.worker for job in known if job.joined is not None]:
            self._inner.retire(joined)
        waiting = [job for job in known if job.joined is None]
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
        command = self._inner.worker_command(
            pool, worker, log=self._log(worker), lifetime=self._strategies[pool].lifetime
        )
        return worker_request(self._run, self._pools[pool], worker, command=command, logs=self._logs.absolute())

    def _log(self, worker: str) -> Path:
        return self._logs.absolute() / "logs" / worker

    # what becomes of them

    def _look(self) -> None:
        """At the jobs of those pools whose strategy was not asked a moment ago."""
        for pool, strategy in self._strategies.items():
            if self._clock() - self._polled[pool] < strategy.seconds_between_polls:
                continue
            self._polled[pool] = self._clock()
            found = self._statuses(pool, sorted(self._submitted[pool]))
            for job in [job for job in self._jobs.values() if job.pool == pool]:
                if job.id in found and found[job.id] != job.status:
                    self._changed(job, found[job.id])

    def _statuses(self, pool: str, ids: Sequence[JobId]) -> dict[JobId, JobStatus]:
        """How these jobs are; those that are over are not asked for again, and do not linger."""
        strategy = self._strategies[pool]
        found = strategy.poll(ids) if ids else {}
        over = {id_ for id_, status in found.items() if status.state in OVER}
        self._submitted[pool] -= over
        if lingering := sorted(id_ for id_ in over if found[id_].lingers):
            strategy.cancel(lingering)
        return found

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
        if status.state in OVER and job.joined is None:
            self._drop(job, reason=f"it never joined: {status.reason}", cause=_by_itself(status.cause))

    def _drop(self, job: _Job, *, reason: str, cause: EndCause) -> None:
        self._jobs.pop(job.worker, None)
        log = "" if cause == "retired" else _last_lines(job)
        self._told.append(
            WorkerLost(at=self._clock(), worker=job.worker, pool=job.pool, reason=reason, cause=cause, log=log)
        )

    def _understood(self, events: Sequence[AnyEvent]) -> list[AnyEvent]:
        """Events of the session, with what the strategies and the workers' own logs know about them."""
        statuses = self._fates(event.worker for event in events if isinstance(event, WorkerLost))
        understood: list[AnyEvent] = []
        for event in events:
            if isinstance(event, WorkerJoined) and event.worker in self._jobs:
                self._jobs[event.worker].joined = event.at
            if isinstance(event, WorkerLost | TaskFailed) and self._keep(event, statuses):
                continue
            understood.append(self._explained(event, statuses))
        return understood

    def _fates(self, workers: Iterable[str]) -> dict[str, JobStatus]:
        """What became of the jobs of workers that went without being told to."""
        missed: dict[str, list[_Job]] = {}
        for worker in workers:
            if (job := self._jobs.get(worker)) is not None and not job.stopping:
                missed.setdefault(job.pool, []).append(job)
        found: dict[str, JobStatus] = {}
        for pool, jobs in missed.items():
            statuses = self._statuses(pool, [job.id for job in jobs if job.status.state not in OVER])
            found.update({job.worker: statuses.get(job.id, job.status) for job in jobs})
        return found

    def _keep(self, event: WorkerLost | TaskFailed, statuses: Mapping[str, JobStatus]) -> bool:
        """Whether to ask again before it is told: it takes a moment until a job is over and that is known."""
        if isinstance(event, TaskFailed):
            return self._departures.follows(event)
        job = self._jobs.get(event.worker)
        if job is None or job.stopping or statuses[event.worker].state in OVER:
            return False
        return self._departures.keep(event)

    def _explained(self, event: AnyEvent, statuses: Mapping[str, JobStatus]) -> AnyEvent:
        if isinstance(event, WorkerLost) and event.worker in self._jobs:
            lost = self._lost(event, self._jobs.pop(event.worker), statuses.get(event.worker))
            self._last_words = {event.worker: lost}
            return lost
        if isinstance(event, TaskFailed) and event.failure.cause == "lost" and event.worker in self._last_words:
            return _in_full(event, self._last_words[event.worker])
        return event

    def _lost(self, event: WorkerLost, job: _Job, status: JobStatus | None) -> WorkerLost:
        if status is None:
            return msgspec.structs.replace(event, cause="retired", reason="it was asked to end")
        if status.state not in OVER:
            self._strategies[job.pool].cancel([job.id])  # it left us, so it must not linger
            return msgspec.structs.replace(event, log=_last_lines(job))
        cause, reason = _by_itself(status.cause), status.reason
        lifetime = self._strategies[job.pool].lifetime
        if status.cause == "retired" and lifetime and job.joined is not None and event.at - job.joined > lifetime - 1:
            cause, reason = "walltime", "it left before its walltime was over"
        if event.cause != "unknown":
            cause = event.cause
        return msgspec.structs.replace(event, cause=cause, reason=reason, log=_last_lines(job))


def worker_request(run: str, pool: PlacedPool, worker: str, *, command: tuple[str, ...], logs: Path) -> JobRequest:
    """What a strategy is asked for: one worker with what its pool gives it."""
    return JobRequest(
        run=run,
        pool=pool.name,
        worker=worker,
        command=command,
        resources=pool.granted,
        out=logs / "out" / worker,
        err=logs / "err" / worker,
    )


def _by_itself(cause: EndCause) -> EndCause:
    """Why a worker ended that nobody told to: it may well have done so in good order, and is missed all the same."""
    return "died" if cause == "retired" else cause


def _in_full(event: TaskFailed, lost: WorkerLost) -> TaskFailed:
    """A task that went with its worker, with what became of that."""
    why = "" if lost.reason == event.failure.message else f": {lost.reason}"
    words = f"its worker {lost.worker} was lost{why}"
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
