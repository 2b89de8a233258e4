"""This file is the engine's one door: an event comes in, the commands that follow from it go out."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from enum import Enum
from typing import Literal, assert_never

from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    CancelAsked,
    CancelTask,
    FailureInfo,
    FellBack,
    FinishRun,
    ForgetTask,
    GiveUpTask,
    JobChanged,
    PoolChanged,
    RunFinished,
    RunStarted,
    RunTask,
    TaskDone,
    TaskFailed,
    TaskGivenUp,
    TaskReused,
    TaskStarted,
    Tick,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
)
from cenote.engine.options import EngineOptions
from cenote.engine.progress import Counts, Situation, count_tasks, reason_of_stage, reason_of_task
from cenote.engine.ready import ReadyTasks
from cenote.engine.retries import Decision, History, decide
from cenote.engine.tasks import DONE, PARTIAL, READY, SENT, TaskStates
from cenote.engine.workers import PoolRoom, Pools
from cenote.plan.plan import Plan

Status = Literal["succeeded", "partial", "failed", "cancelled"]


class Phase(Enum):
    """How far the run is."""

    NEW = "not started"
    GOING = "sends work"
    STOPPING = "sends no more work, waits for what workers have"
    OVER = "finished"


class Engine:
    """Decides what happens next, and nothing else: no clock, no I/O, no threads, no randomness.

    Events may come twice, late, or about tasks and workers that it does not know: the first success of a task
    counts, and FinishRun is said exactly once.
    """

    def __init__(self, plan: Plan, options: EngineOptions = EngineOptions()) -> None:  # noqa: B008 (frozen)
        self._plan = plan
        self._options = options
        self._states = TaskStates(plan)
        self._pools = Pools([pool.name for pool in plan.placement.pools], options.window_per_slot)
        self._ready = ReadyTasks(plan, self._states, self._pools)
        self._attempts = array("I", bytes(4 * len(plan.tasks)))
        self._out: dict[int, PoolRoom] = {}
        """Tasks that were sent and have not come back → their pool."""
        self._taken: dict[int, str] = {}
        """Of those, the ones that a worker said it has → the worker."""
        self._history: dict[int, History] = {}
        self._failures: dict[int, FailureInfo] = {}
        self._phase = Phase.NEW
        self._ending: Status = "succeeded"

    def handle(self, event: AnyEvent) -> list[AnyCommand]:
        """What to do now that this has happened. Nothing comes out after FinishRun."""
        if self._phase is Phase.OVER:
            return []
        commands: list[AnyCommand] = []
        match event:
            case TaskDone():
                self._task_done(event, commands)
            case TaskStarted():
                self._task_started(event)
                return commands
            case TaskFailed():
                self._task_failed(event, commands)
            case TaskReused():
                self._task_reused(event, commands)
            case WorkerJoined():
                self._pools.room(event.pool).join(event.worker, event.slots)
            case WorkerLost():
                self._pools.room(event.pool).leave(event.worker)
            case RunStarted():
                self._phase = Phase.GOING if self._phase is Phase.NEW else self._phase
            case CancelAsked():
                self._cancel_asked(commands)
            case Tick() | Warned() | TaskGivenUp() | FellBack() | PoolChanged() | RunFinished():
                return commands
            case WorkerRequested() | JobChanged():
                return commands
            case _:
                assert_never(event)
        self._follow_up(commands)
        return commands

    @property
    def phase(self) -> Phase:
        """How far the run is."""
        return self._phase

    @property
    def failures(self) -> Mapping[int, FailureInfo]:
        """The tasks that failed for good, and why."""
        return self._failures

    def usable_needs(self, task: int) -> list[int]:
        """The tasks whose results this one reads, in order; under keep-going a merge may miss some."""
        return self._states.usable_needs(task)

    def is_done(self, task: int) -> bool:
        """Whether its result is there; a merge without some of its parts counts."""
        return self._states.codes[task] in (DONE, PARTIAL)

    def is_partial(self, task: int) -> bool:
        """Whether it is a merge that was done without some of its parts: not to be reused by a later run."""
        return self._states.codes[task] == PARTIAL

    def counts(self, segment: int, *, merges: bool = False) -> Counts:
        """How far the tasks of a segment are, or its merges."""
        return count_tasks(self._states, segment, merges=merges)

    def waiting_reason(self, what: int | str) -> str:
        """Why a task (by number) or a stage (by id) is not done, in words."""
        now = Situation(self._plan, self._states, self._ready, self._taken, self._failures)
        return reason_of_task(what, now) if isinstance(what, int) else reason_of_stage(what, now)

    def _task_started(self, event: TaskStarted) -> None:
        if event.task in self._out and event.attempt in (0, self._attempts[event.task]):
            self._taken[event.task] = event.worker

    def _task_done(self, event: TaskDone, commands: list[AnyCommand]) -> None:
        task = event.task
        if not self._was_tried(task):
            return
        if task in self._out:
            if event.attempt not in (0, self._attempts[task]):
                commands.append(CancelTask(task))
            self._came_back(task)
        self._states.finish(task)

    def _task_failed(self, event: TaskFailed, commands: list[AnyCommand]) -> None:
        task = event.task
        if task in self._out and event.attempt in (0, self._attempts[task]):
            self._not_done(event, commands)

    def _task_reused(self, event: TaskReused, commands: list[AnyCommand]) -> None:
        if not 0 <= event.task < len(self._states):
            return
        if event.task in self._out:
            commands.append(CancelTask(event.task))
            self._came_back(event.task)
        self._states.reuse(event.task)

    def _cancel_asked(self, commands: list[AnyCommand]) -> None:
        """The first time: stop, and wait for what workers have. Asked again, or while stopping anyway: end at once."""
        if self._phase is Phase.STOPPING:
            self._finish(self._ending, commands)
        else:
            self._stop("cancelled", commands)

    def _not_done(self, event: TaskFailed, commands: list[AnyCommand]) -> None:
        """A task came back without success: once more, or failed."""
        task = event.task
        self._came_back(task)
        if self._phase is Phase.STOPPING:
            self._states.take_back(task)
            return
        if not self._states.is_wanted(task):
            self._states.drop(task)
            return
        decision = self._decision(task, event.failure)
        self._history[task] = decision.history
        if decision.again:
            self._states.take_back(task)
            self._ready.add([task])
            return
        self._failures[task] = decision.failure
        commands.append(GiveUpTask(task, event.pool, event.worker, decision.failure))
        if self._options.keep_going:
            self._states.fail(task)
        else:
            self._states.stop_at(task)
            self._stop("failed", commands)

    def _decision(self, task: int, failure: FailureInfo) -> Decision:
        segment = self._plan.segments[int(self._plan.tasks.segment[task])]
        return decide(failure, self._history.get(task, History()), segment, self._options)

    def _was_tried(self, task: int) -> bool:
        """Whether a success of this task counts: it was sent at least once, and nothing is settled yet."""
        known = 0 <= task < len(self._states)
        return known and self._attempts[task] > 0 and self._states.codes[task] in (READY, SENT)

    def _came_back(self, task: int) -> None:
        self._out.pop(task).sent -= 1
        self._taken.pop(task, None)

    def _follow_up(self, commands: list[AnyCommand]) -> None:
        """Forget what nobody reads, send what is ready, and finish when there is nothing left."""
        if self._states.unread:
            commands += [ForgetTask(task) for task in self._states.unread]
            self._states.unread.clear()
        if self._states.ready:
            self._ready.add(self._states.ready)
            self._states.ready.clear()
        if self._phase is Phase.GOING:
            self._send(commands)
            if not self._out and self._states.open_results == 0:
                self._finish(self._outcome(), commands)
        elif self._phase is Phase.STOPPING and not self._taken:
            self._finish(self._ending, commands)

    def _send(self, commands: list[AnyCommand]) -> None:
        while (choice := self._ready.next()) is not None:
            task, pool = choice
            self._states.send(task)
            self._attempts[task] += 1
            self._out[task] = pool
            pool.sent += 1
            commands.append(RunTask(task, pool.name, self._attempts[task]))

    def _stop(self, status: Status, commands: list[AnyCommand]) -> None:
        """Send no more work, and call back what is out."""
        self._phase = Phase.STOPPING
        self._ending = status
        commands += [CancelTask(task) for task in self._out]

    def _outcome(self) -> Status:
        if not self._failures:
            return "succeeded"
        return "partial" if self._states.results_there else "failed"

    def _finish(self, status: Status, commands: list[AnyCommand]) -> None:
        self._phase = Phase.OVER
        commands.append(FinishRun(status))
