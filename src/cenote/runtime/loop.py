"""The driver's loop: journal events, let the engine decide, carry out its commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from cenote.backends.interface import Session
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
from cenote.runs.journal import Journal
from cenote.runtime.modifier_files import ModifierFiles
from cenote.runtime.results import Results
from cenote.runtime.task_specs import TaskSpecs
from cenote.signals import Interruptions

_WAIT = 0.25
"""Seconds without news after which the engine gets a Tick."""


@dataclass
class Loop:
    """Drives one run to its end. Everything that happens comes through `_take`, in one order."""

    engine: Engine
    session: Session
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
            events: list[AnyEvent] = self.session.events(_WAIT)
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
            case StartWorkers(pool, count):
                self.session.start_workers(pool, count)
            case StopWorkers(pool, workers, reason):
                self.session.stop_workers(pool, workers, reason)
            case EndWorkers(pool, workers, reason):
                self.session.end_workers(pool, workers, reason)
            case Record(event):
                self._journal([event])
            case ForgetTask(task):
                self.session.forget(self.results.forget(self.specs, task))
            case FinishRun(status):
                self.status = status
            case _:
                assert_never(command)
