"""What becomes of a task that did not succeed."""

from dataclasses import replace
from typing import get_args, get_type_hints

from builders.plans import a_plan, a_segment
from cenote.engine.messages import FailureInfo
from cenote.engine.recovery.retries import RULES, History, decide, retries_allowed
from cenote.language.execution import RunLimits
from cenote.planning.plan import Segment


def a_fused_segment(**retries: int) -> Segment:
    segment = a_plan(segments=[a_segment("Only")]).segments[0]
    steps = tuple(replace(segment.steps[0], stage=stage, retries=count) for stage, count in retries.items())
    return replace(segment, steps=steps)


def test_every_cause_has_a_rule() -> None:
    assert set(RULES) == set(get_args(get_type_hints(FailureInfo)["cause"]))


def test_the_stage_that_failed_decides_how_often_it_is_retried() -> None:
    segment = a_fused_segment(Select=0, Infer=3)

    assert retries_allowed(segment, "Select") == 0
    assert retries_allowed(segment, "Infer") == 3


def test_a_failure_of_no_stage_in_particular_is_retried_as_the_most_patient_stage_says() -> None:
    assert retries_allowed(a_fused_segment(Select=0, Infer=3), None) == 3


def test_failures_of_all_stages_count_together() -> None:
    segment = a_fused_segment(Select=1, Infer=3)
    failure = FailureInfo(cause="error", message="division by zero", stage="Select")

    assert decide(failure, History(failures=0), segment, RunLimits()).again
    assert not decide(failure, History(failures=1), segment, RunLimits()).again


def test_losses_are_not_counted_as_failures() -> None:
    lost = FailureInfo(cause="lost", message="the batch system took the node")

    decision = decide(lost, History(failures=1, losses=1), a_fused_segment(Select=0), RunLimits())

    assert decision.again
    assert decision.history == History(failures=1, losses=2)


def test_the_loss_beyond_the_limit_fails_the_task_and_blames_nobody() -> None:
    lost = FailureInfo(cause="lost", message="exit code -9")

    decision = decide(lost, History(losses=3), a_fused_segment(Select=5), RunLimits(lost=3))

    assert not decision.again
    assert decision.failure.error_kind == "worker-lost"
    assert decision.failure.message == ("4 workers were lost while running it; the last one: exit code -9")
