"""Decide what becomes of a task that did not succeed: once more, or failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import msgspec

from cenote.engine.messages import FailureInfo, LossCause
from cenote.errors import WORKER_LOST
from cenote.language.execution import RunLimits
from cenote.plan.plan import Segment


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
class Decision:
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
) -> Decision:
    """Whether a task of this segment is tried once more; `fate` is what became of its worker, and `alone` whether that
    had nothing else to do."""
    match RULES[failure.cause]:
        case Rule.MOVES if fate == "retired":  # our own doing
            return Decision(again=True, history=history, failure=failure)
        case Rule.MOVES if fate == "preempted":
            return _after_preemption(failure, replace(history, preemptions=history.preemptions + 1), limits)
        case Rule.MOVES if fate == "walltime":
            return _after_walltime(failure, replace(history, cut_off=history.cut_off + 1), limits)
        case Rule.MOVES if fate == "crashed" and alone:
            counted = replace(history, losses=history.losses + 1, crashes=history.crashes + 1)
            return _after_crash(failure, counted, limits)
        case Rule.MOVES:
            return _after_loss(failure, replace(history, losses=history.losses + 1), limits)
        case Rule.AS_RETRIES_SAY:
            again = history.failures < retries_allowed(segment, failure.stage)
            return Decision(again, replace(history, failures=history.failures + 1), failure)
        case Rule.FINAL:
            return Decision(again=False, history=history, failure=failure)


def retries_allowed(segment: Segment, stage: str | None) -> int:
    """The `retries` of the stage that failed; where it is not known, of the most patient stage of the segment."""
    named = [step.retries for step in segment.steps if step.stage == stage]
    return named[0] if named else max((step.retries for step in segment.steps), default=0)


def _after_loss(failure: FailureInfo, history: History, limits: RunLimits) -> Decision:
    if history.losses <= limits.lost:
        return Decision(again=True, history=history, failure=failure)
    message = f"{history.losses} workers were lost while running it; the last one: {failure.message}"
    return Decision(again=False, history=history, failure=_with_message(failure, message))


def _after_crash(failure: FailureInfo, history: History, limits: RunLimits) -> Decision:
    if history.crashes <= limits.crashed:
        return Decision(again=history.losses <= limits.lost, history=history, failure=failure)
    message = f"kills its worker: {history.crashes} workers crashed while running it; the last one: {failure.message}"
    return Decision(again=False, history=history, failure=_with_message(failure, message))


def _after_preemption(failure: FailureInfo, history: History, limits: RunLimits) -> Decision:
    if history.preemptions <= limits.preempted:
        return Decision(again=True, history=history, failure=failure)
    message = f"was preempted {history.preemptions} times; the last time: {failure.message}"
    return Decision(again=False, history=history, failure=_with_message(failure, message))


def _after_walltime(failure: FailureInfo, history: History, limits: RunLimits) -> Decision:
    if history.cut_off <= limits.walltime:
        return Decision(again=True, history=history, failure=failure)
    message = (
        f"takes longer than its workers' walltime: {history.cut_off} times the walltime ended before it finished;"
        " give the pool a longer `walltime`, or the source a smaller `chunk_size`"
    )
    return Decision(again=False, history=history, failure=_with_message(failure, message))


def _with_message(failure: FailureInfo, message: str) -> FailureInfo:
    return msgspec.structs.replace(failure, message=message, error_kind=failure.error_kind or WORKER_LOST.name)
