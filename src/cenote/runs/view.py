"""Fold a run's events into what people ask of it: how far, how fast, where, what went wrong.

The fold never looks at a clock or a file: the same events give the same view, live or years later.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal, assert_never

from cenote.engine.messages import (
    AnyEvent,
    CancelAsked,
    FellBack,
    JobChanged,
    PoolChanged,
    ResultLost,
    ResultNotNeeded,
    RunFinished,
    RunStarted,
    TaskDone,
    TaskFailed,
    TaskGivenUp,
    TaskReused,
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
from cenote.plan.probe_result import Probed
from cenote.plan.record import PlannedPool, PlannedSegment, PlanRecord
from cenote.runs.counts import StageTally, TaskTally
from cenote.runs.pool_counts import PoolTally
from cenote.runs.summary import (
    FailureView,
    Json,
    PoolView,
    StageView,
    fallback_as_json,
    iso_time,
    split_as_json,
)

RunStatus = Literal["waiting", "running", "cancelling", "succeeded", "partial", "failed", "cancelled"]

_WAITING, _RUNNING, _DONE, _FAILED = range(4)


class RunView:
    """What the events so far say. `apply` takes the same time however long the run."""

    def __init__(self, plan: PlanRecord, probes: Mapping[str, Probed] | None = None) -> None:
        self.plan = plan
        self.probes = probes or {}
        """Pool → its last probe, which may be younger than the run."""
        self._tally_of = array("i")
        for block in plan.task_blocks:
            self._tally_of.extend(array("i", [2 * block.segment + block.merge]) * block.count)
        self._plan_tasks = [0] * (2 * len(plan.segments))
        for block in plan.task_blocks:
            self._plan_tasks[2 * block.segment + block.merge] += block.count
        self._reset()

    @classmethod
    def of(cls, plan: PlanRecord, events: Iterable[AnyEvent], probes: Mapping[str, Probed] | None = None) -> RunView:
        """The view after all of these events."""
        view = cls(plan, probes)
        for event in events:
            view.apply(event)
        return view

    def _reset(self) -> None:
        self.run: str | None = None
        self.resumed = False
        self.status: RunStatus = "waiting"
        self.started: float | None = None
        self.ended: float | None = None
        self.now = 0.0
        self.events_read = 0
        self.bytes_read = 0
        self.bytes_out = 0
        self.cpu_seconds = 0.0
        self.retries = 0
        self.saved: tuple[int, int] | None = None
        """Products saved and drawn, of how many; None before the last task is over."""
        self.fallbacks: list[FellBack] = []
        self._splits: dict[int, TaskSplit] = {}
        self._state = bytearray(len(self._tally_of))
        self._tallies = [TaskTally(tasks) for tasks in self._plan_tasks]
        self._stages = {stage.id: StageTally() for stage in self.plan.stages}
        self._pools = {pool.name: PoolTally() for pool in self.plan.pools}
        self._running: dict[int, tuple[str, str, float]] = {}
        self._failures: dict[int, FailureView] = {}
        self._attempts: dict[int, int] = {}
        self._warnings = dict.fromkeys(self.plan.warnings)

    # Events come in

    def apply(self, event: AnyEvent) -> None:
        """Take one event; repeated and late ones change nothing."""
        self.now = max(self.now, event.at)
        match event:
            case TaskStarted():
                self._task_started(event)
            case TaskDone():
                self._task_done(event)
            case TaskReused():
                self._task_reused(event)
            case TaskFailed():
                self._task_failed(event)
            case TaskGivenUp():
                self._task_given_up(event)
            case WorkerRequested():
                self._pool(event.pool).request(event.worker)
            case JobChanged():
                self._pool(event.pool).change_job(event)
            case WorkerJoined():
                self._pool(event.pool).join(event)
            case WorkerSilent():
                self._pool(event.pool).fall_silent(event)
            case WorkerAnswers():
                self._pool(event.pool).answer(event)
            case WorkerLost():
                if self.ended is None:
                    self._pool(event.pool).lose(event)
            case PoolChanged():
                self._pool(event.pool).change(event)
            case FellBack():
                self.fallbacks.append(event)
            case TaskSplit():
                self._splits[event.task] = event
            case RunStarted():
                self._run_started(event)
            case CancelAsked():
                self.status = "cancelling"
            case Warned():
                self._warnings[event.message] = None
            case RunFinished():
                self._run_finished(event)
            case Tick() | ResultLost() | ResultNotNeeded() | WorkerLeaving():
                pass
            case _:
                assert_never(event)

    def _run_started(self, event: RunStarted) -> None:
        self._reset()
        self.run, self.resumed = event.run, event.resumed
        self.started = self.now = event.at
        self.status = "running"
        for pool in self._pools.values():
            pool.empty_since = event.at

    def _run_finished(self, event: RunFinished) -> None:
        self.status = event.status
        self.ended = event.at
        for task in list(self._running):
            self._leave(task)
            self._state[task] = _WAITING
        for tally in self._tallies:
            tally.end()

    def _task_started(self, event: TaskStarted) -> None:
        state = self._state_of(event.task)
        if state is None or state == _DONE:
            return
        self._leave(event.task)
        self.retries += event.task in self._attempts
        tally = self._tallies[self._tally_of[event.task]]
        tally.start(at=event.at)
        self._pool(event.pool).running += 1
        self._state[event.task] = _RUNNING
        self._running[event.task] = (event.pool, event.worker, event.at)

    def _task_done(self, event: TaskDone) -> None:
        state = self._state_of(event.task)
        if state is None or state == _DONE:
            return
        self._leave(event.task)
        self._state[event.task] = _DONE
        number = self._tally_of[event.task]
        self._tallies[number].finish(event)
        self._pool(event.pool).finish(event)
        if number % 2 == 0:
            stages = self.plan.segments[number // 2].stages
            self._count_stages(event, stages)
            self.events_read += event.events
        self.bytes_read += event.bytes_read
        self.bytes_out += event.bytes_out
        self.cpu_seconds += event.cpu_seconds
        self._attempts.pop(event.task, None)

    def _count_stages(self, event: TaskDone, stages: tuple[str, ...]) -> None:
        for stage, stats in event.stages.items():
            tally = self._stages.get(stage)
            if tally is not None:
                tally.seconds += stats.seconds
                tally.events_in += stats.events_in
                tally.events_out += stats.events_out
        if not event.stages and len(stages) == 1:
            self._stages[stages[0]].seconds += event.seconds
            self._stages[stages[0]].events_in += event.events

    def _task_reused(self, event: TaskReused) -> None:
        state = self._state_of(event.task)
        if state is None or state == _DONE:
            return
        self._leave(event.task)
        self._state[event.task] = _DONE
        self._tallies[self._tally_of[event.task]].reused += 1

    def _task_failed(self, event: TaskFailed) -> None:
        state = self._state_of(event.task)
        if state is None or state in (_DONE, _FAILED):
            return
        self._leave(event.task)
        self._state[event.task] = _WAITING
        if event.failure.cause == "stopped":
            self._pool(event.pool).busy += event.seconds
            return
        self._pool(event.pool).fail(event.seconds)
        self._attempts[event.task] = self._attempts.get(event.task, 0) + 1

    def _task_given_up(self, event: TaskGivenUp) -> None:
        state = self._state_of(event.task)
        if state is None or state == _DONE:
            return
        self._leave(event.task)
        self._state[event.task] = _FAILED
        self._tallies[self._tally_of[event.task]].failed += 1
        self._failures[event.task] = FailureView(
            task=event.task,
            stage=event.failure.stage or self._segment(event.task).stages[-1],
            pool=event.pool,
            worker=event.worker,
            at=event.at,
            attempts=self._attempts.get(event.task, 1),
            info=event.failure,
        )

    def _state_of(self, task: int) -> int | None:
        """None for a task that this plan does not have (a journal can outlive an edit of the workflow)."""
        return self._state[task] if 0 <= task < len(self._state) else None

    def _leave(self, task: int) -> None:
        """Take the task out of whatever it was counted as."""
        state = self._state[task]
        if state == _RUNNING:
            pool, _, _ = self._running.pop(task)
            self._tallies[self._tally_of[task]].running -= 1
            self._pool(pool).running -= 1
        elif state == _FAILED:
            del self._failures[task]
            self._tallies[self._tally_of[task]].failed -= 1

    def _pool(self, name: str) -> PoolTally:
        tally = self._pools.get(name)
        if tally is None:
            tally = self._pools[name] = PoolTally()
        return tally

    def _segment(self, task: int) -> PlannedSegment:
        return self.plan.segments[self._tally_of[task] // 2]

    # Answers go out

    @property
    def clock(self) -> float:
        """The time of the last event, or of the end."""
        return self.now if self.ended is None else self.ended

    @property
    def seconds(self) -> float:
        """Since the start, until the end or the last event."""
        return max(0.0, self.clock - self.started) if self.started is not None else 0.0

    @property
    def finished(self) -> bool:
        """Whether the run has ended, well or not."""
        return self.ended is not None

    @property
    def at_work(self) -> bool:
        """Whether a task runs."""
        return bool(self._running)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the plan and the run warned of, each once."""
        return tuple(self._warnings)

    @property
    def failures(self) -> tuple[FailureView, ...]:
        """Tasks whose last attempt failed, by task number."""
        return tuple(self._failures[task] for task in sorted(self._failures))

    @property
    def tasks(self) -> TaskTally:
        """All tasks together, merges included."""
        return TaskTally.together(self._tallies)

    @property
    def merges(self) -> TaskTally:
        """The merges, which no stage counts."""
        return TaskTally.together(self._tallies[1::2])

    @property
    def time_left(self) -> float | None:
        """Seconds until the slowest segment is through; None while there is nothing to judge by."""
        if self.finished:
            return 0.0
        known = [left for tally in self._tallies if (left := tally.time_left(self.clock)) is not None]
        return max(known, default=None)

    @property
    def stages(self) -> tuple[StageView, ...]:
        """Every stage, in the order of the workflow."""
        return tuple(self._stage_view(stage.id, stage.op, stage.segment) for stage in self.plan.stages)

    def _stage_view(self, stage: str, op: str, segment: int | None) -> StageView:
        tasks = self._tallies[2 * segment] if segment is not None else TaskTally(0)
        own = self._stages[stage]
        wall = tasks.wall(self.clock)
        return StageView(
            id=stage,
            op=op,
            segment=segment,
            tasks=tasks.tasks,
            done=tasks.done + tasks.reused,
            reused=tasks.reused,
            running=tasks.running,
            failed=tasks.failed,
            seconds=own.seconds,
            events_in=own.events_in,
            events_out=own.events_out,
            rate=own.events_in / wall if wall and own.events_in else None,
            time_left=0.0 if self.finished else tasks.time_left(self.clock),
            peak_memory=tasks.peak_memory,
            pools=dict(tasks.pools),
            workers=tuple(sorted(tasks.workers)),
        )

    @property
    def pools(self) -> tuple[PoolView, ...]:
        """Every pool, in the order of the workflow."""
        ahead: dict[str, int] = {}
        left: dict[str, float] = {}
        for number, tally in enumerate(self._tallies):
            for pool in (self.plan.merge_pool,) if number % 2 else self.plan.segments[number // 2].pools:
                ahead[pool] = ahead.get(pool, 0) + tally.waiting
                left[pool] = max(left.get(pool, 0.0), tally.time_left(self.clock) or 0.0)
        return tuple(self._pool_view(pool, ahead.get(pool.name, 0), left.get(pool.name)) for pool in self.plan.pools)

    def _pool_view(self, pool: PlannedPool, ahead: int, left: float | None) -> PoolView:
        tally = self._pools[pool.name]
        running = sum(self.clock - at for name, _, at in self._running.values() if name == pool.name)
        view = tally.view(pool, now=self.clock, running=running, ahead=ahead, time_left=left or None)
        if self.started is None:
            return replace(view, state="waiting")
        if self.finished:
            return replace(view, workers=0, silent={}, time_left=0.0, state=view.state if tally.changes else "done")
        return view

    def summary(self) -> Json:
        """The content of `summary.json`."""
        merges, tasks = self.merges, self.tasks
        return {
            "status": self.status,
            "run": self.run,
            "resumed": self.resumed,
            "started": iso_time(self.started),
            "ended": iso_time(self.ended),
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "tasks": tasks.as_json(),
            "merges": merges.as_json(),
            "retries": self.retries,
            "events": self.events_read,
            "bytes_read": self.bytes_read,
            "peak_memory": tasks.peak_memory,
            "stages": [stage.as_json() for stage in self.stages],
            "pools": [pool.as_json() for pool in self.pools],
            "products": [{"name": one.name, "stage": one.stage, "kind": one.kind} for one in self.plan.products],
            "fallbacks": [fallback_as_json(move) for move in self.fallbacks],
            "splits": [split_as_json(split, self._segment(task).stages[0]) for task, split in self._splits.items()],
            "failures": [failure.as_json() for failure in self.failures],
            "warnings": list(self.warnings),
        }
