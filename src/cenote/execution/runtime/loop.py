"""The driver's loop: journal events, let the engine decide, carry out its commands, show how the run is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from cenote.common.signals import Interruptions
from cenote.engine.machine import Engine
from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    CancelAsked,
    CancelTask,
    EndStatus,
    EndWorkers,
    FinishRun,
    ForgetTask,
    Record,
    RunStarted,
    RunTask,
    StartWorkers,
    StopWorkers,
    TaskDone,
    TaskFailed,
    Tick,
)
from cenote.execution.backends.interface import EventSource, Session, Workers
from cenote.execution.packing.archive import Progress, unheard
from cenote.execution.runs.folder import Pulse
from cenote.execution.runs.journal import Journal
from cenote.execution.runs.view.counts import TasksSeen
from cenote.execution.runs.view.view import RunView
from cenote.execution.runtime.modifier_files import ModifierFiles
from cenote.execution.runtime.results import Results
from cenote.execution.runtime.task_specs import TaskSpecs
from cenote.planning.inputs.metadata import InputsProgress
from cenote.planning.plan import Plan
from cenote.planning.record import PlanRecord

_WAIT = 0.25
"""Seconds without news after which the engine gets a Tick."""


@dataclass
class Loop:
    """Drives one run to its end. Everything that happens comes through `_take`, in one order."""

    engine: Engine
    session: Session
    workers: Workers | None
    """None where they join by themselves: the engine asks for none."""
    news: EventSource
    """What happens to tasks and workers."""
    journal: Journal
    specs: TaskSpecs
    results: Results
    files: ModifierFiles
    listen: Callable[[Sequence[AnyEvent]], None]
    """Gets every event after it is journalled."""
    interruptions: Interruptions
    clock: Callable[[], float] = time.time
    status: EndStatus | None = None
    unseen: list[AnyEvent] = field(default_factory=list)
    """Journalled, and not given to `listen` yet."""

    def run(self, first: Iterable[AnyEvent]) -> EndStatus:
        """Until the engine says that the run is over. The first signal asks it for the end, the next for haste."""
        if self.interruptions.count:
            return self._not_begun(first)
        heard = 0
        self._take(list(first))
        while self.status is None:
            events: list[AnyEvent] = self.news.events(_WAIT)
            if self.interruptions.count > heard:
                heard = self.interruptions.count
                events.append(CancelAsked(at=self.clock()))
            self._take(events or [Tick(at=self.clock())])
        return self.status

    def _not_begun(self, first: Iterable[AnyEvent]) -> EndStatus:
        """A run that was asked to end before it began: it is journalled, and no worker is asked for."""
        events: list[AnyEvent] = [*first, CancelAsked(at=self.clock())]
        self._take(events, decide_on=[event for event in events if not isinstance(event, RunStarted)])
        return "cancelled"

    def _take(self, events: list[AnyEvent], *, decide_on: Sequence[AnyEvent] | None = None) -> None:
        """Journal the events, carry out what the engine decides on them, and show both at once."""
        events = [self.files.put_away(event) if isinstance(event, TaskDone) else event for event in events]
        self._journal(events)
        try:
            for event in events if decide_on is None else decide_on:
                if isinstance(event, TaskDone):
                    self.results.keep(self.specs, event)
                if isinstance(event, TaskDone | TaskFailed):
                    self.results.take_away(self.specs, event.task)
                for command in self.engine.handle(event):
                    self._carry_out(command)
        finally:
            shown, self.unseen = self.unseen, []
            self.listen(shown)

    def _journal(self, events: Sequence[AnyEvent]) -> None:
        self.journal.write(event for event in events if not isinstance(event, Tick))
        self.unseen += events

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case RunTask(task, pool, attempt, split, missing):
                spec = self.specs.write(task, attempt=attempt, split=split, missing=missing)
                self.results.lay_out_for(spec, self.specs)
                self.session.run(spec, pool)
            case CancelTask(task):
                self.session.cancel(task)
            case StartWorkers() | StopWorkers() | EndWorkers():
                assert self.workers is not None, "the engine knows whether it manages workers"
                _change(self.workers, command)
            case Record(event):
                self._journal([event])
            case ForgetTask(task):
                self.session.forget(self.results.forget(self.specs, task))
            case FinishRun(status):
                self.status = status
            case _:
                assert_never(command)


def _change(these: Workers, command: StartWorkers | StopWorkers | EndWorkers) -> None:
    match command:
        case StartWorkers(pool, count):
            these.start_workers(pool, count)
        case StopWorkers(pool, workers, reason):
            these.stop_workers(pool, workers, reason)
        case EndWorkers(pool, workers, reason):
            these.end_workers(pool, workers, reason)


# Keep the view of a run up to date while it is driven, and show it.


RunListener = Callable[[RunView], None]
Hearer = Callable[[Plan, AnyEvent], None]
"""Hears of every event of the run, once it is written down."""


@dataclass(frozen=True)
class RunProgress:
    """Who is shown how far a run is; nobody, where it does not say so."""

    planning: InputsProgress = unheard
    """Before there is a plan."""
    packing: Progress = unheard
    """Before there are workers: while their software is packed."""
    view: RunListener = unheard
    """The state of the run, a few times a second."""
    event: Hearer = unheard


NO_PROGRESS = RunProgress()
_BETWEEN_TASKS = 0.2
"""Seconds that a run must be at rest before it is shown so: one task has ended, the next is about to start."""


class WatchedRun:
    """Keeps the view of the run up to date and shows it, not more often than a person can read."""

    def __init__(
        self,
        plan: Plan,
        record: PlanRecord,
        pulse: Pulse,
        clock: Callable[[], float],
        progress: RunProgress,
    ) -> None:
        self._plan, self._progress = plan, progress
        self.view, self.memory = RunView(record, plan.probes), TasksSeen(plan)
        self._clock, self._shown = clock, 0.0
        self._shown_at_rest = True
        self._at_rest_since: float | None = 0.0
        """None while a task runs."""
        self._pulse = pulse

    def __call__(self, events: Iterable[AnyEvent]) -> None:
        for event in events:
            self.view.apply(event)
            self.memory.take(event)
            self._progress.event(self._plan, event)
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
        """So many products are saved, of how many."""
        begins = self.view.saved is None
        self.view.saved = (done, products)
        self([Tick(at=self._clock())])
        if begins:  # drawing the first product may take long
            self.show()

    def show(self) -> None:
        """Now."""
        self._shown_at_rest = not self.view.at_work
        self._progress.view(self.view)
