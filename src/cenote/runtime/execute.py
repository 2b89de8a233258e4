"""This file executes a plan in a folder: opens the session, finds finished work again, and leaves everything behind."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from cenote import errors, signals, storage
from cenote.backends.interface import JoinedSession, Session, SessionRequest
from cenote.engine.machine import Engine
from cenote.engine.messages import AnyEvent, FailureInfo, RunFinished, RunStarted, TaskReused, Tick, Warned
from cenote.engine.options import EngineOptions
from cenote.plan.as_json import plan_as_json
from cenote.plan.history import MemoryHistory
from cenote.plan.picture import svg
from cenote.plan.plan import Plan
from cenote.runtime.configured import backend_of, strategy_of
from cenote.runtime.envelopes import Envelopes, make_program
from cenote.runtime.journal import Journal
from cenote.runtime.loop import Loop, Status
from cenote.runtime.memory_seen import MemorySeen
from cenote.runtime.provenance import provenance
from cenote.runtime.publish import Publication, publish
from cenote.runtime.run_facts import RunFacts
from cenote.runtime.run_folder import Pulse, RunFolder, write_json
from cenote.runtime.run_view import RunView
from cenote.runtime.worker_jobs import WorkerJobs
from cenote.signals import Interrupted, Interruptions
from cenote.strategies.interface import Strategy
from cenote.worker.failure import failure_of
from cenote.worker.store import Store

Listener = Callable[[RunView], None]
_SMALL_VALUES = 4_000_000
"""Values to read (events × columns) below which starting processes costs more than it brings."""
_AHEAD = 0.2
"""Seconds of work to have out for each slot: longer than the way to a worker and back."""


@dataclass(frozen=True)
class RunOptions:
    """How to run, apart from what the workflow says."""

    resume: bool = False
    replace: bool = False
    keep_going: bool = False
    workers: int | None = None
    """Processes at the most; None for one per core."""
    cpus: int = 1
    """Cores of this machine."""
    command: Sequence[str] | None = None


class _Watched:
    """Keeps the view of the run up to date and shows it, not more often than a person can read."""

    def __init__(self, plan: Plan, folder: RunFolder, listen: Listener | None, clock: Callable[[], float]) -> None:
        self.view, self.memory = RunView(RunFacts.from_plan(plan)), MemorySeen(plan)
        self._listen, self._clock, self._shown = listen, clock, 0.0
        self._pulse = Pulse(folder, clock)

    def __call__(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self.view.apply(event)
            self.memory.take(event)
        self._pulse()
        now = self._clock()
        if self._listen is not None and now - self._shown > 0.1:
            self._shown = now
            self._listen(self.view)

    def saved(self, done: int, products: int) -> None:
        self.view.saved = (done, products)
        self([Tick(at=self._clock())])

    def show(self) -> None:
        if self._listen is not None:
            self._listen(self.view)


def execute(plan: Plan, out: Path, options: RunOptions, listen: Listener | None = None) -> RunFolder:
    """Run a plan to its end. Whatever happens, the folder tells of it afterwards.

    A signal ends it as cancelled. Paths are absolute: somebody's code may change the working directory.
    """
    named, folder = RunFolder(out), RunFolder(out.absolute())
    named.refuse(resume=options.resume, replace=options.replace)
    with signals.noted() as interruptions, storage.explained(), named.lock():
        folder.prepare(resume=options.resume, replace=options.replace)
        folder.summary.unlink(missing_ok=True)  # of an earlier attempt: this one is not over
        write_json(folder.plan, plan_as_json(plan))
        with storage.writing(folder.picture):
            folder.picture.write_text(svg(plan), encoding="utf-8")
        write_json(folder.provenance, provenance(plan, command=options.command))
        watched = _Watched(plan, folder, listen, time.time)
        journal = Journal(folder.path)
        try:
            _drive(plan, folder, options, journal, watched, interruptions)
        finally:
            journal.close()
    return folder


@dataclass
class _Ending:
    """How a run ends: what went wrong first counts, and the rest is done all the same."""

    status: Status = "failed"
    publication: Publication = field(default_factory=Publication)
    problem: BaseException | None = None

    @contextmanager
    def brought_about(self) -> Iterator[None]:
        """A part of the end."""
        try:
            yield
        except Interrupted:
            self.status = "cancelled"
        except BaseException as problem:  # raised again when the folder tells of it
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        self.status = "failed"
        if self.problem is None:
            self.problem = problem
            self.publication.failures.append(_failure_of_run(problem))


def _drive(
    plan: Plan,
    folder: RunFolder,
    options: RunOptions,
    journal: Journal,
    watched: _Watched,
    interruptions: Interruptions,
) -> None:
    store = Store(folder.store)
    envelopes = Envelopes(plan)
    run = uuid.uuid4().hex[:12]
    started = time.time()
    ending = _Ending()
    session = _open(plan, folder, options, run, interruptions)
    with ending.brought_about():
        choices = EngineOptions(
            keep_going=options.keep_going, manages_workers=session.manages_workers, ahead_seconds=_AHEAD
        )
        loop = Loop(Engine(plan, choices), session, journal, envelopes, store, watched, interruptions)
        ending.status = loop.run(_first_events(plan, store, envelopes, options, run=run, at=started))
        if ending.status != "cancelled":
            ending.publication = _publish(plan, envelopes, store, folder, watched, interruptions)
    with ending.brought_about():
        session.close()
    with ending.brought_about():
        kept = len(plan.tasks) if ending.status == "succeeded" else _kept(plan, _whole_tasks(plan, store, envelopes))
        _finish(folder, journal, watched, ending, started=started, kept=kept)
    if ending.problem is not None:
        raise ending.problem


def _open(plan: Plan, folder: RunFolder, options: RunOptions, run: str, interruptions: Interruptions) -> Session:
    backend = backend_of(plan)
    request = SessionRequest(
        run=run,
        program=make_program(plan, store=folder.store, files=folder.products, debug=folder.path / "debug"),
        pools=plan.placement.pools,
        store=folder.store,
        logs=folder.debug,
        cpus=options.workers or options.cpus,
        small=_values(plan) < _SMALL_VALUES and options.workers is None,
        clock=time.time,
    )
    session = backend.open(request)
    if not isinstance(session, JoinedSession):
        return session
    strategies = _strategies(plan)
    return WorkerJobs(
        session,
        request.pools,
        strategies,
        run=run,
        logs=request.logs,
        clock=time.time,
        hurried=lambda: interruptions.hurried,
    )


def _strategies(plan: Plan) -> dict[str, Strategy]:
    """Pool → its strategy. Pools with the same settings share one: it knows of all its workers (their GPUs)."""
    found: dict[str, Strategy] = {}
    for pool in plan.placement.pools:
        own = strategy_of(plan, pool)
        found[pool.name] = next((other for other in found.values() if _alike(own, other)), own)
    return found


def _alike(one: Strategy, other: Strategy) -> bool:
    return type(one) is type(other) and one.model_dump() == other.model_dump()


def _values(plan: Plan) -> int:
    """How many values will be read: events times columns."""
    return sum(
        partition.events * len(segment.source.columns.get(partition.dataset, ()))
        for segment in plan.segments
        if segment.source is not None
        for partition in plan.partitions
        if partition.source == segment.source.id
    )


def _first_events(
    plan: Plan, store: Store, envelopes: Envelopes, options: RunOptions, *, run: str, at: float
) -> list[AnyEvent]:
    """The start, what is known beforehand, and (when resuming) the tasks whose results are still there."""
    events: list[AnyEvent] = [
        RunStarted(at=at, run=run, plan_digest=plan.digest, tasks=len(plan.tasks), resumed=options.resume)
    ]
    events += [Warned(at=at, message=message) for message in plan.warnings]
    if options.resume:
        events += [TaskReused(at=at, task=task) for task in _whole_tasks(plan, store, envelopes)]
    return events


def _whole_tasks(plan: Plan, store: Store, envelopes: Envelopes) -> list[int]:
    """Tasks that need not be repeated: everything that they made is in the store, events for other pools included."""
    there = store.names()
    return [
        task
        for task in range(len(plan.tasks))
        if plan.tasks.key(task) in there and all(name in there for name in envelopes.stored_names(task))
    ]


def _kept(plan: Plan, whole: Collection[int]) -> int:
    """How many tasks a resumed run would not repeat: those that are whole, and those that only such ones read."""
    there, read, asked = set(whole), set[int](), set[int]()
    kept = 0
    for task in reversed(range(len(plan.tasks))):
        needs = plan.tasks.needs_of(task)
        if task in there or (task in read and task not in asked):
            kept += 1
        else:
            asked.update(needs)
        read.update(needs)
    return kept


def _publish(
    plan: Plan,
    envelopes: Envelopes,
    store: Store,
    folder: RunFolder,
    watched: _Watched,
    interruptions: Interruptions,
) -> Publication:
    names = {product.name: envelopes.name_of(product.task) for product in plan.products}
    partial = {product.name for product in plan.products if envelopes.is_partial(product.task)}

    def told(done: int, products: int) -> None:
        watched.saved(done, products)
        interruptions.check()

    return publish(plan, store, folder, names=names, partial=partial, told=told)


def _finish(
    folder: RunFolder, journal: Journal, watched: _Watched, ending: _Ending, *, started: float, kept: int
) -> None:
    if ending.publication.failures and ending.status == "succeeded":
        ending.status = "partial"
    at = time.time()
    with ending.brought_about():  # the summary may find room where the journal did not
        journal.write([RunFinished(at=at, status=ending.status, seconds=at - started)])
    watched([RunFinished(at=at, status=ending.status, seconds=at - started)])
    summary: dict[str, Any] = watched.view.summary()
    summary["tasks"]["kept"] = kept
    summary["products"] = [asdict(product) for product in ending.publication.products]
    summary["failures"] += [_failure_as_json(failure) for failure in ending.publication.failures]
    write_json(folder.summary, summary)
    MemoryHistory().add(watched.memory.found(), at=at)
    watched.show()


def add_failure(folder: RunFolder, problem: BaseException) -> None:
    """A run that was over has failed after all: its summary says so, or is gone where it cannot be written."""
    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    summary["status"] = "failed"
    summary["failures"].append(_failure_as_json(_failure_of_run(problem)))
    folder.summary.unlink()
    write_json(folder.summary, summary)


def _failure_of_run(problem: BaseException) -> FailureInfo:
    return msgspec.structs.replace(failure_of(problem), stage="the run", traceback=None)


def _failure_as_json(failure: FailureInfo) -> dict[str, Any]:
    return {
        "stage": failure.stage,
        "cause": failure.cause,
        "message": failure.message,
        "kind": failure.error_kind or errors.STAGE_FAILED.name,
    }
