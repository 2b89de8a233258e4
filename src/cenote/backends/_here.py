"""This file runs tasks in this process, one at a time."""

from __future__ import annotations

import time

from cenote.backends._outcomes import event_of, withdrawn
from cenote.backends._places import Places
from cenote.backends._processes import Processes
from cenote.backends.interface import Session, SessionRequest
from cenote.engine.messages import AnyEvent, TaskStarted
from cenote.worker.envelope import TaskEnvelope
from cenote.worker.memory import keep_freed_memory
from cenote.worker.run_task import TaskRunner
from cenote.worker.said import Diary

SMALL_SECONDS = 1.0
"""After so much work here, processes are worth their start."""


class Here(Session):
    """No worker processes, until the work proves not to be small."""

    def __init__(self, request: SessionRequest, patience: float) -> None:
        self._request, self._patience = request, patience
        keep_freed_memory()
        self._said = Diary(request.logs, "driver")
        with self._said.open():
            self._runner = TaskRunner(request.program)
        self._places = Places(request.pools)
        self._pending: list[AnyEvent] = list(self._places.joined(request.clock()))
        self._worked = 0.0
        self._coming: Processes | None = None
        """Processes that are being started: until the first of them is ready, the work goes on here."""
        self._others: Processes | None = None
        """Who has the work now."""

    def run(self, envelope: TaskEnvelope, pool: str) -> None:
        if self._others is not None:
            self._others.run(envelope, pool)
        else:
            self._places.wait(envelope, pool)

    def cancel(self, task: int) -> None:
        if self._others is not None:
            self._others.cancel(task)
        elif (taken := self._places.withdraw(task)) is not None:
            self._pending.append(withdrawn(taken[0], at=self._request.clock(), pool=taken[1]))

    def events(self, seconds: float) -> list[AnyEvent]:
        if self._pending:
            told, self._pending = self._pending, []
            return told
        if self._others is not None:
            return self._others.events(seconds)
        if self._is_worth_processes():
            self._hand_over()
            return []
        if not self._places.waiting:
            time.sleep(seconds)  # nothing to do and nobody to wait for: let time pass instead of spinning
            return []
        return self._run_next()

    def close(self) -> None:
        self._said.close()
        if self._coming is not None:
            self._coming.close()

    def _is_worth_processes(self) -> bool:
        """Whether to hand over now: the work is not small, and a process is there to take it."""
        many = self._request.cpus > 1 and self._places.waiting > 1
        if many and self._coming is None and self._worked > SMALL_SECONDS:
            self._coming = Processes(self._request, self._patience, joined=False)
            self._coming.prepare(self._places.waiting)
        return many and self._coming is not None and self._coming.has_somebody_ready()

    def _run_next(self) -> list[AnyEvent]:
        taken = self._places.take()
        if taken is None:
            return []
        envelope, pool, place = taken
        worker, clock = self._places.worker(pool, place), self._request.clock
        started = TaskStarted(at=clock(), task=envelope.task, attempt=envelope.attempt, pool=pool, worker=worker)
        with self._said.open():
            outcome = self._runner.run(envelope)
        self._places.free(pool, place)
        self._worked += outcome.seconds
        return [started, event_of(outcome, envelope, at=clock(), pool=pool, worker=worker)]

    def _hand_over(self) -> None:
        assert self._coming is not None
        self._others = self._coming
        while (taken := self._places.take()) is not None:
            envelope, pool, place = taken
            self._places.free(pool, place)
            self._others.run(envelope, pool)
