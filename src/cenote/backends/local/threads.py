"""Run tasks in threads of this process: what is compiled, and what decompresses, lets other threads compute."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue

from cenote.backends.interface import Session, SessionRequest
from cenote.backends.local.slots import SlotTable
from cenote.backends.support.bundling import Bundling
from cenote.backends.support.outcomes import event_of, started, withdrawn
from cenote.engine.messages import AnyEvent
from cenote.values import dataclass
from cenote.worker.run_task import TaskRunner
from cenote.worker.task_spec import Outcome, RunSpec, TaskSpec

_GOODBYE = 5.0
"""Seconds that tasks have to come to their end when the session is closed; nothing of them is left but their thread."""


@dataclass(frozen=True)
class _Taken:
    """Tasks for one thread, one after the other, and the place of a pool that they have."""

    specs: tuple[TaskSpec, ...]
    pool: str
    place: int


@dataclass(frozen=True)
class _Told:
    """How the task at this position ended."""

    taken: _Taken
    position: int
    outcome: Outcome
    at: float


def may_share_process(spec: RunSpec) -> bool:
    """Whether nothing but compiled steps runs: what is not compiled may hold Python's lock, or print."""
    steps = [step for segment in spec.segments for step in segment.steps]
    return all(
        step.compiled and not step.writes and all(modifier.shares_process for modifier in step.modifiers)
        for step in steps
    )


class ThreadSession(Session):
    """As many threads as there are cores. They share this process: what it has compiled, and the files it has open."""

    def __init__(self, request: SessionRequest, runner: TaskRunner) -> None:
        self._request, self._runner = request, runner
        self._slots = SlotTable(request.pools)
        self._bundling = Bundling()
        self._pending: list[AnyEvent] = []
        self._busy = 0
        self._taken: SimpleQueue[_Taken | None] = SimpleQueue()
        self._told: SimpleQueue[_Told] = SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(request.cpus)]
        for thread in self._threads:
            thread.start()

    def run(self, spec: TaskSpec, pool: str) -> None:
        self._slots.wait(spec, pool)

    def cancel(self, task: int) -> None:
        """One that a thread has begun is short, and comes to its end."""
        if (taken := self._slots.withdraw(task)) is not None:
            self._pending.append(withdrawn(taken[0], at=self._request.clock(), pool=taken[1]))

    def events(self, seconds: float) -> list[AnyEvent]:
        self._dispatch()
        self._listen(0 if self._pending else seconds)
        self._dispatch()
        told, self._pending = self._pending, []
        return told

    def close(self) -> None:
        for _ in self._threads:
            self._taken.put(None)
        until = time.monotonic() + _GOODBYE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _dispatch(self) -> None:
        while self._busy < len(self._threads) and (found := self._slots.take()) is not None:
            spec, pool, place = found
            together = self._bundling.size(spec, 1 + self._slots.alike(spec, pool), len(self._threads))
            taken = _Taken((spec, *self._slots.take_more(spec, pool, together - 1)), pool, place)
            self._busy += 1
            self._begin(taken, 0)
            self._taken.put(taken)
            if self._busy == len(self._threads) and (following := self._slots.first(pool)) is not None:
                self._runner.incoming.fetch_ahead(following)

    def _begin(self, taken: _Taken, position: int) -> None:
        worker = self._slots.worker(taken.pool, taken.place)
        at = self._request.clock()
        self._pending.append(started(taken.specs[position], at=at, pool=taken.pool, worker=worker))

    def _listen(self, seconds: float) -> None:
        """All that was told by now; waits so long for the first word."""
        try:
            self._hear(self._told.get(timeout=seconds) if seconds > 0 else self._told.get_nowait())
            while True:
                self._hear(self._told.get_nowait())
        except Empty:
            return

    def _hear(self, told: _Told) -> None:
        taken, spec, outcome = told.taken, told.taken.specs[told.position], told.outcome
        if outcome.failure is None:
            self._bundling.finish(spec, outcome.seconds)
        worker = self._slots.worker(taken.pool, taken.place)
        self._pending.append(event_of(outcome, spec, at=told.at, pool=taken.pool, worker=worker))
        if told.position + 1 < len(taken.specs):
            self._begin(taken, told.position + 1)
        else:
            self._busy -= 1
            self._slots.free(taken.pool, taken.place)

    def _work(self) -> None:
        """What each thread does."""
        while (taken := self._taken.get()) is not None:
            for position, spec in enumerate(taken.specs):
                outcome = self._runner.run(spec, shares_process=True)
                self._told.put(_Told(taken, position, outcome, self._request.clock()))
