"""This file executes a plan in a folder: opens the session, finds finished work again, and leaves everything behind."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cenote.backends.interface import JoinedSession, Session, SessionRequest
from cenote.engine.machine import Engine
from cenote.engine.messages import AnyEvent, RunFinished, RunStarted, TaskReused, Tick, Warned
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
from cenote.strategies.interface import Strategy
from cenote.worker.store import Store

Listener = Callable[[RunView], None]
Hearer = Callable[[Plan, AnyEvent], None]
"""Hears of every event of the run, once it is written down."""
_BETWEEN_TASKS = 0.2
"""Seconds that a run must be at rest before it is shown so: one task has ended, the next is about to start."""
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

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        clock: Callable[[], float],
        listen: Listener | None,
        hear: Hearer | None,
    ) -> None:
        self._plan, self._hear = plan, hear
        self.view, self.memory = RunView(RunFacts.from_plan(plan)), MemorySeen(plan)
        self._listen, self._clock, self._shown = listen, clock, 0.0
        self._shown_at_rest = True
        self._at_rest_since: float | None = 0.0
        """None while a task runs."""
        self._pulse = Pulse(folder, clock)

    def __call__(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self.view.apply(event)
            self.memory.take(event)
            if self._hear is not None:
                self._hear(self._plan, event)
        self._pulse()
        now = self._clock()
        at_work = self.view.at_work
        if at_work or self._at_rest_since is None:
            self._at_rest_since = None if at_work else now
        began = at_work and self._shown_at_rest  # the next news may be a long task away
        rested = self._at_rest_since is not None and now - self._at_rest_since >= _BETWEEN_TASKS
        saves = self.view.saved is not None
        if began or (now - self._shown > 0.1 and (at_work or rested or saves)):
            self._shown = now
            self.show()

    def saved(self, done: int, products: int) -> None:
        begins = self.view.saved is None
        self.view.saved = (done, products)
        self([Tick(at=self._clock())])
        if begins:  # drawing the first product may take long
            self.show()

    def show(self) -> None:
        self._shown_at_rest = not self.view.at_work
        if self._listen is not None:
            self._listen(self.view)


def execute(
    plan: Plan, out: Path, options: RunOptions, listen: Listener | None = None, hear: Hearer | None = None
) -> RunFolder:
    """Run a plan to its end. Whatever happens, the folder tells of it afterwards."""
    folder = RunFolder(out)
    folder.refuse(resume=options.resume, replace=options.replace)
    with folder.lock():
        folder.prepare(resume=options.resume, replace=options.replace)
        write_json(folder.plan, plan_as_json(plan))
        folder.picture.write_text(svg(plan), encoding="utf-8")
        write_json(folder.provenance, provenance(plan, command=options.command))
        watched = _Watched(plan, folder, time.time, listen, hear)
        journal = Journal(folder.path)
        try:
            _drive(plan, folder, options, journal, watched)
        finally:
            journal.close()
    return folder


def _drive(plan: Plan, folder: RunFolder, options: RunOptions, journal: Journal, watched: _Watched) -> None:
    store = Store(folder.store)
    envelopes = Envelopes(plan)
    run = uuid.uuid4().hex[:12]
    session = _open(plan, folder, options, run)
    choices = EngineOptions(
        keep_going=options.keep_going, manages_workers=session.manages_workers, ahead_seconds=_AHEAD
    )
    engine = Engine(plan, choices)
    loop = Loop(engine, session, journal, envelopes, store, watched)
    started = time.time()
    status: Status = "failed"
    publication = Publication()
    try:
        status = loop.run(_first_events(plan, store, envelopes, options, run=run, at=started))
        if status != "cancelled":
            publication = _publish(plan, envelopes, store, folder, watched)
    except KeyboardInterrupt:
        status = "cancelled"
        raise
    finally:
        try:
            session.close()
        finally:
            kept = len(plan.tasks) if status == "succeeded" else len(_kept(plan, _whole_tasks(plan, store, envelopes)))
            _finish(folder, journal, watched, publication, status=status, started=started, kept=kept)


def _open(plan: Plan, folder: RunFolder, options: RunOptions, run: str) -> Session:
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
    return WorkerJobs(session, request.pools, strategies, run=run, logs=request.logs, clock=time.time)


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


def tasks_to_reuse(plan: Plan, out: Path) -> frozenset[int]:
    """The tasks that a run which goes on in this folder would not run."""
    folder = RunFolder(out)
    if not folder.holds_run:
        return frozenset()
    return frozenset(_kept(plan, _whole_tasks(plan, Store(folder.store), Envelopes(plan))))


def _kept(plan: Plan, whole: Collection[int]) -> list[int]:
    """The tasks that a resumed run would not repeat: those that are whole, and those that only such ones read."""
    there, read, asked = set(whole), set[int](), set[int]()
    kept = []
    for task in reversed(range(len(plan.tasks))):
        needs = plan.tasks.needs_of(task)
        if task in there or (task in read and task not in asked):
            kept.append(task)
        else:
            asked.update(needs)
        read.update(needs)
    return kept


def _publish(plan: Plan, envelopes: Envelopes, store: Store, folder: RunFolder, watched: _Watched) -> Publication:
    names = {product.name: envelopes.name_of(product.task) for product in plan.products}
    partial = {product.name for product in plan.products if envelopes.is_partial(product.task)}
    watched.saved(0, len(plan.products))
    return publish(plan, store, folder, names=names, partial=partial, told=watched.saved)


def _finish(
    folder: RunFolder,
    journal: Journal,
    watched: _Watched,
    publication: Publication,
    *,
    status: Status,
    started: float,
    kept: int,
) -> None:
    if publication.failures and status == "succeeded":
        status = "partial"
    at = time.time()
    finished = RunFinished(at=at, status=status, seconds=at - started)
    journal.write([finished])
    watched([finished])
    summary: dict[str, Any] = watched.view.summary()
    summary["tasks"]["kept"] = kept
    summary["products"] = [asdict(product) for product in publication.products]
    summary["failures"] += [
        {"stage": f.stage, "cause": f.cause, "message": f.message, "kind": f.error_kind} for f in publication.failures
    ]
    write_json(folder.summary, summary)
    MemoryHistory().add(watched.memory.found(), at=at)
    watched.show()
