"""A runtime without processes: workers, faults and messages are entries of a heap, time is a number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Literal

import msgspec

from cenote.engine.machine import Engine
from cenote.engine.messages import (
    AnyCommand,
    AnyEvent,
    CancelAsked,
    CancelTask,
    EndWorkers,
    FailureInfo,
    ForgetTask,
    RunStarted,
    RunTask,
    StartWorkers,
    StopWorkers,
    TaskDone,
    TaskFailed,
    TaskReused,
    TaskStarted,
    Tick,
    WorkerJoined,
    WorkerLost,
)
from simulation.batch import Batch, Run, Worker
from simulation.expected import Value, is_merge, merged
from simulation.invariants import Watch
from simulation.pool_rules import BrokenError
from simulation.scenario import MEMORY, Scenario

TICK = 2.0
"""Seconds after which the engine is told that time passed."""
SILENCE = 15.0
"""Seconds that a worker may be silent."""
MOST_EVENTS = 20_000
"""A run of these sizes that takes more will never end."""


@dataclass
class Store:
    """What survives the driver: results under their task's number."""

    whole: dict[int, Value] = field(default_factory=dict)
    partial: dict[int, Value] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    """Every task that was ever stored whole, also those whose data is forgotten: they must never run again."""

    def read(self, task: int) -> Value:
        """A result, whole or not."""
        found = self.whole.get(task, self.partial.get(task))
        if found is None:
            raise BrokenError(f"task {task} is read, but its result is not there")
        return found

    def keep(self, task: int, value: Value, *, whole: bool) -> None:
        """Store a result."""
        (self.whole if whole else self.partial)[task] = value
        if whole:
            self.finished.add(task)

    def remove(self, task: int) -> None:
        """Free the space."""
        self.whole.pop(task, None)
        self.partial.pop(task, None)


