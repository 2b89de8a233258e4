"""Fold a run's events into what people ask of it: how far, how fast, where, what went wrong.

The fold never looks at a clock or a file: the same events give the same view, live or years later.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from cenote.analysis.modifiers.support.measures import MOST_OF_RUN, KeptWarnings
from cenote.engine.messages import (
    AnyEvent,
    CancelAsked,
    FellBack,
    JobChanged,
    PoolChanged,
    PoolHeld,
    RunFinished,
    RunStarted,
    TaskDone,
    TaskFailed,
    TaskGivenUp,
    TaskReused,
    TasksAbandoned,
    TasksNotNeeded,
    TaskSplit,
    TaskStarted,
    Warned,
    WhyRow,
    WorkerAnswers,
    WorkerJoined,
    WorkerLost,
    WorkerRequested,
    WorkerSilent,
)
from cenote.engine.tasks import tasks_in
from cenote.execution.runs.summary import (
    CompiledRecord,
    FailureRecord,
    FallbackRecord,
    PoolRecord,
    ProductRecord,
    SplitRecord,
    StageRecord,
    Summary,
    TaskTotals,
    iso_time,
    rounded,
)
from cenote.execution.runs.view.counts import ModifierTally, StageTally, TaskTally, totals
from cenote.execution.runs.view.pool_counts import PoolTally
from cenote.planning.plan import maker_of
from cenote.planning.probes.result import Probed
from cenote.planning.record import PlannedPool, PlannedSegment, PlannedStage, PlanRecord

RunStatus = Literal["waiting", "running", "cancelling", "succeeded", "partial", "failed", "cancelled"]

_WAITING, _RUNNING, _DONE, _FAILED, _ABANDONED = range(5)


class RunView:
    """What the events so far say. `apply` takes the same time however long the run."""

    def __init__(self, plan: PlanRecord, probes: Mapping[str, Probed] | None = None) -> None:
        self.plan = plan
        self.probes = probes or {}
        """Pool → its last probe, which may be younger than the run."""
        self._planned = Counter[tuple[int, bool]]()
        """(segment, whether merges) → tasks."""
        for block in plan.task_blocks:
            self._planned[block.segment, block.merge] += block.count
        places = {kind: place for place, kind in enumerate(self._planned)}
        self._tally_of = array("i")
        """Task → the place of its tally."""
        for block in plan.task_blocks:
            self._tally_of.extend(array("i", [places[block.segment, block.merge]]) * block.count)
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
        self.why: tuple[WhyRow, ...] = ()
        """Why stages run again."""
        self.status: RunStatus = "waiting"
        self.started: float | None = None
        self.ended: float | None = None
        self.now = 0.0
        self.events_read = 0
        self.bytes_read = 0
        self.cpu_seconds = 0.0
        self.retries = 0
        self.saved: tuple[int, int] | None = None
        """Products saved and drawn, of how many; None before the last task is over."""
        self.fallbacks: list[FallbackRecord] = []
        self._splits: dict[int, SplitRecord] = {}
        self._state = bytearray(len(self._tally_of))
        self._tallies = [TaskTally(*kind, tasks) for kind, tasks in self._planned.items()]
        self._stages = {stage.id: StageTally(stage) for stage in self.plan.stages}
        self._compiled: dict[tuple[str, ...], ModifierTally] = {}
        self._pools = defaultdict(PoolTally, {pool.name: PoolTally() for pool in self.plan.pools})
        self._running: dict[int, tuple[str, str, float]] = {}
        self._failures: dict[int, FailureRecord] = {}
        self._attempts = Counter[int]()
        self._warnings = dict.fromkeys(self.plan.warnings)
        self._said = KeptWarnings(MOST_OF_RUN)
        """What modifiers warned of."""

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
                self._task_reused(event.task, needed=event.needed)
            case TasksNotNeeded():
                for task in tasks_in(event.tasks):
                    self._task_reused(task, needed=False)
            case TasksAbandoned():
                for task in tasks_in(event.tasks):
                    self._task_abandoned(task, event.reason)
            case TaskFailed():
                self._task_failed(event)
            case TaskGivenUp():
                self._task_given_up(event)
            case WorkerRequested():
                self._pools[event.pool].request(event.worker)
            case JobChanged():
                self._pools[event.pool].change_job(event)
            case WorkerJoined():
                self._pools[event.pool].join(event)
            case WorkerSilent():
                self._pools[event.pool].silent[event.worker] = event.at - event.seconds
            case WorkerAnswers():
                self._pools[event.pool].silent.pop(event.worker, None)
            case WorkerLost():
                if self.ended is None:
                    self._pools[event.pool].lose(event)
            case PoolHeld():
                self._pools[event.pool].held = event.reason
            case PoolChanged():
                self._pools[event.pool].change(event)
            case FellBack():
                self.fallbacks.append(FallbackRecord.of(event))
            case TaskSplit() if self._state_of(event.task) is not None:
                self._splits[event.task] = SplitRecord.of(event, self._segment(event.task).stages[0])
            case RunStarted():
                self._run_started(event)
            case CancelAsked():
                self.status = "cancelling"
            case Warned():
                self._warnings[event.message] = None
            case RunFinished():
                self._run_finished(event)
            case _:
                pass  # nothing that a summary counts

    def _run_started(self, event: RunStarted) -> None:
        self._reset()
        self.run, self.resumed, self.why = event.run, event.resumed, event.why
        self.started = self.now = event.at
        self.status = "running"
        for pool in self._pools.values():
            pool.empty_since = event.at

    def _run_finished(self, event: RunFinished) -> None:
        self.status = event.status
        self.ended = event.at
        for task in list(self._running):
            self._becomes(task, _WAITING)
        for tally in self._tallies:
            tally.end()
        if self._said.more:
            self._warnings[f"modifiers warned {self._said.more:,} more times, which is not kept"] = None

    def _task_started(self, event: TaskStarted) -> None:
        if not self._becomes(event.task, _RUNNING):
            return
        self.retries += event.task in self._attempts
        self._tally(event.task).start(at=event.at)
        self._pools[event.pool].running += 1
        self._running[event.task] = (event.pool, event.worker, event.at)

    def _task_done(self, event: TaskDone) -> None:
        if not self._becomes(event.task, _DONE):
            return
        tally = self._tally(event.task)
        tally.finish(event)
        self._pools[event.pool].finish(event)
        if not tally.merge:
            self._count_stages(event, self._segment(event.task).stages)
            self.events_read += event.events
        self.bytes_read += event.bytes_read
        self.cpu_seconds += event.cpu_seconds
        self._warnings.update({message: None for message in event.warnings if self._said.add(message)})
        self._said.more += event.more_warnings
        self._attempts.pop(event.task, None)

    def _count_stages(self, event: TaskDone, stages: tuple[str, ...]) -> None:
        for stage, stats in event.stages.items():
            if stage in self._stages:
                self._stages[stage].add(stats)
        for product, kept in event.kept.items():
            if (stage := maker_of(product)) in self._stages:
                self._stages[stage].keep(product.removeprefix(f"{stage}:"), kept)
        for group in event.groups:
            if group.stages not in self._compiled:
                planned = next((one for one in self.plan.stages if one.id == group.stages[0]), None)
                if planned is None:  # a journal can outlive an edit of the workflow
                    continue
                self._compiled[group.stages] = ModifierTally(planned)
            self._compiled[group.stages].add(group.modifiers)
        if not event.stages and not event.kept and len(stages) == 1:
            self._stages[stages[0]].seconds += event.seconds
            self._stages[stages[0]].events_in += event.events

    def _task_reused(self, task: int, *, needed: bool = True) -> None:
        """Its result is there, or everything that would have come of it."""
        if self._becomes(task, _DONE):
            self._tally(task).reused += 1
            self._tally(task).not_needed += not needed

    def _task_abandoned(self, task: int, reason: str) -> None:
        if self._state_of(task) in (_WAITING, _RUNNING) and self._becomes(task, _ABANDONED):
            self._tally(task).abandon()
            self._tally(task).reasons[reason] += 1

    def _task_failed(self, event: TaskFailed) -> None:
        if self._state_of(event.task) == _FAILED or not self._becomes(event.task, _WAITING):
            return
        self._pools[event.pool].busy += event.seconds
        if event.failure.cause != "stopped":
            self._attempts[event.task] += 1

    def _task_given_up(self, event: TaskGivenUp) -> None:
        if not self._becomes(event.task, _FAILED):
            return
        self._tally(event.task).failed += 1
        self._failures[event.task] = replace(
            FailureRecord.of(event.failure),
            task=event.task,
            stage=event.failure.stage or self._segment(event.task).stages[-1],
            pool=event.pool,
            worker=event.worker,
            at=iso_time(event.at),
            attempts=self._attempts.get(event.task, 1),
        )

    def _state_of(self, task: int) -> int | None:
        """None for a task that this plan does not have (a journal can outlive an edit of the workflow)."""
        return self._state[task] if 0 <= task < len(self._state) else None

    def _becomes(self, task: int, state: int) -> bool:
        """Take the task out of whatever it was counted as; False for one that is done, or that is not in the plan."""
        before = self._state_of(task)
        if before is None or before == _DONE:
            return False
        if before == _RUNNING:
            pool, _, _ = self._running.pop(task)
            self._tally(task).running -= 1
            self._pools[pool].running -= 1
        elif before == _FAILED:
            del self._failures[task]
            self._tally(task).failed -= 1
        elif before == _ABANDONED:
            self._tally(task).abandon(-1)
        self._state[task] = state
        return True

    def _segment(self, task: int) -> PlannedSegment:
        return self.plan.segments[self._tally(task).segment]

    def _tally(self, task: int) -> TaskTally:
        return self._tallies[self._tally_of[task]]

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
    def failures(self) -> tuple[FailureRecord, ...]:
        """Tasks whose last attempt failed, by task number."""
        return tuple(self._failures[task] for task in sorted(self._failures))

    @property
    def tasks(self) -> TaskTotals:
        """All tasks together, merges included."""
        return totals(self._tallies)

    @property
    def merges(self) -> TaskTotals:
        """The merges, which no stage counts."""
        return totals([tally for tally in self._tallies if tally.merge])

    @property
    def time_left(self) -> float | None:
        """Seconds until the slowest segment is through; None while there is nothing to judge by."""
        if self.finished:
            return 0.0
        known = [left for tally in self._tallies if (left := tally.time_left(self.clock)) is not None]
        return max(known, default=None)

    @property
    def stages(self) -> tuple[StageRecord, ...]:
        """Every stage, in the order of the workflow."""
        runs = {tally.segment: tally for tally in self._tallies if not tally.merge}
        return tuple(
            self._stage(stage, runs.get(stage.segment) if stage.segment is not None else None)
            for stage in self.plan.stages
        )

    def _stage(self, stage: PlannedStage, tally: TaskTally | None) -> StageRecord:
        tasks = tally or TaskTally(0, merge=False)
        own = self._stages[stage.id]
        wall = tasks.wall(self.clock)
        return StageRecord(
            id=stage.id,
            op=stage.op,
            segment=stage.segment,
            pools=dict(tasks.pools),
            workers=tuple(sorted(tasks.workers)),
            tasks=tasks.tasks,
            done=tasks.done + tasks.reused,
            failed=tasks.failed,
            reused=tasks.reused,
            running=tasks.running,
            not_run=tasks.not_run,
            seconds=rounded(own.seconds),
            events_in=own.events_in,
            events_out=own.events_out,
            rate=rounded(own.events_in / wall) if wall and own.events_in else None,
            peak_memory=tasks.peak_memory,
            modifiers=own.modifiers,
            time_left=0.0 if self.finished else tasks.time_left(self.clock),
            variation_of=stage.variation_of,
            variation=stage.variation,
            for_later=own.for_later,
        )

    @property
    def compiled(self) -> tuple[CompiledRecord, ...]:
        """What modifiers measured of stages that ran as one loop."""
        return tuple(CompiledRecord(stages, found.records) for stages, found in self._compiled.items())

    def abandoned(self, segment: int) -> Mapping[str, int]:
        """Why tasks of a segment were abandoned: each reason with how many."""
        return next((one.reasons for one in self._tallies if one.segment == segment and not one.merge), {})

    @property
    def pools(self) -> tuple[PoolRecord, ...]:
        """Every pool, in the order of the workflow."""
        ahead = Counter[str]()
        left: dict[str, float] = {}
        for tally in self._tallies:
            for pool in (self.plan.merge_pool,) if tally.merge else self.plan.segments[tally.segment].pools:
                ahead[pool] += tally.waiting
                left[pool] = max(left.get(pool, 0.0), tally.time_left(self.clock) or 0.0)
        return tuple(self._pool_record(pool, ahead[pool.name], left.get(pool.name)) for pool in self.plan.pools)

    def _pool_record(self, pool: PlannedPool, ahead: int, left: float | None) -> PoolRecord:
        tally = self._pools[pool.name]
        running = sum(self.clock - at for name, _, at in self._running.values() if name == pool.name)
        record = tally.record(pool, now=self.clock, running=running, ahead=ahead, time_left=left or None)
        if self.started is None:
            return replace(record, state="waiting")
        if self.finished:
            return replace(record, workers=0, silent={}, time_left=0.0, state=record.state if tally.states else "done")
        return record

    def summary(
        self,
        *,
        products: Sequence[ProductRecord] | None = None,
        failures: Iterable[FailureRecord] = (),
        kept: int | None = None,
    ) -> Summary:
        """The content of `summary.json`, with what the events cannot say: what was published, and what was not."""
        if products is None:
            products = [ProductRecord(one.name, one.kind, stage=one.stage) for one in self.plan.products]
        return Summary(
            status=self.status,
            run=self.run,
            resumed=self.resumed,
            started=None if self.started is None else iso_time(self.started),
            ended=None if self.ended is None else iso_time(self.ended),
            seconds=rounded(self.seconds),
            cpu_seconds=rounded(self.cpu_seconds),
            tasks=totals(self._tallies, kept=kept),
            why=self.why,
            merges=self.merges,
            retries=self.retries,
            events=self.events_read,
            bytes_read=self.bytes_read,
            peak_memory=max((tally.peak_memory for tally in self._tallies), default=0),
            stages=self.stages,
            compiled=self.compiled,
            pools=self.pools,
            products=tuple(products),
            fallbacks=tuple(self.fallbacks),
            splits=tuple(self._splits.values()),
            failures=(*self.failures, *failures),
            skipped=self.plan.skipped,
            warnings=self.warnings,
            time_left=self.time_left,
        )
