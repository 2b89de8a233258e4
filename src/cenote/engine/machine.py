"""The engine's one door: an event comes in, the commands that follow from it go out."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import assert_never

from cenote.engine.autoscaler import Autoscaler
from cenote.engine.capacity import Pools
from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    CancelAsked,
    CancelTask,
    CredentialRenewed,
    EndStatus,
    FailureInfo,
    FellBack,
    FinishRun,
    ForgetTask,
    JobChanged,
    PoolChanged,
    PoolHeld,
    Record,
    ResultLost,
    ResultNotNeeded,
    RunFinished,
    RunStarted,
    RunTask,
    StopWorkers,
    TaskDone,
    TaskFailed,
    TaskGivenUp,
    TaskReused,
    TasksAbandoned,
    TasksNotNeeded,
    TaskSplit,
    TaskStarted,
    Tick,
    Warned,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.engine.recovery.moving import TaskMover
from cenote.engine.recovery.retries import Attempts, History, WorkerToll, decide
from cenote.engine.scaling import Load
from cenote.engine.task_classes import EngineOptions, TaskClasses
from cenote.engine.tasks import READY, SENT, ReadyTasks, TaskStates, ranges_of
from cenote.planning.plan import Plan


class RunPhase(Enum):
    """How far the run is."""

    NEW = "not started"
    GOING = "sends work"
    STOPPING = "sends no more work and waits for running tasks"
    OVER = "finished"


class Engine:
    """Decides what happens next, and nothing else: no clock, no I/O, no threads, no randomness.

    Events may come twice, late, or about tasks and workers that it does not know: the first success of a task
    counts, and FinishRun comes exactly once.
    """

    def __init__(self, plan: Plan, options: EngineOptions = EngineOptions()) -> None:  # noqa: B008 (frozen)
        self._plan = plan
        self._options = options
        self._classes = TaskClasses(plan)
        self._states = TaskStates(plan, self._classes)
        self._pools = Pools(options.window_per_slot, options.ahead_seconds)
        self._ready = ReadyTasks(plan, self._classes, self._states, self._pools)
        self._attempts = Attempts(len(plan.tasks))
        self._autoscaler = Autoscaler(plan.placement.pools, options.limits)
        self._moving = TaskMover(
            plan, self._classes, self._states, self._ready, self._attempts, self._autoscaler, options
        )
        self._toll = WorkerToll(options.limits.lost)
        self._now = 0.0
        self._failures: dict[int, FailureInfo] = {}
        self._phase = RunPhase.NEW
        self._ending: EndStatus = "succeeded"

    def handle(self, event: AnyEvent) -> list[AnyCommand]:
        """What to do now that this has happened. Nothing comes out after FinishRun."""
        if self._phase is RunPhase.OVER:
            return []
        self._now = max(self._now, event.at)
        commands: list[AnyCommand] = []
        match event:
            case TaskDone():
                self._task_done(event, commands)
            case TaskStarted():
                self._attempts.take(event.task, event.attempt, event.worker)
                return commands
            case TaskFailed():
                self._task_failed(event, commands)
            case TaskReused():
                self._task_reused(event, commands)
            case ResultLost():
                self._autoscaler.make_again(event)
            case ResultNotNeeded():
                self._autoscaler.spare(event)
            case WorkerJoined():
                if self._autoscaler.join(event, commands):
                    self._pools[event.pool].join(event.worker, event.slots)
            case WorkerLeaving():
                self._autoscaler.leave(event)
                self._pools[event.pool].leave(event.worker)
            case WorkerSilent():
                if self._options.manages_workers and self._autoscaler.fall_silent(event):
                    self._pools[event.pool].hold(event.worker, self._attempts.tasks_on(event.worker))
            case WorkerAnswers():
                if slots := self._autoscaler.answer(event):
                    self._pools[event.pool].join(event.worker, slots)
            case WorkerLost():
                self._autoscaler.lose(event, tasks=self._attempts.tasks_on(event.worker))
                self._pools[event.pool].leave(event.worker)
            case WorkerRequested():
                self._autoscaler.request(event)
            case JobChanged():
                self._autoscaler.change_job(event)
            case RunStarted():
                self._run_started(commands)
            case CancelAsked():
                self._cancel_asked(commands)
            case Tick():
                pass
            case Warned() | CredentialRenewed() | PoolHeld() | RunFinished():
                return commands
            case TaskGivenUp() | TasksNotNeeded() | TasksAbandoned() | TaskSplit() | FellBack() | PoolChanged():
                return commands
            case _:
                assert_never(event)
        if not isinstance(event, TaskReused):  # those come in a row, and are recorded together
            self._record_not_needed(commands)
        self._follow_up(commands)
        return commands

    @property
    def failures(self) -> Mapping[int, FailureInfo]:
        """The tasks that failed for good, and why."""
        return self._failures

    def _task_done(self, event: TaskDone, commands: list[AnyCommand]) -> None:
        task = event.task
        self._autoscaler.task_done(event)
        if not self._was_tried(task):
            return
        if task in self._attempts.out:
            if not self._attempts.is_current(task, event.attempt):
                commands.append(CancelTask(task))
            self._attempts.out[task].finish(event.seconds, event.fetch_seconds)
            self._attempts.come_back(task)
        self._toll.settle(int(self._plan.tasks.segment[task]))
        self._states.finish(task)
        self._record_abandoned(commands)

    def _task_failed(self, event: TaskFailed, commands: list[AnyCommand]) -> None:
        if self._attempts.is_current(event.task, event.attempt):
            self._not_done(event, commands)

    def _task_reused(self, event: TaskReused, commands: list[AnyCommand]) -> None:
        if not 0 <= event.task < len(self._states):
            return
        if event.task in self._attempts.out:
            commands.append(CancelTask(event.task))
            self._attempts.come_back(event.task)
        self._states.reuse(event.task)

    def _cancel_asked(self, commands: list[AnyCommand]) -> None:
        """The first time: stop, and wait for what workers have. Asked again, or while stopping anyway: end at once."""
        if self._phase is RunPhase.STOPPING:
            self._finish(self._ending, commands)
        else:
            self._stop("cancelled", commands)

    def _run_started(self, commands: list[AnyCommand]) -> None:
        if self._phase is RunPhase.NEW:
            self._phase = RunPhase.GOING
            if self._options.manages_workers:
                commands += self._moving.passed_over(self._now)

    def _not_done(self, event: TaskFailed, commands: list[AnyCommand]) -> None:
        """A task came back without success: once more, or failed."""
        task = event.task
        self._attempts.come_back(task)
        if self._phase is RunPhase.STOPPING:
            self._states.take_back(task)
        elif not self._states.is_wanted(task):
            self._states.drop(task)
            self._record_abandoned(commands)
        elif (final := self._try_again(event, commands)) is not None:
            self._fail(task, event.pool, event.worker, final, commands)
        else:
            self._states.take_back(task)
            self._ready.add([task])

    def _try_again(self, event: TaskFailed, commands: list[AnyCommand]) -> FailureInfo | None:
        """Decide on the next attempt at a task; returns why there is none, if there is none."""
        fate, alone = (event.failure.fate, True) if event.failure.fate else self._autoscaler.fate_of(event.worker)
        starved = event.failure.cause == "oom" or (event.failure.cause == "lost" and fate == "oom" and alone)
        if starved and self._options.manages_workers:
            return self._moving.after_out_of_memory(event, self._now, commands)
        segment = self._plan.segments[int(self._plan.tasks.segment[event.task])]
        history = self._attempts.history.get(event.task, History())
        decision = decide(event.failure, history, segment, self._options.limits, fate=fate, alone=alone)
        self._attempts.history[event.task] = decision.history
        if not decision.again:
            return decision.failure
        workers = self._autoscaler.pools.get(event.pool) if self._options.manages_workers else None
        if workers is not None and (final := self._toll.pay(event, segment.index, fate, workers.pool)) is not None:
            return final
        if fate == "preempted" and self._options.manages_workers:
            self._moving.after_preemption(event, self._now, commands)
        return None

    def _fail(self, task: int, pool: str, worker: str, failure: FailureInfo, commands: list[AnyCommand]) -> None:
        """A task failed for good."""
        self._failures[task] = failure
        commands.append(Record(TaskGivenUp(at=self._now, task=task, pool=pool, worker=worker, failure=failure)))
        skips = failure.cause == "bad_input" and failure.dataset in self._options.skips
        if self._options.keep_going or skips:
            self._states.fail(task)
            self._record_abandoned(commands, failed=task)
        else:
            self._states.stop_at(task)
            self._stop("failed", commands)

    def _was_tried(self, task: int) -> bool:
        """Whether a success of this task counts: it was sent at least once, and nothing is settled yet."""
        known = 0 <= task < len(self._states)
        return known and self._attempts.number(task) > 0 and self._states.codes[task] in (READY, SENT)

    def _follow_up(self, commands: list[AnyCommand]) -> None:
        """Forget what no task reads, send what is ready, and finish when there is nothing left."""
        if self._states.unread:
            commands += [ForgetTask(task) for task in self._states.unread]
            self._states.unread.clear()
        if self._options.manages_workers and self._phase is RunPhase.GOING and self._autoscaler.is_due(self._now):
            self._scale_pools(commands)
        if self._phase is RunPhase.GOING:
            self._send(commands)
            if not self._attempts.out and self._states.open_results == 0:
                self._finish(self._outcome(), commands)
        elif self._phase is RunPhase.STOPPING and not self._attempts.taken:
            self._finish(self._ending, commands)

    def _send(self, commands: list[AnyCommand]) -> None:
        if self._states.ready:
            self._ready.add(self._states.ready)
            self._states.ready.clear()
        while (choice := self._ready.next()) is not None:
            task, pool = choice
            self._states.send(task)
            attempt = self._attempts.send(task, pool)
            pieces, missing = self._attempts.pieces.get(task, 1), self._states.missing_needs(task)
            commands.append(RunTask(task, pool.name, attempt, pieces, missing))

    def _scale_pools(self, commands: list[AnyCommand]) -> None:
        """Move what has waited in vain, then start and stop workers for the work that each pool has now."""
        for task, pool, failure in self._moving.leave_pools(self._now, commands):
            self._fail(task, pool, "", failure, commands)
            if self._phase is not RunPhase.GOING:
                return
        loads = {name: self._load(name) for name in self._autoscaler.pools}
        for command in self._autoscaler.scale(loads, self._attempts.busy_workers, self._now):
            commands.append(command)
            if isinstance(command, StopWorkers):
                self._pools[command.pool].leave(*command.workers)

    def _load(self, pool: str) -> Load:
        states, again = self._states, self._autoscaler.made_again_in(pool)
        return Load(
            waiting=sum(states.count(number, READY) for number in self._classes.choosing.get(pool, ())),
            sent=self._pools[pool].sent + again,
            to_come=sum(states.count_open(number) for number in self._classes.reaching.get(pool, ())) + again,
        )

    def _stop(self, status: EndStatus, commands: list[AnyCommand]) -> None:
        """Send no more work, and call back what is out."""
        self._phase = RunPhase.STOPPING
        self._ending = status
        commands += [CancelTask(task) for task in self._attempts.out]

    def _record_not_needed(self, commands: list[AnyCommand]) -> None:
        if self._states.not_needed:
            commands.append(Record(TasksNotNeeded(at=self._now, tasks=ranges_of(self._states.not_needed))))
            self._states.not_needed.clear()

    def _record_abandoned(self, commands: list[AnyCommand], *, failed: int | None = None) -> None:
        """What was abandoned by now, because of this task or one before it."""
        found = self._states.abandoned
        if not found:
            return
        if failed is None:
            failed = next((self._states.blame[task] for task in found if task in self._states.blame), None)
        reason = "nothing that would read them runs" if failed is None else f"task {failed} failed"
        commands.append(Record(TasksAbandoned(at=self._now, tasks=ranges_of(found), reason=reason, failed=failed)))
        found.clear()

    def _record_rest(self, status: EndStatus, commands: list[AnyCommand]) -> None:
        """What the run ends without."""
        if rest := self._states.unsettled():
            failed = None if status == "cancelled" else next(reversed(self._failures), None)
            reason = "the run was cancelled" if failed is None else f"task {failed} failed"
            commands.append(Record(TasksAbandoned(at=self._now, tasks=ranges_of(rest), reason=reason, failed=failed)))

    def _outcome(self) -> EndStatus:
        if not self._failures:
            return "succeeded"
        return "partial" if self._states.results_there else "failed"

    def _finish(self, status: EndStatus, commands: list[AnyCommand]) -> None:
        self._phase = RunPhase.OVER
        self._record_not_needed(commands)
        self._record_rest(status, commands)
        if self._options.manages_workers:
            reason = "the run was cancelled" if status == "cancelled" else "the run is over"
            commands += self._autoscaler.close(reason, self._now)
        commands.append(FinishRun(status))
