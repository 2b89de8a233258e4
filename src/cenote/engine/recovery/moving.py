"""Move tasks to other pools where the rules say so, and find those for which there is no pool left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from cenote.common.errors import JOB_REFUSED, NO_WORKER, OUT_OF_MEMORY
from cenote.common.text import with_last_lines
from cenote.common.units import format_seconds
from cenote.common.values import dataclass
from cenote.engine.autoscaler import Autoscaler
from cenote.engine.messages import AnyCommand, CancelTask, FailureInfo, FellBack, Record, TaskFailed, TaskSplit
from cenote.engine.recovery.retries import Attempts, LargerPool, MorePieces, TooLarge, after_out_of_memory
from cenote.engine.task_classes import CandidatePools, EngineOptions, TaskClass, TaskClasses
from cenote.engine.tasks import READY, SENT, ReadyTasks, TaskStates
from cenote.engine.workers import PoolWorkers
from cenote.language.execution import FallbackWhen, PoolTerms, RunLimits
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Plan

# Hold the rules by which tasks leave a pool that has no worker for them.


@dataclass(frozen=True)
class LeavePool:
    """Tasks are not to wait here any longer."""

    reason: str
    waited: float = 0.0
    last_lines: str = ""
    """What a worker wrote that did not come, or did not stay."""
    refused: bool = False
    """Whether the batch system would not have any of the workers."""


def reason_to_leave(
    pools: Sequence[PoolWorkers], following: Sequence[CandidatePools], *, now: float, limits: RunLimits
) -> LeavePool | None:
    """Whether tasks that wait for these pools leave now: for the choices that follow, or, without any, for good.

    They leave only when every one of the pools gives a reason.
    """
    found = [_leave_one(pool, following, now=now, limits=limits) for pool in pools]
    reasons = [leave for leave in found if leave is not None]
    if not found or len(reasons) < len(found):
        return None
    return LeavePool(
        reason="; ".join(leave.reason for leave in reasons),
        waited=max(leave.waited for leave in reasons),
        last_lines="\n".join(leave.last_lines for leave in reasons if leave.last_lines),
        refused=all(leave.refused for leave in reasons),
    )


def time_to_leave(pool: PoolTerms, following: Sequence[CandidatePools], limits: RunLimits) -> tuple[float, str]:
    """Seconds without a worker after which tasks leave, and the setting that says so; infinite without one."""
    found: list[tuple[float, str]] = [(math.inf, "")]
    if pool.queue_timeout is not None:
        found.append((pool.queue_timeout, "queue_timeout"))
    if following:
        if (given := pool.fallback_when.no_worker_for) is not None:
            found.append((given, "no_worker_for"))
        elif any(choice.own for choice in following) or pool.fallback_when == FallbackWhen():
            found.append((limits.no_worker_for, "limits.no_worker_for"))
    return min(found)


def _leave_one(
    pool: PoolWorkers, following: Sequence[CandidatePools], *, now: float, limits: RunLimits
) -> LeavePool | None:
    name = pool.pool.name
    waited = 0.0 if pool.wanting_since is None else max(0.0, now - pool.wanting_since)
    if pool.failed is not None:
        return LeavePool(f"pool '{name}' failed: {pool.failed}", waited, pool.last_lines, pool.refused is not None)
    if pool.observed:
        return None
    if not pool.may_have_workers and (following or pool.pool.spec.queue_timeout is None):
        return LeavePool(f"pool '{name}' has no workers and cannot get any", waited)
    limit, setting = time_to_leave(pool.pool.spec, following, limits)
    if pool.wanting_since is None or waited < limit:
        return None
    report = f"; latest report: {pool.last_word}" if pool.last_word else ""
    rule = f"{setting}: {format_seconds(limit)}"
    return LeavePool(
        f"pool '{name}' had no worker for {format_seconds(waited)} ({rule}){report}", waited, pool.last_lines
    )


def leaves_after_preemptions(pool: PlacedPool, preemptions: int) -> bool:
    """Whether a task that was preempted so often in this pool goes elsewhere."""
    limit = pool.spec.fallback_when.preempted
    return limit is not None and preemptions >= limit


Unschedulable = tuple[int, str, FailureInfo]
"""A ready task that no pool will ever run, the pool that it waited for, and why."""


@dataclass(frozen=True)
class TaskMover:
    """Carries out the rules of fallback on the tasks of a run."""

    plan: Plan
    classes: TaskClasses
    states: TaskStates
    ready: ReadyTasks
    attempts: Attempts
    autoscaler: Autoscaler
    options: EngineOptions

    def leave_pools(self, now: float, commands: list[AnyCommand]) -> Iterator[Unschedulable]:
        """Tasks that have waited long enough for a worker move on; those that cannot are yielded one by one."""
        for task_class in self.classes:
            if not self.states.count(task_class.number, READY) and not self.states.count(task_class.number, SENT):
                continue
            following = self._following(task_class)
            pools = [self.autoscaler.pools[name] for name in task_class.choice.pools]
            choices = [later.choice for later in following]
            leave = reason_to_leave(pools, choices, now=now, limits=self.options.limits)
            if leave is None:
                continue
            self._call_back(task_class, commands)
            tasks = self.states.ready_in(task_class.number)
            if following and tasks:
                self._move(tasks, following[0])
                self.ready.add(tasks)
                commands.append(self._record(task_class, following[0], leave, now, tasks=len(tasks)))
            elif not following:
                yield from self._unschedulable(task_class, tasks, leave)

    def after_preemption(self, event: TaskFailed, now: float, commands: list[AnyCommand]) -> None:
        """A task that came back was preempted: too often, and it goes to its next choice."""
        task_class = self.classes[self.states.class_of(event.task)]
        following, times = self._following(task_class), self.attempts.history[event.task].preemptions
        if following and leaves_after_preemptions(self.plan.placement.pool(event.pool), times):
            leave = LeavePool(f"preempted {times} times in pool '{event.pool}'")
            self._move([event.task], following[0])
            commands.append(self._record(task_class, following[0], leave, now, event=event))

    def after_out_of_memory(self, event: TaskFailed, now: float, commands: list[AnyCommand]) -> FailureInfo | None:
        """A task that came back ran out of memory: it gets more, or needs less; or the reason why neither helps."""
        task, task_class = event.task, self.classes[self.states.class_of(event.task)]
        following = self._following(task_class)
        pool_of, failure = self.plan.placement.pool, event.failure
        larger = [(later.choice, [pool_of(name) for name in self._usable_pools(later)]) for later in following]
        tried, most = self.attempts.pieces.get(task, 1), self._most_pieces(task, task_class)
        match after_out_of_memory(pool_of(event.pool), larger, failure.message, pieces=tried, most_pieces=most):
            case LargerPool(position, reason):
                self._move([task], following[position])
                commands.append(self._record(task_class, following[position], LeavePool(reason), now, event=event))
            case MorePieces(pieces, reason):
                self.attempts.pieces[task] = pieces
                commands.append(Record(TaskSplit(at=now, task=task, pieces=pieces, reason=reason)))
            case TooLarge(message):
                kind = failure.error_kind or OUT_OF_MEMORY.name
                return msgspec.structs.replace(failure, cause="oom", message=message, error_kind=kind)
        return None

    def passed_over(self, now: float) -> Iterator[Record]:
        """Stages whose preferred pool will never have a worker: placement has moved them before the run began."""
        tasks = {stage.stage: stage.tasks for stage in self.plan.stages}
        for placed in self.plan.placement.stages:
            if (refused := placed.passed_over) is not None:
                move = FellBack(
                    at=now,
                    stage=placed.stage,
                    task=None,
                    tasks=tasks.get(placed.stage, 0),
                    from_pool=refused.pool,
                    to_pool=placed.pools[0],
                    reason=f"pool '{refused.pool}' {refused.reason}",
                    alternatives=placed.pools[1:],
                )
                yield Record(move)

    def stage_of(self, task_class: TaskClass) -> str:
        """The stage that speaks for a class: the first one; of merges, the first with something to merge."""
        segment = self.plan.segments[task_class.segment]
        merged = [step.stage for step in segment.steps if step.product is not None or step.writes]
        return merged[0] if task_class.merges and merged else segment.stages[0]

    def _following(self, task_class: TaskClass) -> list[TaskClass]:
        """The later classes whose pools have a worker or may still get one."""
        return [self.classes[number] for number in task_class.later if self._usable_pools(self.classes[number])]

    def _usable_pools(self, task_class: TaskClass) -> Sequence[str]:
        return [name for name in task_class.choice.pools if self.autoscaler.pools[name].may_have_workers]

    def _most_pieces(self, task: int, task_class: TaskClass) -> int:
        """A partition can be taken in pieces; a merge, or a stage that needs all data at once, cannot."""
        if task_class.merges or self.plan.segments[task_class.segment].scope != "partition":
            return 1
        events = self.plan.partitions[int(self.plan.tasks.partition[task])].events
        return max(1, min(self.options.limits.splits, events))

    def _call_back(self, task_class: TaskClass, commands: list[AnyCommand]) -> None:
        """What the pools of a class have been sent and no worker has taken is ready again."""
        out, taken = self.attempts.out, self.attempts.taken
        for task in [task for task in out if task not in taken and self.states.class_of(task) == task_class.number]:
            commands.append(CancelTask(task))
            self.attempts.come_back(task)
            self.states.take_back(task)

    def _move(self, tasks: Sequence[int], target: TaskClass) -> None:
        history = self.attempts.history
        for task in tasks:
            self.states.change_class(task, target.number)
            if task in history:
                history[task] = replace(history[task], preemptions=0)

    def _unschedulable(self, task_class: TaskClass, tasks: Sequence[int], leave: LeavePool) -> Iterator[Unschedulable]:
        words = with_last_lines(leave.reason, leave.last_lines)
        kind = JOB_REFUSED if leave.refused else NO_WORKER
        failure = FailureInfo(cause="lost", message=words, stage=self.stage_of(task_class), error_kind=kind.name)
        for task in tasks:
            if self.states.codes[task] == READY:  # giving up one task may leave others unread
                yield task, task_class.choice.pools[0], failure

    def _record(
        self,
        task_class: TaskClass,
        target: TaskClass,
        leave: LeavePool,
        now: float,
        *,
        tasks: int = 1,
        event: TaskFailed | None = None,
    ) -> Record:
        """The record of a move: of one task after its failure, or of all that waited."""
        others = [name for later in self._following(task_class) for name in later.choice.pools]
        move = FellBack(
            at=now,
            stage=self.stage_of(task_class),
            task=event.task if event else None,
            tasks=tasks,
            from_pool=event.pool if event else task_class.choice.pools[0],
            to_pool=target.choice.pools[0],
            reason=leave.reason,
            waited=leave.waited,
            alternatives=tuple(name for name in others if name not in target.choice.pools),
        )
        return Record(move)
