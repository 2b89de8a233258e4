"""Run tasks in this process, one at a time, until it is known whether other cores would pay, and how they are used."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from cenote.common import signals
from cenote.common.signals import Interrupted
from cenote.common.values import dataclass
from cenote.engine.messages import AnyEvent, TaskFailed
from cenote.execution.backends.interface import Session, SessionRequest
from cenote.execution.backends.local.slots import SlotTable
from cenote.execution.backends.support.outcomes import (
    ENOUGH_SECONDS,
    STOPPED,
    Bundling,
    event_of,
    seconds_without_core,
    started,
    withdrawn,
)
from cenote.execution.worker.process.memory import keep_freed_memory
from cenote.execution.worker.process.user_output import OutputLog
from cenote.execution.worker.run_task import TaskRunner
from cenote.execution.worker.task_spec import Outcome, RunSpec, TaskSpec

if TYPE_CHECKING:
    from cenote.execution.backends.local.processes import ProcessSession


# Decide whether other cores bring more than it costs to use them.


_COST = 1.0
"""Seconds of CPU for the first process, which imports everything; those that are forked from it cost next to nothing.
A second core must bring more than that."""

TO_START = 1.0
"""Seconds until the first process is there, on a machine that has a core for it."""


def are_worth_it(seconds: float, cpus: int) -> bool:
    """Whether so much work of one core should go to processes on so many."""
    return seconds * (1 - 1 / cpus) > _COST


def seconds_left(done: float, events: int, all_events: int, *, expected: float) -> float:
    """Work that is left, as the part that is done tells: so many seconds for so many events. Before anything is done it
    is what was expected."""
    return done * max(0, all_events - events) / events if events else max(expected, done)


# Run tasks in threads of this process: what is compiled, and what decompresses, lets other threads compute.


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


_TOO_LITTLE = 0.02
"""Seconds of work for which no thread is started."""


class InProcessSession(Session):
    """One task at a time, until threads or worker processes would pay."""

    occupies_driver = True

    def __init__(self, request: SessionRequest, patience: float) -> None:
        self._request, self._patience = request, patience
        keep_freed_memory()
        self._said = OutputLog(request.run.output, "driver")
        with self._said.open():
            self._runner = TaskRunner(request.run_spec)
        self._places = SlotTable(request.pools)
        self._pending: list[AnyEvent] = list(self._places.joined(request.clock()))
        self._begun: tuple[TaskSpec, str, int] | None = None
        """The task that has a place and runs next, with its pool and place: its start is news before it blocks."""
        self._bundling = Bundling()
        self._began = False
        """Whether a task was run here before."""
        self._worked, self._events = 0.0, 0
        """Seconds of work in all but the first, and events that they read."""
        self._frees_lock: bool | None = None if may_share_process(request.run_spec) else False
        """Whether tasks let other threads compute; None until that is seen."""
        self._coming: ProcessSession | None = None
        """Processes that are being started: until the first of them is ready, the work goes on here."""
        self._others: Session | None = None
        """Who has the work now."""

    def run(self, spec: TaskSpec, pool: str) -> None:
        if self._others is not None:
            self._others.run(spec, pool)
        else:
            self._places.wait(spec, pool)

    def cancel(self, task: int) -> None:
        if self._others is not None:
            self._others.cancel(task)
        elif (taken := self._withdraw(task)) is not None:
            self._pending.append(withdrawn(taken[0], at=self._request.clock(), pool=taken[1]))

    def events(self, seconds: float) -> list[AnyEvent]:
        if self._pending:
            told, self._pending = self._pending, []
            return told
        if self._others is not None:
            return self._others.events(seconds)
        if self._begun is not None:
            return self._run(*self._begun)
        if self._is_worth_threads():
            self._hand_over(ThreadSession(self._request, self._runner))
            return []
        if self._is_worth_processes():
            self._hand_over(self._coming)
            return []
        if not self._places.waiting:
            time.sleep(seconds)  # nothing to do and nobody to wait for: let time pass instead of spinning
            return []
        return self._begin_next(seconds)

    def close(self) -> None:
        self._said.close()
        for others in dict.fromkeys((self._coming, self._others)):
            if others is not None:
                others.close()

    def _is_worth_threads(self) -> bool:
        many = self._places.waiting > 1 and self._request.cpus > 1
        return many and self._frees_lock is True and self._work_left() > _TOO_LITTLE

    def _is_worth_processes(self) -> bool:
        """Whether to hand over now: the work is not small, and a process is there to take it. Once a task was done here
        it is known what work it is, and what it imports."""
        many = self._places.waiting > 1
        return many and self._began and self._call_processes() and self._are_there()

    def _call_processes(self) -> bool:
        """Start processes if they would pay, and threads would not; whether they come, or are there."""
        if self._coming is None and self._request.cpus > 1 and self._frees_lock is False and self._would_pay():
            from cenote.execution.backends.local.processes import ProcessSession  # small work does without

            self._coming = ProcessSession(self._request, self._patience, joined=False)
        return self._coming is not None

    def _are_there(self, seconds: float = 0) -> bool:
        return self._coming is not None and self._coming.prepare(self._places.waiting, seconds)

    def _would_pay(self) -> bool:
        return are_worth_it(self._work_left(), self._request.cpus)

    def _work_left(self) -> float:
        work = self._request.work
        return seconds_left(self._worked, self._events, work.events, expected=work.seconds)

    def _begin_next(self, seconds: float) -> list[AnyEvent]:
        """The next task; none while processes are about to come for others too, which would wait for its end."""
        self._begun = self._places.take()
        if self._begun is None:
            return []
        spec, pool, place = self._begun
        if self._places.waiting and self._expected(spec) > TO_START and self._call_processes():
            self._withdraw(spec.task)
            self._places.wait_first([spec], pool)
            if self._are_there(seconds):
                self._hand_over(self._coming)
            return []
        return [started(spec, at=self._request.clock(), pool=pool, worker=self._places.worker(pool, place))]

    def _run(self, spec: TaskSpec, pool: str, place: int) -> list[AnyEvent]:
        """The task that was begun, and after it those that are as short as it will be: all are told of together."""
        self._begun = None
        together = self._bundling.size(spec, 1 + self._places.alike(spec, pool), 1)
        rest = [spec, *self._places.take_more(spec, pool, together - 1)]
        if (following := self._places.first(pool)) is not None:
            self._runner.incoming.fetch_ahead(following)
        told: list[AnyEvent] = []
        until = self._request.clock() + ENOUGH_SECONDS
        before = seconds_without_core()
        with self._said.open():
            while rest:
                told += self._run_one(rest.pop(0), pool, place, is_first=not told)
                if isinstance(told[-1], TaskFailed) or self._request.clock() > until:
                    break
        if self._began:  # more processes would wait for a core as well
            self._worked = max(0.0, self._worked - (seconds_without_core() - before))
        self._began = True
        self._places.wait_first(rest, pool)
        self._places.free(pool, place)
        return told

    def _run_one(self, spec: TaskSpec, pool: str, place: int, *, is_first: bool) -> list[AnyEvent]:
        worker, began = self._places.worker(pool, place), self._request.clock()
        outcome = self._outcome(spec)
        if self._began:  # the first one imports and compiles, which says nothing of the others
            self._worked += outcome.seconds
            self._events += outcome.events
            self._bundling.finish(spec, outcome.seconds)
        if self._frees_lock is not False and spec.kind != "merge" and outcome.failure is None:
            self._frees_lock = self._runner.frees_lock(spec)
        ended = event_of(outcome, spec, at=self._request.clock(), pool=pool, worker=worker)
        return [ended] if is_first else [started(spec, at=began, pool=pool, worker=worker), ended]

    def _expected(self, spec: TaskSpec) -> float:
        """Seconds that it will take."""
        work = self._request.work
        seconds, events = (self._worked, self._events) if self._events else (work.seconds, work.events)
        return seconds * sum(piece.partition.events for piece in spec.pieces) / max(1, events)

    def _withdraw(self, task: int) -> tuple[TaskSpec, str] | None:
        """Take a task back that has not been run, with its pool."""
        if self._begun is None or self._begun[0].task != task:
            return self._places.withdraw(task)
        spec, pool, place = self._begun
        self._begun = None
        self._places.free(pool, place)
        return spec, pool

    def _outcome(self, spec: TaskSpec) -> Outcome:
        """Of a task that may take long: a signal stops it where it is."""
        try:
            with signals.raised():
                return self._runner.run(spec)
        except Interrupted:
            return Outcome(task=spec.task, failure=STOPPED)

    def _hand_over(self, others: Session | None) -> None:
        assert others is not None, "whoever is to have the work was called before"
        self._others = others
        self.occupies_driver = False
        while (taken := self._places.take()) is not None:
            spec, pool, place = taken
            self._places.free(pool, place)
            self._others.run(spec, pool)
