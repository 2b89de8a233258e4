"""Decide what becomes of a task that did not succeed: once more, in pieces, or failed; and what losses cost a stage."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

import msgspec

from cenote.common.errors import WORKER_LOST
from cenote.common.units import format_bytes
from cenote.common.values import dataclass
from cenote.engine.capacity import PoolCapacity
from cenote.engine.messages import FailureInfo, LossCause, TaskFailed
from cenote.engine.task_classes import CandidatePools
from cenote.language.execution import RunLimits
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Segment


class Rule(Enum):
    """What a cause does to a task."""

    AS_RETRIES_SAY = "counted, and retried while the stage's `retries` allow"
    MOVES = "moved to another worker, up to a limit"
    FINAL = "never retried"


RULES = {
    "error": Rule.AS_RETRIES_SAY,
    "bad_input": Rule.AS_RETRIES_SAY,
    "timeout": Rule.AS_RETRIES_SAY,
    "oom": Rule.AS_RETRIES_SAY,
    "lost": Rule.MOVES,
    "stopped": Rule.MOVES,
    "changed_input": Rule.FINAL,
    "damaged": Rule.FINAL,
    "internal": Rule.FINAL,
}


@dataclass(frozen=True)
class History:
    """What a task went through so far."""

    failures: int = 0
    losses: int = 0
    """How often its worker was lost, for whatever reason but those below."""
    crashes: int = 0
    """How often its worker crashed while it ran this task and no other; these are among the losses."""
    preemptions: int = 0
    """How often its worker was preempted in the pool where it is now; these are not among the losses."""
    cut_off: int = 0
    """How often it was not through when its worker's walltime was over; these are not among the losses either."""


@dataclass(frozen=True)
class RetryDecision:
    """What becomes of the task, and what it went through by now."""

    again: bool
    history: History
    failure: FailureInfo
    """As reported, or in better words."""


def decide(
    failure: FailureInfo,
    history: History,
    segment: Segment,
    limits: RunLimits,
    *,
    fate: LossCause = "unknown",
    alone: bool = False,
) -> RetryDecision:
    """Whether a task of this segment is tried once more; `fate` is what became of its worker, and `alone` whether that
    had nothing else to do."""
    if fate == "overdue" and alone and failure.cause == "lost":
        failure = _timed_out(failure, segment)
    match RULES[failure.cause]:
        case Rule.MOVES if fate == "retired":  # our own doing
            return RetryDecision(again=True, history=history, failure=failure)
        case Rule.MOVES:
            return _after_loss(failure, history, limits, "crashed alone" if fate == "crashed" and alone else fate)
        case Rule.AS_RETRIES_SAY:
            again = history.failures < retries_allowed(segment, failure.stage)
            return RetryDecision(again, replace(history, failures=history.failures + 1), failure)
        case Rule.FINAL:
            return RetryDecision(again=False, history=history, failure=failure)


def retries_allowed(segment: Segment, stage: str | None) -> int:
    """The `retries` of the stage that failed; where it is not known, of the most patient stage of the segment."""
    named = [step.retries for step in segment.steps if step.stage == stage]
    return named[0] if named else max((step.retries for step in segment.steps), default=0)


def _timed_out(failure: FailureInfo, segment: Segment) -> FailureInfo:
    """Its worker was ended by a time limit: that of the stage that it was in, or of the one that has a limit."""
    limited = [step for step in segment.steps if step.may_be_stopped and failure.stage in (None, step.stage)]
    if not limited:
        return failure
    known = limited[0] if len(limited) == 1 else None
    limit = f"timeout of {known.timeout} s" if known and known.timeout else "time limit"
    message = f"ran longer than its {limit}, and held Python's lock: the process was ended"
    stage = known.stage if known else None
    return msgspec.structs.replace(failure, cause="timeout", message=message, stage=stage, fate=None)


def _after_loss(failure: FailureInfo, before: History, limits: RunLimits, fate: str) -> RetryDecision:
    """Count the loss of its worker; too many of a kind are final, and the message says how many."""
    last, again = failure.message, True
    match fate:
        case "preempted":
            history = replace(before, preemptions=before.preemptions + 1)
            final = history.preemptions > limits.preempted
            message = f"was preempted {history.preemptions} times; the last time: {last}"
        case "walltime":
            history = replace(before, cut_off=before.cut_off + 1)
            final = history.cut_off > limits.walltime
            message = (
                f"takes longer than its workers' walltime: {history.cut_off} times the walltime ended before it "
                "finished; give the pool a longer `walltime`, or the source a smaller `chunk_size`"
            )
        case "crashed alone":
            history = replace(before, losses=before.losses + 1, crashes=before.crashes + 1)
            final, again = history.crashes > limits.crashed, history.losses <= limits.lost
            message = f"kills its worker: {history.crashes} workers crashed while running it; the last one: {last}"
        case _:
            history = replace(before, losses=before.losses + 1)
            final = history.losses > limits.lost
            message = f"{history.losses} workers were lost while running it; the last one: {last}"
    if final:
        kind = failure.error_kind or WORKER_LOST.name
        failure = msgspec.structs.replace(failure, message=message, error_kind=kind)
    return RetryDecision(again=again and not final, history=history, failure=failure)


