"""Check every command of an engine against what must always hold."""

from __future__ import annotations

import math

from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    CancelTask,
    EndWorkers,
    FinishRun,
    ForgetTask,
    Record,
    RunTask,
    StopWorkers,
    TaskDone,
    TaskFailed,
    TaskGivenUp,
    TaskReused,
    TasksAbandoned,
    TasksNotNeeded,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerSilent,
)
from cenote.engine.tasks import tasks_in
from simulation.expected import Expected
from simulation.pool_rules import BrokenError, PoolWatch, require
from simulation.scenario import Scenario


class Watch:
    """Looks at everything that goes through one engine's door; raises BrokenError at the first wrong command."""

    def __init__(self, scenario: Scenario, expected: Expected, finished: frozenset[int]) -> None:
        """`finished` are the tasks that earlier lives of the run have done."""
        self._scenario = scenario
        self._expected = expected
        self._finished = finished
        self._pools = PoolWatch(scenario)
        self._slots: dict[str, dict[str, int]] = {}
        self._attempts: dict[int, int] = {}
        self._out: dict[int, str] = {}
        self._forgotten: set[int] = set()
        self._given_up: set[int] = set()
        self._left_out: set[int] = set()
        """Tasks that are not needed or were abandoned."""
        self._not_needed: set[int] = set()
        self._reused: set[int] = set()
        self._stopped: set[str] = set()
        self.known: set[int] = set()
        """Tasks that the engine was told are done."""
        self._silent: dict[str, tuple[str, int]] = {}
        """Workers that do not answer → their pool and slots: they keep what they have, and are sent nothing."""
        self._ended: set[str] = set()
        """Workers that are ended: whatever they answer comes too late."""
        self.status: str | None = None

    def saw(self, event: AnyEvent, attempt: int) -> None:
        """An event goes in; it is about this attempt, even where it does not say so."""
        self._pools.saw(event)
        match event:
            case TaskDone() | TaskReused():
                self.known.add(event.task)
                self._out.pop(event.task, None)
                if isinstance(event, TaskReused):
                    self._reused.add(event.task)
            case TaskFailed() if attempt == self._attempts.get(event.task):
                self._out.pop(event.task, None)
            case WorkerJoined() if event.worker not in self._stopped:
                self._slots.setdefault(event.pool, {})[event.worker] = event.slots
            case WorkerLeaving() | WorkerLost():
                self._slots.get(event.pool, {}).pop(event.worker, None)
                self._silent.pop(event.worker, None)
            case WorkerSilent() if event.worker in self._slots.get(event.pool, {}):
                self._silent[event.worker] = (event.pool, self._slots[event.pool].pop(event.worker))
            case WorkerAnswers() if event.worker in self._silent and event.worker not in self._ended:
                _, self._slots[event.pool][event.worker] = self._silent.pop(event.worker)
            case _:
                pass

    def check(self, commands: list[AnyCommand]) -> None:
        """Commands come out."""
        for command in commands:
            if self.status is not None:
                raise BrokenError(f"{command} after FinishRun")
            self._pools.check(command)
            match command:
                case StopWorkers(pool, workers):
                    self._stopped.update(workers)
                    for worker in workers:
                        self._slots.get(pool, {}).pop(worker, None)
                        self._silent.pop(worker, None)
                case EndWorkers(workers=workers):
                    self._ended.update(workers)
                case RunTask():
                    self._check_run(command)
                case ForgetTask(task):
                    self._check_forget(task)
                case CancelTask(task):
                    require(task in self._attempts, f"cancels task {task}, which never ran")
                    self._out.pop(task, None)
                case Record(TaskGivenUp(task=task)):
                    self._check_give_up(task)
                case Record(TasksNotNeeded() | TasksAbandoned() as event):
                    self._check_left_out(event)
                case FinishRun(status):
                    self.status = status
                    self._check_everything_is_settled()

    def _check_run(self, command: RunTask) -> None:
        task, plan = command.task, self._scenario.plan
        needs = plan.tasks.needs_of(task)
        usable = [need for need in needs if need not in command.missing]
        require(task not in self._left_out, f"runs task {task}, which is not needed or abandoned")
        require(set(command.missing) <= set(needs), f"task {task} misses {command.missing}, which it does not need")
        require(task not in self.known, f"runs task {task} again, which is done")
        require(task not in self._finished, f"runs task {task} again, which an earlier life has done")
        require(task not in self._out, f"runs task {task} twice at once")
        require(command.attempt == self._attempts.get(task, 0) + 1, f"miscounts the attempts of task {task}")
        require(self.known.issuperset(usable), f"runs task {task} before what it reads is done")
        expected = [need for need in needs if need in self._expected.values]
        require(usable == expected, f"task {task} reads {usable} instead of {expected}")
        self._attempts[task] = command.attempt
        self._out[task] = command.pool
        out = sum(pool == command.pool for pool in self._out.values())
        slots = sum(self._slots.get(command.pool, {}).values())
        window = math.ceil(slots * self._scenario.options.window_per_slot)
        held = sum(slots for pool, slots in self._silent.values() if pool == command.pool)
        require(out <= window + held, f"sends {out} tasks to '{command.pool}', whose window is {window}")

    def _check_forget(self, task: int) -> None:
        require(task in self.known, f"forgets task {task}, which is not done")
        require(task not in self._forgotten, f"forgets task {task} twice")
        require(task not in self._expected.results, f"forgets task {task}, which is a result")
        self._forgotten.add(task)

    def _check_left_out(self, event: TasksNotNeeded | TasksAbandoned) -> None:
        left_out = set(tasks_in(event.tasks))
        for task in left_out:
            require(task not in self._left_out, f"leaves out task {task} twice")
            require(task not in self._given_up, f"leaves out task {task}, which failed")
            require(task not in self._reused, f"leaves out task {task}, which is reused")
            if isinstance(event, TasksNotNeeded):
                readers = self._scenario.plan.tasks.users_of(task)
                there = self._reused | self._not_needed | left_out
                require(there.issuperset(readers), f"task {task} is called not needed, and {readers} would read it")
                require(task not in self._expected.results, f"result {task} is called not needed")
                self._not_needed.add(task)
        self._left_out |= left_out

    def _check_everything_is_settled(self) -> None:
        settled = self.known | self._given_up | self._left_out
        unsettled = set(range(len(self._scenario.plan.tasks))) - settled
        require(not unsettled, f"ends, and says nothing of tasks {sorted(unsettled)}")

    def _check_give_up(self, task: int) -> None:
        ran = task in self._attempts or task in self._scenario.unschedulable
        require(ran, f"gives up task {task}, which never ran")
        require(task not in self._out, f"gives up task {task}, which is still out")
        require(task not in self._given_up, f"gives up task {task} twice")
        self._given_up.add(task)
