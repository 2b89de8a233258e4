"""State how far a run is, and why something has not happened yet, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cenote.engine.capacity import PoolCapacity
from cenote.engine.messages import FailureInfo
from cenote.engine.ready import ReadyTasks
from cenote.engine.tasks import ABANDONED, DONE, FAILED, NEEDLESS, PARTIAL, READY, SENT, STATES, WAITING, TaskStates
from cenote.names import listed
from cenote.plan.plan import RUN, Plan


@dataclass(frozen=True)
class TaskCounts:
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


def count_tasks(states: TaskStates, segment: int, *, merges: bool) -> TaskCounts:
    """The tasks of a segment, or its merges."""
    number = [states.count_all(segment, state, merges=merges) for state in range(STATES)]
    return TaskCounts(
        waiting=number[WAITING],
        ready=number[READY],
        sent=number[SENT],
        done=number[DONE] + number[PARTIAL],
        failed=number[FAILED],
        abandoned=number[ABANDONED],
        needless=number[NEEDLESS],
    )


@dataclass(frozen=True)
class Situation:
    """What an answer to "why" may look at."""

    plan: Plan
    states: TaskStates
    ready: ReadyTasks
    taken: Mapping[int, str]
    """Tasks that run → their worker."""
    failures: Mapping[int, FailureInfo]
    awaited: Callable[[str], str] = lambda _pool: ""
    """What is known of the workers that a pool waits for, in words."""


def reason_of_task(task: int, now: Situation) -> str:
    """Why this task is not done, in words."""
    match now.states.codes[task]:
        case code if code == WAITING:
            return _what_is_missing(task, now)
        case code if code == READY:
            return (
                "; ".join(_why_not_sent(pool, now.awaited(pool.name)) for pool in now.ready.pools_of(task))
                or "no pool may run it"
            )
        case code if code == SENT:
            return f"runs on {now.taken[task]}" if task in now.taken else "is sent, and waits for a slot"
        case code if code == FAILED:
            return f"failed: {now.failures[task].message}"
        case code if code == ABANDONED:
            blamed = now.states.blame[task]
            return f"abandoned, because task {blamed}, which it needs, failed: {now.failures[blamed].message}"
        case code if code == NEEDLESS:
            return "is not needed: what would read it is done or abandoned"
        case code if code == PARTIAL:
            return "is done, without the parts that failed"
        case _:
            return "is done"


def reason_of_stage(stage: str, now: Situation) -> str:
    """Why this stage is not done, in words: how many of its tasks are, and the reason of the first open one."""
    segment = next((segment for segment in now.plan.segments if stage in segment.stages), None)
    if segment is None:
        return f"there is no stage '{stage}' in this plan"
    counts = count_tasks(now.states, segment.index, merges=False)
    facts = f"{counts.done} of {counts.total} tasks done"
    mine = np.flatnonzero((now.plan.tasks.segment == segment.index) & (now.plan.tasks.kind == RUN))
    codes = np.frombuffer(now.states.codes, dtype=np.uint8)[mine]
    for code in (READY, SENT, WAITING, FAILED, ABANDONED):
        if code in codes:
            first = int(mine[np.argmax(codes == code)])
            return f"{facts}; task {first}: {reason_of_task(first, now)}"
    return facts


def _what_is_missing(task: int, now: Situation) -> str:
    unmet = now.states.unmet_needs(task)
    names = {now.plan.segments[int(now.plan.tasks.segment[need])].name for need in unmet}
    return f"waits for {len(unmet)} of {len(now.plan.tasks.needs_of(task))} tasks that it needs: {listed(names)}"


def _why_not_sent(pool: PoolCapacity, awaited: str) -> str:
    if pool.workers == 0:
        return f"pool '{pool.name}' has no worker yet{awaited}"
    return f"pool '{pool.name}' is full: {pool.sent} tasks sent to {pool.slots} slots"
