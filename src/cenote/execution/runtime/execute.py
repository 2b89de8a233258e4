"""Execute a plan in a folder: open the session, find finished work again, and leave every result there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cenote.common import errors, signals, storage
from cenote.common import signals as garbage
from cenote.common.errors import CenoteError
from cenote.common.signals import Interrupted, Interruptions
from cenote.common.text import worker_name
from cenote.common.values import dataclass
from cenote.engine.machine import Engine
from cenote.engine.messages import AnyEvent, EndStatus, RunFinished, RunStarted, TaskReused, Warned
from cenote.engine.task_classes import EngineOptions
from cenote.execution.backends.interface import (
    EventSource,
    ExpectedWork,
    JoinedSession,
    Session,
    SessionRequest,
    Workers,
)
from cenote.execution.launch import LaunchingRun, RunLocation
from cenote.execution.packing.archive import PackingStep
from cenote.execution.runs.changed.ingredients import Ingredients, ingredients_of, read_ingredients, write_ingredients
from cenote.execution.runs.configured import WorkerSetup, backend_of, strategy_of
from cenote.execution.runs.driver.socket import reachable
from cenote.execution.runs.folder import Pulse, RunFolder
from cenote.execution.runs.follow import read_summary
from cenote.execution.runs.journal import Journal
from cenote.execution.runs.provenance import Provenance, keep_before
from cenote.execution.runs.summary import FailureRecord
from cenote.execution.runtime.demand import Demand, running_stages, why
from cenote.execution.runtime.loop import NO_PROGRESS, Loop, RunProgress, WatchedRun
from cenote.execution.runtime.modifier_files import ModifierFiles
from cenote.execution.runtime.publish import Publication, Publisher, seals_of_pickles
from cenote.execution.runtime.results import Results
from cenote.execution.runtime.task_specs import make_run_spec
from cenote.execution.strategies.interface import Strategy
from cenote.execution.worker.failure import failure_of
from cenote.execution.worker.process.credentials import DeliveredCredential
from cenote.execution.worker.results.store import DamagedResultError, Store
from cenote.language.plugins.registry import runs_here
from cenote.planning.forecast.task_history import TaskHistory, task_key
from cenote.planning.forecast.time import seconds_of_work
from cenote.planning.outputs.rules import links_outside
from cenote.planning.plan import Plan
from cenote.planning.record import PlanRecord, write_record

if TYPE_CHECKING:  # runs without credentials do without what it brings
    from cenote.execution.runtime.credential_watch import Deliver

_SECONDS_PER_VALUE = 2.5e-7
"""What it takes to read a value (events × columns) and to use it, where no earlier run tells."""
_AHEAD = 0.2
"""Seconds of work to have out for each slot: longer than the way to a worker and back."""


@dataclass(frozen=True)
class RunOptions:
    """How to run, apart from what the workflow says."""

    fresh: bool = False
    """Forget what earlier runs left in the folder; otherwise what is unchanged is not done again."""
    force: frozenset[str] = frozenset()
    """Stages to be done again with all that follows them, although nothing of them has changed."""
    keep_going: bool = False
    workers: int | None = None
    """Processes at the most; None for one per core."""
    cpus: int = 1
    """Cores of this machine."""
    command: Sequence[str] | None = None


def execute(
    plan: Plan,
    out: Path,
    options: RunOptions,
    progress: RunProgress = NO_PROGRESS,
) -> RunFolder:
    """Run a plan to its end. Whatever happens, the folder tells of it afterwards.

    A signal ends it as cancelled. Paths are absolute: somebody's code may change the working directory.
    """
    garbage.look_again()
    named, folder = RunFolder(out), RunFolder(out.absolute())
    named.refuse()
    pulse = Pulse(folder, time.time)
    with (
        signals.noted() as interruptions,
        storage.explained(),
        named.lock() as lock,
        reachable(lock, pulse, interruptions) as unreachable,
    ):
        setup = WorkerSetup(plan)
        setup.check(time.time())

        def on_packing(step: PackingStep) -> None:
            pulse()
            interruptions.check()
            progress.packing(step)

        with signals.raised():  # nothing of the run is there yet
            setup.prepare(on_packing)
        resumed = folder.holds_run and not options.fresh
        keep_before(folder)
        folder.prepare(fresh=options.fresh)
        if astray := [*links_outside(plan, folder.path)]:
            raise CenoteError(astray)
        folder.summary.unlink(missing_ok=True)  # of an earlier attempt: this one is not over
        results = Results(plan, folder, options.force, fresh=options.fresh)
        before, after = read_ingredients(folder) if resumed else None, ingredients_of(plan)
        record = PlanRecord.of(plan)
        write_record(folder.plan, record)
        storage.write_text(folder.picture, _picture(plan))
        write_ingredients(folder.ingredients, after)
        provenance = Provenance.of(plan, setup.describe(), command=options.command)
        write_record(folder.provenance, provenance)
        watched = WatchedRun(plan, record, pulse, time.time, progress)
        journal = Journal(folder.path)
        try:
            driver = _Driver(
                plan,
                setup,
                folder,
                options,
                journal,
                watched,
                results,
                interruptions,
                unreachable,
                resumed=resumed,
                provenance=provenance,
                before=before,
                after=after,
            )
            with setup.credentials.used_here():
                while driver.drive():
                    pass  # a stored result was damaged: once more, with what is whole
        finally:
            journal.close()
            results.close()
    return folder


@dataclass
class _Ending:
    """How a run ends: what went wrong first counts, and the rest is still done."""

    status: EndStatus = "failed"
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
            self.status = "failed"
            if self.problem is None:
                self.problem = problem
                self.publication.failures.append(_failure_of_run(problem))


@dataclass(frozen=True)
class _Opened:
    """What runs the tasks of a run, and what comes before it."""

    backend: Session
    """As the backend opened it."""
    tasks: Session
    """Takes the tasks for it."""
    workers: Workers | None
    """Starts and ends its workers; None where they join by themselves."""
    news: EventSource
    """Reports for all of them, and closes all of them."""


@dataclass
class _Driver:
    """Drives a plan in its folder, again where a stored result proves to be damaged."""

    plan: Plan
    setup: WorkerSetup
    folder: RunFolder
    options: RunOptions
    journal: Journal
    watched: WatchedRun
    results: Results
    interruptions: Interruptions
    warnings: Sequence[str]
    """Of the run, which the plan does not know."""
    resumed: bool
    provenance: Provenance
    before: Ingredients | None
    """What the results of the run before in this folder are made of, and those of this one."""
    after: Ingredients

    def __post_init__(self) -> None:
        self.store = Store(self.folder.store)

    def drive(self) -> bool:
        """Run it once; returns whether to do so again, because a stored result proved to be damaged."""
        plan, results = self.plan, self.results
        again = False
        run = uuid.uuid4().hex[:12]
        started = time.time()
        ending = _Ending()
        at_last = ExitStack()
        specs = results.lay_out()
        if results.owners:
            others = tuple(sorted(results.owners))
            write_record(self.folder.provenance, msgspec.structs.replace(self.provenance, results_of=others))
        settled = len(plan.tasks) - len(specs.demand.made)
        opened = self._open(run, _expected_work(plan, settled=settled), at_last)
        with ending.brought_about():
            choices = EngineOptions(
                keep_going=self.options.keep_going,
                skips=frozenset(one.name for one in plan.workflow.datasets if one.on_bad_file == "skip"),
                limits=plan.limits,
                manages_workers=opened.workers is not None,
                ahead_seconds=_AHEAD,
            )
            engine = Engine(plan, choices)
            files = ModifierFiles(self.folder)
            publisher = Publisher(plan, self.store, self.folder, specs)
            at_last.callback(publisher.close)

            def listen(events: Sequence[AnyEvent]) -> None:
                self.watched(events)
                if not opened.backend.occupies_driver:
                    publisher.hear(events)

            loop = Loop(
                engine,
                opened.tasks,
                opened.workers,
                opened.news,
                self.journal,
                specs,
                results,
                files,
                listen,
                self.interruptions,
            )
            try:
                ending.status = loop.run(self._first_events(specs.demand, run=run, at=started))
                again = ending.status != "cancelled" and results.drop_damaged(engine.failures.values())
                if ending.status != "cancelled" and not again:
                    ending.publication = self._publish(publisher)
            except DamagedResultError as problem:  # one that the driver itself reads: to send it, or to publish it
                again = results.drop([problem.name])
                if not again:
                    raise errors.error(errors.DAMAGED_RESULT, f"{problem}, repeatedly") from problem
        with ending.brought_about():
            at_last.close()
        if ending.status != "succeeded":  # workers that were ended may have been writing
            for file in storage.unfinished(self.folder.path):
                storage.remove_unfinished(file)
        if not self.journal.is_there:  # nothing is left that could tell of the run: whatever was written is no run
            words = f"{self.folder.path} was removed while the run was going on: what was in it is lost"
            raise errors.error(errors.DAMAGED_RUN, words, hint="run again") from ending.problem
        if again and ending.problem is None and ending.status != "cancelled":
            return True
        with ending.brought_about():
            if ending.status == "succeeded":
                results.make_room(specs, seals_of_pickles(self.folder), plan.workflow.execution.store.limit)
                settled = len(plan.tasks)
            else:
                settled = len(plan.tasks) - len(results.demand().made)
            self._finish(ending, started=started, kept=settled)
        if ending.problem is not None:
            raise ending.problem
        return False

    def _first_events(self, demand: Demand, *, run: str, at: float) -> list[AnyEvent]:
        """The start, what is known beforehand, and the tasks that need not run."""
        plan = self.plan
        rows = why(plan, running_stages(plan, demand), self.before, self.after, self.options.force)
        events: list[AnyEvent] = [RunStarted(at=at, run=run, tasks=len(plan.tasks), resumed=self.resumed, why=rows)]
        warnings = (*plan.warnings, *self._new_warnings(), *self.warnings)
        events += [Warned(at=at, message=message) for message in warnings]
        idle = [task for task in range(len(plan.tasks)) if not demand.runs(task)]
        events += [TaskReused(at=at, task=task, needed=demand.reads(task)) for task in idle]
        return events

    def _new_warnings(self) -> list[str]:
        """What there is to say of earlier results."""
        found = list(self.results.warnings)
        self.results.warnings.clear()
        return found

    def _open(self, run: str, work: ExpectedWork, at_last: ExitStack) -> _Opened:
        """Start what runs the tasks; `at_last` ends it."""
        plan, folder, options = self.plan, self.folder, self.options
        setup = self.setup
        strategies = {} if runs_here(plan.workflow.execution.backend) else _strategies(plan)
        near = {name for name, strategy in strategies.items() if strategy.near}
        request = SessionRequest(
            run=LaunchingRun(run, folder.debug, RunLocation.here(folder.path)),
            run_spec=make_run_spec(plan, store=folder.store, files=folder.products),
            pools=tuple(replace(pool, near=pool.name in near) for pool in plan.placement.pools),
            store=folder.store,
            cpus=options.workers or options.cpus,
            work=work,
            processes_asked=options.workers is not None,
            in_process=not setup.needs_workers,
            clock=time.time,
            complete=setup.complete,
        )
        with ExitStack() as until_open:
            session = backend_of(plan).open(request)
            found = _Opened(session, session, None, session)
            until_open.callback(lambda: found.news.close())  # of whatever it is by then
            deliver = session.deliver if isinstance(session, JoinedSession) else _inherited
            if isinstance(session, JoinedSession):
                from cenote.execution.runtime.worker_jobs import WorkerJobs  # of runs with workers elsewhere alone

                pools = {
                    pool: (request.complete(session.launch(pool, lifetime=strategy.lifetime)), strategy)
                    for pool, strategy in strategies.items()
                }
                for pool, (launch, strategy) in pools.items():
                    strategy.render(launch, [worker_name(pool, 1)])  # what cannot be written down is refused now
                jobs = WorkerJobs(session, pools, clock=time.time, hurried=lambda: self.interruptions.hurried)
                found = replace(found, workers=jobs, news=jobs)
            if setup.credentials.all:
                found = self._guarded(found, deliver)
            at_last.push(until_open.pop_all())
        return found

    def _guarded(self, opened: _Opened, deliver: Deliver) -> _Opened:
        """With workers that always have credentials which hold."""
        from cenote.execution.runs.horizon import Horizon  # of runs with credentials alone
        from cenote.execution.runtime.credential_watch import CredentialGate, CredentialWatch

        names = [pool.name for pool in self.plan.placement.pools]
        watch = CredentialWatch(self.setup.credentials, names, deliver, lambda: Horizon.of(self.watched.view))
        gate = CredentialGate(opened.tasks, opened.news, watch, clock=time.time)
        watch.start()
        return replace(opened, tasks=gate, news=gate)

    def _publish(self, publisher: Publisher) -> Publication:
        def published(done: int, of: int) -> None:
            self.watched.saved(done, of)
            self.interruptions.check()

        return publisher.finish(published)

    def _finish(self, ending: _Ending, *, started: float, kept: int) -> None:
        if ending.publication.failures and ending.status == "succeeded":
            ending.status = "partial"
        with ending.brought_about():
            self._warn(dict.fromkeys([*self._new_warnings(), *ending.publication.warnings]))
            self._warn(self._conclude_modifiers())
        at = time.time()
        with ending.brought_about():  # the summary may find room where the journal did not
            self.journal.write([RunFinished(at=at, status=ending.status, seconds=at - started)])
        self.watched([RunFinished(at=at, status=ending.status, seconds=at - started)])
        published, watched = ending.publication, self.watched
        summary = watched.view.summary(products=published.products, failures=published.failures, kept=kept)
        write_record(self.folder.summary, summary)
        TaskHistory().add(watched.memory.found(), at=at)
        watched.show()

    def _conclude_modifiers(self) -> Iterable[str]:
        """Let modifiers make their files; gives what they cannot do."""
        view = self.watched.view
        stages = {stage.id: stage for stage in view.stages}
        return ModifierFiles(self.folder).conclude(view.plan, stages, view.compiled)

    def _warn(self, messages: Iterable[str]) -> None:
        for message in messages:
            warned = Warned(at=time.time(), message=message)
            self.journal.write([warned])
            self.watched([warned])


def _picture(plan: Plan) -> str:
    from cenote.planning.picture.draw import svg  # planning does without it

    return svg(plan)


def _inherited(pool: str, credentials: Sequence[DeliveredCredential]) -> None:
    """Workers that the session starts itself have the variables of this process, and read the user's own files."""