class Life:
    """One driver from its start to FinishRun, or to its crash. The store outlives it."""

    def __init__(self, scenario: Scenario, random: Random, store: Store, watch: Watch) -> None:
        self.events: list[tuple[AnyEvent, list[AnyCommand]]] = []
        """Everything that went through the door, for the report of a failure."""
        self.engine = Engine(scenario.plan, scenario.options)
        self._scenario = scenario
        self._random = random
        self._store = store
        self._watch = watch
        self._now = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._entries = 0
        self._batch = Batch(
            pools={pool.name: pool for pool in scenario.plan.placement.pools},
            weather=scenario.weather,
            random=random,
            now=lambda: self._now,
            after=self._after,
            deliver=lambda event: self._deliver(event, 0),
            came=self._assign,
            cut_off=self._cut_off,
        )
        self._workers = self._batch.workers
        self._queues: dict[str, list[Run]] = defaultdict(list)
        self._losses: dict[int, int] = defaultdict(int)
        self._cuts: dict[int, int] = defaultdict(int)
        self._tries: dict[int, int] = defaultdict(int)

    def run(self, *, cancel_after: float | None, crash_after: int | None) -> str | None:
        """How it ended; None after a crash."""
        self._begin(cancel_after)
        while self._watch.status is None:
            if not self._agenda:
                raise BrokenError("nothing happens any more, and the run is not finished")
            if len(self.events) > MOST_EVENTS:
                raise BrokenError("the run does not end")
            if crash_after is not None and len(self.events) >= crash_after:
                return None
            self._step()
        for _ in range(min(len(self._agenda), 20)):
            self._step()
        return self._watch.status

    def _begin(self, cancel_after: float | None) -> None:
        plan = self._scenario.plan
        self._deliver(RunStarted(at=0.0, run="simulated", tasks=len(plan.tasks)), 0)
        reused = sorted(self._store.whole)
        self._random.shuffle(reused)
        for task in reused:
            self._deliver(TaskReused(at=0.0, task=task), 0)
        for pool, sizes in self._scenario.workers.items():
            for slots in sizes:
                self._after(self._random.uniform(0, 5), partial(self._join, pool, slots))
        if self._scenario.options.manages_workers:
            self._after(TICK, self._tick)
        if cancel_after is not None:
            for delay in (0.0, 0.5) if self._scenario.impatient else (0.0,):
                self._after(cancel_after + delay, lambda: self._deliver(CancelAsked(at=self._now), 0))

    def _tick(self) -> None:
        self._deliver(Tick(at=self._now), 0)
        self._after(TICK, self._tick)

    def _step(self) -> None:
        self._now, _, act = heappop(self._agenda)
        act()

    def _after(self, delay: float, act: Callable[[], None]) -> None:
        self._entries += 1
        heappush(self._agenda, (self._now + delay, self._entries, act))

    def _deliver(self, event: AnyEvent, attempt: int) -> None:
        """Through the door, and do what comes out."""
        if isinstance(event, TaskDone):
            self._batch.in_a_row[event.pool] = 0
        self._watch.saw(event, attempt)
        commands = self.engine.handle(event)
        self.events.append((event, commands))
        self._watch.check(commands)
        for command in commands:
            match command:
                case RunTask(task, pool, number, pieces, missing):
                    reads = tuple(need for need in self._scenario.plan.tasks.needs_of(task) if need not in missing)
                    self._queues[pool].append(Run(task, number, reads, pieces))
                case StartWorkers(pool, count):
                    self._batch.start(pool, count)
                case StopWorkers(_, workers):
                    self._batch.stop(workers)
                case EndWorkers(_, workers):
                    for name in workers:
                        self._after(self._random.uniform(0, 1), partial(self._end_worker, name))
                case CancelTask(task):
                    self._cancel(task)
                case ForgetTask(task):
                    self._store.remove(task)
                case _:
                    pass
        for pool in dict.fromkeys(some.pool for some in commands if isinstance(some, RunTask)):
            self._assign(pool)

    def _tell(self, event: AnyEvent, attempt: int, *, late: bool) -> None:
        """Send an event to the engine: perhaps late, perhaps twice, perhaps with nonsense beside it."""
        lateness = self._scenario.lateness if late else 0.0
        repeats = self._scenario.numbered or isinstance(event, TaskDone | WorkerLost)
        self._after(self._random.uniform(0, lateness), lambda: self._deliver(event, attempt))
        if repeats and self._random.random() < self._scenario.echo_rate:
            delay = lateness + self._random.uniform(0, 20)
            self._after(delay, lambda: self._deliver(event, attempt))
        if self._random.random() < self._scenario.echo_rate / 10:
            self._after(0.0, lambda: self._deliver(self._nonsense(), 0))

    def _nonsense(self) -> AnyEvent:
        beyond = self._random.choice((-1, len(self._scenario.plan.tasks), 10**6))
        failure = FailureInfo(cause="error", message="nobody asked")
        choices: list[AnyEvent] = [
            TaskDone(at=self._now, task=beyond, pool="gpu", worker="nobody", seconds=0.0),
            TaskFailed(at=self._now, task=beyond, pool="gpu", worker="nobody", failure=failure),
            TaskStarted(at=self._now, task=beyond, pool="gpu", worker="nobody"),
            TaskReused(at=self._now, task=beyond),
            WorkerLost(at=self._now, worker="nobody", pool="nowhere", reason="never existed"),
            Tick(at=self._now),
        ]
        return self._random.choice(choices)

    def _join(self, pool: str, slots: int) -> None:
        """A worker comes by itself."""
        self._batch.names += 1
        worker = Worker(f"{pool}-{self._batch.names}", pool, slots, joined=True)
        self._workers[worker.name] = worker
        self._deliver(WorkerJoined(at=self._now, worker=worker.name, pool=pool, slots=slots), 0)
        self._assign(pool)

    def _assign(self, pool: str) -> None:
        while self._queues[pool]:
            free = [one for one in self._workers.values() if one.pool == pool and one.has_room]
            if not free:
                return
            self._start(self._queues[pool].pop(0), self._random.choice(free))

    def _start(self, run: Run, worker: Worker) -> None:
        worker.running.add(run)
        said = run.attempt if self._scenario.numbered else 0
        started = TaskStarted(at=self._now, task=run.task, pool=worker.pool, worker=worker.name, attempt=said)
        self._tell(started, run.attempt, late=self._scenario.numbered)
        self._after(self._random.uniform(0.1, 5), lambda: self._end(run, worker))
        if self._random.random() < self._scenario.weather.freeze_rate and self._may_freeze(worker):
            seconds = self._random.uniform(1, 2 * SILENCE)
            self._batch.freeze(worker, seconds, patience=SILENCE, woken=self._wake)

    def _may_freeze(self, worker: Worker) -> bool:
        """One of a pool at a time, and only where losing it spoils nothing."""
        others = [one for one in self._workers.values() if one.pool == worker.pool and one.frozen]
        return not others and worker.leaving is None and self._may_lose(worker)

    def _wake(self, worker: Worker) -> None:
        """A worker that was frozen goes on with what it had begun."""
        for run in sorted(worker.running, key=lambda run: run.task):
            self._after(self._random.uniform(0.1, 5), partial(self._end, run, worker))
        self._batch.go_if_idle(worker)
        self._assign(worker.pool)

    def _end_worker(self, name: str) -> None:
        """A worker that does not answer is ended, with everything on it."""
        worker = self._workers.get(name)
        if worker is not None:
            self._batch.lose(worker, cause="retired" if worker.leaving == "retired" else "silent")
            self._lose(sorted(worker.running, key=lambda run: run.task), worker)

    def _end(self, run: Run, worker: Worker) -> None:
        """What a run comes to, unless its worker is gone or it was cancelled."""
        if run not in worker.running or worker.frozen:
            return
        self._tries[run.task] += 1
        managed = self._scenario.options.manages_workers
        if self._is_hungry(run, worker):
            self._run_out_of_memory(run, worker)
        elif run.task in self._scenario.killers:
            self._lose([run], worker) if self._has_innocents(worker) else self._lose_worker(worker)
        elif self._random.random() < self._scenario.loss_rate and self._may_lose(worker):
            self._lose_worker(worker)
        elif run.task in self._scenario.doomed or self._tries[run.task] <= self._scenario.flaky.get(run.task, 0):
            cause = self._random.choice(_CAUSES if not managed else _CAUSES[:-1])
            self._report_failure(run, worker, cause, late=self._scenario.numbered)
        else:
            self._complete(run, worker)
        self._batch.go_if_idle(worker)
        self._assign(worker.pool)

    def _is_hungry(self, run: Run, worker: Worker) -> bool:
        needed = self._scenario.weather.hungry.get(run.task, 0)
        return needed > MEMORY[worker.pool] * run.pieces

    def _run_out_of_memory(self, run: Run, worker: Worker) -> None:
        """The task fails, or takes its worker with it."""
        in_order = self._scenario.lateness == 0
        if in_order and worker.running == {run} and self._batch.may_lose_one(worker.pool):
            self._batch.lose(worker, cause="oom")
            self._report_failure(run, worker, "lost", late=False)
        else:
            self._report_failure(run, worker, "oom", late=True)

    def _may_lose(self, worker: Worker) -> bool:
        """Whether losing the worker spoils nothing that is not spoiled anyway."""
        managed = self._scenario.options.manages_workers
        return not self._has_innocents(worker) and (not managed or self._batch.may_lose_one(worker.pool))

    def _has_innocents(self, worker: Worker) -> bool:
        """Whether a task runs there that would be given up if it, or one like it, lost its worker once more."""
        limit, segment_of = self._scenario.options.limits.lost, self._scenario.plan.tasks.segment
        innocent = [run.task for run in worker.running if run.task not in self._scenario.killers]
        of_segment: Counter[int] = Counter()
        for task, losses in self._losses.items():
            of_segment[int(segment_of[task])] += losses
        return any(self._losses[task] >= limit or of_segment[int(segment_of[task])] >= limit for task in innocent)

    def _complete(self, run: Run, worker: Worker) -> None:
        worker.running.discard(run)
        if run.task not in self._watch.known:
            parts = [self._store.read(need) for need in run.reads]
            needs = self._scenario.plan.tasks.needs_of(run.task)
            whole = list(run.reads) == needs and all(need in self._store.whole for need in needs)
            value = merged(parts) if is_merge(self._scenario.plan, run.task) else (run.task,)
            self._store.keep(run.task, value, whole=whole)
        done = TaskDone(at=self._now, task=run.task, pool=worker.pool, worker=worker.name, seconds=1.0)
        said = msgspec.structs.replace(done, attempt=run.attempt) if self._scenario.numbered else done
        self._tell(said, run.attempt, late=self._scenario.numbered)

    def _lose_worker(self, worker: Worker) -> None:
        """The worker dies with everything on it; another one comes, by itself or because the engine asks for it."""
        if self._scenario.options.manages_workers:
            preempted = self._random.random() < self._scenario.weather.preemption_rate
            self._batch.lose(worker, cause="preempted" if preempted else "died")
            self._lose(sorted(worker.running, key=lambda run: run.task), worker)
            return
        del self._workers[worker.name]
        lost = WorkerLost(at=self._now, worker=worker.name, pool=worker.pool, reason="preempted")
        self._tell(lost, 0, late=True)
        self._after(self._random.uniform(0, 10), lambda: self._join(worker.pool, worker.slots))
        self._lose(sorted(worker.running, key=lambda run: run.task), worker)

    def _cut_off(self, worker: Worker) -> None:
        """The walltime of a worker is over; tasks that would be given up the next time are just in time."""
        limit = self._scenario.options.limits.walltime
        if not worker.running or worker.name not in self._workers:
            return
        if any(self._cuts[run.task] >= limit for run in worker.running):
            return
        self._batch.lose(worker, cause="walltime")
        for run in sorted(worker.running, key=lambda run: run.task):
            self._cuts[run.task] += 1
            self._report_failure(run, worker, "lost", late=True)

    def _lose(self, runs: list[Run], worker: Worker) -> None:
        for run in runs:
            self._losses[run.task] += 1
            self._report_failure(run, worker, "lost", late=True)

    def _report_failure(self, run: Run, worker: Worker, cause: Cause, *, late: bool) -> None:
        worker.running.discard(run)
        failed = TaskFailed(
            at=self._now,
            task=run.task,
            pool=worker.pool,
            worker=worker.name,
            failure=FailureInfo(cause=cause, message="simulated"),
            attempt=run.attempt if self._scenario.numbered else 0,
        )
        self._tell(failed, run.attempt, late=late)

    def _cancel(self, task: int) -> None:
        """Out of the queue, perhaps without a word, or off its worker if it can be stopped in time."""
        for pool, queue in self._queues.items():
            for run in [run for run in queue if run.task == task]:
                queue.remove(run)
                if self._random.random() < 0.5:
                    self._report_failure(run, Worker("", pool, 0), "stopped", late=True)
        for worker in self._workers.values():
            for run in [run for run in worker.running if run.task == task]:
                if self._random.random() < 0.5:
                    self._report_failure(run, worker, "stopped", late=True)


Cause = Literal["error", "bad_input", "timeout", "oom", "lost", "stopped"]
_CAUSES: tuple[Cause, ...] = ("error", "bad_input", "timeout", "oom")