# Keep which attempts at tasks are out, where they are, and what each task went through.


class Attempts:
    """Every task that was ever sent. An attempt that is not the latest, or has come back, is not current."""

    def __init__(self, tasks: int) -> None:
        self._number = array("I", bytes(4 * tasks))
        self.out: dict[int, PoolCapacity] = {}
        """Tasks that were sent and have not come back → their pool."""
        self.taken: dict[int, str] = {}
        """Of those, the ones that a worker said it has → the worker."""
        self.history: dict[int, History] = {}
        """Of tasks that did not succeed at once."""
        self.pieces: dict[int, int] = {}
        """Tasks that did not fit into memory → the pieces that they are taken in."""

    def number(self, task: int) -> int:
        """How often it was sent."""
        return self._number[task]

    def is_current(self, task: int, attempt: int) -> bool:
        """Whether this attempt is out; 0 is taken for the latest."""
        return task in self.out and attempt in (0, self._number[task])

    def send(self, task: int, pool: PoolCapacity) -> int:
        """A task goes to a pool: the number of the attempt."""
        self._number[task] += 1
        self.out[task] = pool
        pool.sent += 1
        return self._number[task]

    def take(self, task: int, attempt: int, worker: str) -> None:
        """A worker has it."""
        if self.is_current(task, attempt):
            self._let_go(task)
            self.taken[task] = worker
            self.out[task].count_held(worker, 1)

    def come_back(self, task: int) -> None:
        """It is not out any more."""
        self._let_go(task)
        self.out.pop(task).sent -= 1

    def _let_go(self, task: int) -> None:
        """Whichever worker had it has it no more."""
        if (worker := self.taken.pop(task, None)) is not None:
            self.out[task].count_held(worker, -1)

    def busy_workers(self) -> frozenset[str]:
        """The workers that have a task."""
        return frozenset(self.taken.values())

    def tasks_on(self, worker: str) -> int:
        """How many tasks a worker has."""
        return sum(other == worker for other in self.taken.values())


# Count the workers that the tasks of a segment cost, one after the other, without one of them being done.


_BY_ITS_TASK = frozenset({"died", "crashed", "overdue", "unknown"})
"""Ends of workers that what they ran may have caused."""


class WorkerToll:
    """Tasks take turns: each alone may lose few workers, where together they lose one after the other."""

    def __init__(self, limit: int) -> None:
        """A segment may lose so many times the workers of its pool."""
        self._limit = limit
        self._lost: dict[int, set[str]] = {}

    def pay(self, event: TaskFailed, segment: int, fate: LossCause, pool: PlacedPool) -> FailureInfo | None:
        """A task of this segment came back: why it is not tried again, where it and those like it end every worker."""
        if event.failure.cause != "lost" or fate not in _BY_ITS_TASK:
            return None
        lost = self._lost.setdefault(segment, set())
        lost.add(event.worker)
        if len(lost) <= self._limit * max(1, pool.most_workers):
            return None
        words = f"{len(lost)} workers in a row were lost while running tasks like it; the last one: "
        kind = event.failure.error_kind or WORKER_LOST.name
        return msgspec.structs.replace(event.failure, message=words + event.failure.message, error_kind=kind)

    def settle(self, segment: int) -> None:
        """A task of this segment is done: its code does not end every worker."""
        self._lost.pop(segment, None)


# Decide what becomes of a task that ran out of memory: a larger pool, smaller pieces, or the end.


@dataclass(frozen=True)
class LargerPool:
    """Try it in a pool with more memory per task."""

    choice: int
    """Position among the choices that follow."""
    reason: str


@dataclass(frozen=True)
class MorePieces:
    """Try it in more pieces, one after the other."""

    pieces: int
    reason: str


@dataclass(frozen=True)
class TooLarge:
    """Nothing is left to try."""

    message: str


def after_out_of_memory(
    pool: PlacedPool,
    following: Sequence[tuple[CandidatePools, Sequence[PlacedPool]]],
    message: str,
    *,
    pieces: int,
    most_pieces: int,
) -> LargerPool | MorePieces | TooLarge:
    """A larger pool if one is allowed, each once; else twice as many pieces; else it failed, with the numbers.

    `following` are the choices that the task has not tried, each with those of its pools that can have workers. It was
    run in so many `pieces`; `most_pieces` is 1 for what cannot be taken in pieces: merges, and stages that need all
    data at once. `message` is the last that was reported.
    """
    held = pool.memory_per_slot
    memory = "memory per task not stated" if held == math.inf else f"{format_bytes(held)} per task"
    reason = f"out of memory in '{pool.name}' ({memory}): {message}"
    for position, (choice, pools) in enumerate(following):
        allowed = choice.own or pool.spec.fallback_when.oom
        if allowed and min((other.memory_per_slot for other in pools), default=0) > held:
            return LargerPool(position, reason)
    if 2 * pieces <= most_pieces:
        return MorePieces(2 * pieces, reason)
    tried = f"even in {pieces} pieces, " if pieces > 1 else ""
    smaller = "it cannot be split" if most_pieces == 1 else "smaller pieces are not tried"
    why = f"{tried}and no larger pool is allowed, and {smaller}"
    return TooLarge(f"out of memory in pool '{pool.name}' ({memory}), {why}: {message}")
