"""Decide what becomes of a task that did not succeed: once more, or failed."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

import msgspec

from cenote.engine.messages import FailureInfo, LossCause
from cenote.errors import WORKER_LOST
from cenote.language.execution import RunLimits
from cenote.plan.plan import Segment
from cenote.values import dataclass


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
