"""The driver's loop: events are written down, the engine decides, its commands are carried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, assert_never

import msgspec

from cenote.backends.interface import Session
from cenote.engine.machine import Engine
from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    CancelAsked,
    CancelTask,
    EndWorkers,
    FellBack,
    FinishRun,
    ForgetTask,
    GiveUpTask,
    MoveTasks,
    NotePool,
    PoolChanged,
    RunTask,
    SplitTask,
    StartWorkers,
    StopWorkers,
    TaskGivenUp,
    TaskSplit,
    Tick,
)
from cenote.runs.journal import Journal
from cenote.runtime.task_specs import TaskSpecs
from cenote.signals import Interruptions
from cenote.worker.results.store import Store

EndStatus = Literal["succeeded", "partial", "failed", "cancelled"]
_WAIT = 0.25
"""Seconds without news after which the engine is told that time passed."""


@dataclass
class Loop:
    """Drives one run to its end. Everything that happens comes through `_take`, in one order."""

    engine: Engine
    session: Session
    journal: Journal
    envelopes: TaskSpecs
    store: Store
    listen: Callable[[Iterable[AnyEvent]], None]
    """Told of every event after it is written down."""
    interruptions: Interruptions
    clock: Callable[[], float] = time.time
    status: EndStatus | None = None

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
        """A run that was asked to end before it began: it is written down, and no worker is asked for."""
        events: list[AnyEvent] = [*first, CancelAsked(at=self.clock())]
        self.journal.write(events)
        self.listen(events)
        return "cancelled"

    def _take(self, events: list[AnyEvent]) -> None:
        self.journal.write(event for event in events if not isinstance(event, Tick))
        self.listen(events)  # before the commands: one of them may write down events of its own
        for event in events:
            for command in self.engine.handle(event):
                self._carry_out(command)

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case RunTask(task, pool, attempt, split):
                usable = self.engine.usable_needs(task)
                self.session.run(self.envelopes.write(task, attempt=attempt, usable=usable, split=split), pool)
            case CancelTask(task):
                self.session.cancel(task)
            case StartWorkers(pool, count):
                self.session.start_workers(pool, count)
            case StopWorkers(pool, workers, reason):
                self.session.stop_workers(pool, workers, reason)
            case EndWorkers(pool, workers, reason):
                self.session.end_workers(pool, workers, reason)
            case GiveUpTask() | SplitTask() | MoveTasks() | NotePool():
                self._take([_written_down(command, self.clock())])
            case ForgetTask(task):
                names = self.envelopes.stored_names(task)
                self.session.forget(names)
                for name in names:
                    self.store.remove(name)
            case FinishRun(status):
                self.status = status
            case _:
                assert_never(command)


def _written_down(decision: GiveUpTask | SplitTask | MoveTasks | NotePool, at: float) -> AnyEvent:
    """A decision of the engine, as the journal keeps it."""
    facts = msgspec.structs.asdict(decision)
    match decision:
        case GiveUpTask():
            return TaskGivenUp(at=at, **facts)
        case SplitTask():
            return TaskSplit(at=at, **facts)
        case MoveTasks():
            return FellBack(at=at, **facts)
        case NotePool():
            return PoolChanged(at=at, **facts)
