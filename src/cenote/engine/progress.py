"""This file says how far a run is, and why something has not happened yet, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cenote.engine.messages import FailureInfo
from cenote.engine.ready import ReadyTasks
from cenote.engine.tasks import ABANDONED, DONE, FAILED, NEEDLESS, PARTIAL, READY, SENT, WAITING, TaskStates
from cenote.engine.workers import PoolRoom
from cenote.names import listed
from cenote.plan.plan import MERGE, RUN, Plan


@dataclass(frozen=True)
class Counts:
    """How many tasks are in which state."""

    waiting: int
    """For other tasks."""
    ready: int
    """For room in a pool."""
    sent: int
    """To a pool: running, or next in line for a slot."""
    done: int
    failed: int
    abandoned: int
    """Because something that they need has failed."""
    needless: int
    """Not run because nobody reads them: what would have is done already, or abandoned."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.waiting + self.ready + self.sent + self.done + self.failed + self.abandoned + self.needless


def count_tasks(states: TaskStates, segment: int, *, merges: bool) -> Counts:
    """The tasks of a segment, or its merges."""
    row = 2 * segment + (MERGE if merges else RUN)
    return Counts(
        waiting=states.count(row, WAITING),
        ready=states.count(row, READY),
        sent=states.count(row, SENT),
        done=states.count(row, DONE) + states.count(row, PARTIAL),
        failed=states.count(row, FAILED),
        abandoned=states.count(row, ABANDONED),
        needless=states.count(row, NEEDLESS),
    )


def reason_of_task(
    task: int,
    plan: Plan,
    states: TaskStates,
    ready: ReadyTasks,
    taken: Mapping[int, str],
    failures: Mapping[int, FailureInfo],
) -> str:
    """Why this task is not done, in words."""
    match states.codes[task]:
        case code if code == WAITING:
            unmet = states.unmet_needs(task)
            names = {plan.segments[int(plan.tasks.segment[need])].name for need in unmet}
            return f"waits for {len(unmet)} of {len(plan.tasks.needs_of(task))} tasks that it needs: {listed(names)}"
        case code if code == READY:
            return "; ".join(_why_not_sent(pool) for pool in ready.pools_of(task)) or "no pool may run it"
        case code if code == SENT:
            return f"runs on {taken[task]}" if task in taken else "is sent, and waits for a slot"
        case code if code == FAILED:
            return f"failed: {failures[task].message}"
        case code if code == ABANDONED:
            blamed = states.blame[task]
            return f"abandoned, because task {blamed}, which it needs, failed: {failures[blamed].message}"
        case code if code == NEEDLESS:
            return "is not needed: what would read it is done or abandoned"
        case code if code == PARTIAL:
            return "is done, without the parts that failed"
        case _:
            return "is done"


def reason_of_stage(
    stage: str,
    plan: Plan,
    states: TaskStates,
    ready: ReadyTasks,
    taken: Mapping[int, str],
    failures: Mapping[int, FailureInfo],
) -> str:
    """Why this stage is not done, in words: how many of its tasks are where, and the reason of the first open one."""
    segment = next((segment for segment in plan.segments if stage in segment.stages), None)
    if segment is None:
        return f"there is no stage '{stage}' in this plan"
    counts = count_tasks(states, segment.index, merges=False)
    facts = f"{counts.done} of {counts.total} tasks done"
    open_codes = (READY, SENT, WAITING, FAILED, ABANDONED)
    mine = [int(task) for task in (plan.tasks.segment == segment.index).nonzero()[0] if plan.tasks.kind[task] == RUN]
    first = {code: next((task for task in mine if states.codes[task] == code), None) for code in open_codes}
    chosen = next((task for task in first.values() if task is not None), None)
    if chosen is None:
        return facts
    return f"{facts}; task {chosen} {reason_of_task(chosen, plan, states, ready, taken, failures)}"


def _why_not_sent(pool: PoolRoom) -> str:
    if pool.workers == 0:
        return f"pool '{pool.name}' has no worker yet"
    return f"pool '{pool.name}' is full: {pool.sent} tasks sent to {pool.slots} slots"