def _strategies(plan: Plan) -> dict[str, Strategy]:
    """Pool → its strategy. Pools with the same settings share one: it knows of all its workers (their GPUs)."""
    found: dict[str, Strategy] = {}
    for pool in plan.placement.pools:
        own = strategy_of(plan, pool)
        alike = (one for one in found.values() if type(one) is type(own) and one.model_dump() == own.model_dump())
        found[pool.name] = next(alike, own)
    return found


def _expected_work(plan: Plan, *, settled: int) -> ExpectedWork:
    """From what earlier runs took, or from what is read; of it the share that so many tasks leave to be done."""
    left = 1 - settled / max(1, len(plan.tasks))
    reads = [
        (partition.events, len(segment.source.columns.get(partition.dataset, ())))
        for segment in plan.segments
        if segment.source is not None
        for partition in plan.partitions
        if partition.source == segment.source.id
    ]
    seconds = seconds_of_work(plan, TaskHistory().of(task_key(segment) for segment in plan.segments))
    if seconds is None:
        seconds = _SECONDS_PER_VALUE * sum(events * columns for events, columns in reads)
    return ExpectedWork(seconds * left, round(left * sum(events for events, columns in reads if columns)))


def add_failure(folder: RunFolder, problem: BaseException) -> None:
    """A run that was over has failed after all: its summary says so, or is gone where it cannot be written."""
    summary = read_summary(folder)
    folder.summary.unlink(missing_ok=True)
    if summary is not None:
        failures = (*summary.failures, _failure_of_run(problem))
        write_record(folder.summary, msgspec.structs.replace(summary, status="failed", failures=failures))


def _failure_of_run(problem: BaseException) -> FailureRecord:
    return msgspec.structs.replace(FailureRecord.of(failure_of(problem)), stage="the run", traceback=None)
