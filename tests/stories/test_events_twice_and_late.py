"""Stories of events that come twice, late, or about things nobody knows."""

import pytest

from builders.plans import a_plan, a_segment
from builders.stories import Story, cancelled, done, failed, joined, lost, reused, started, taken
from cenote.engine.messages import AnyEvent, CancelTask, FinishRun, RunTask
from cenote.engine.task_classes import EngineOptions

ONE_PER_SLOT = EngineOptions(window_per_slot=1.0)


def test_a_task_that_is_done_twice_is_done_once() -> None:
    story = Story(a_plan(partitions=3), ONE_PER_SLOT)
    story.after(started(), joined())

    assert story.after(done(0)) == [RunTask(1, "default", 1)]
    assert story.after(done(0)) == []
    assert story.after(done(1), done(2)) == [RunTask(2, "default", 1), RunTask(3, "default", 1)]


def test_a_failure_after_success_is_ignored() -> None:
    story = Story(a_plan(partitions=2), ONE_PER_SLOT)
    story.after(started(), joined(), done(0))

    assert story.after(failed(0)) == []
    assert story.after(done(1)) == [RunTask(2, "default", 1)], "the merge has both parts"


def test_a_failure_told_twice_uses_up_one_retry() -> None:
    story = Story(a_plan(partitions=1, segments=[a_segment("Hist", retries=1)]))
    story.after(started(), joined())

    assert story.after(failed(0, attempt=1)) == [RunTask(0, "default", 2)]
    assert story.after(failed(0, attempt=1)) == []


def test_a_late_success_of_an_earlier_attempt_counts_and_the_later_attempt_is_stopped() -> None:
    story = Story(a_plan(partitions=2))
    story.after(started(), joined(), failed(0, "lost", attempt=1))

    assert story.after(done(0, attempt=1)) == [CancelTask(0)]
    assert story.after(done(0, attempt=2), failed(0, attempt=2)) == []
    assert story.after(done(1)) == [RunTask(2, "default", 1)], "the merge has both parts"


def test_a_late_success_of_a_task_that_waits_to_be_tried_again_counts() -> None:
    story = Story(a_plan(partitions=2), ONE_PER_SLOT)
    story.after(started(), joined(), lost(), failed(0, "lost", attempt=1))

    assert story.after(done(0, attempt=1)) == []
    assert story.after(joined("second")) == [RunTask(1, "default", 1)]


def test_a_late_start_of_an_earlier_attempt_is_ignored() -> None:
    story = Story(a_plan(partitions=1))
    story.after(started(), joined(), failed(0, "lost", attempt=1), taken(0, "first", attempt=1))

    assert story.after(cancelled()) == [CancelTask(0), FinishRun("cancelled")], "no worker has it, none is waited for"


def test_a_success_after_the_task_was_given_up_is_ignored() -> None:
    story = Story(a_plan(partitions=2), EngineOptions(keep_going=True))
    story.after(started(), joined(slots=2), failed(0, attempt=1))

    assert story.after(done(0, attempt=1)) == []
    assert story.after(done(1)) == [RunTask(2, "default", 1, missing=(0,))]


def test_a_success_of_a_task_that_was_never_sent_is_ignored() -> None:
    story = Story(a_plan(partitions=2), ONE_PER_SLOT)
    story.after(started(), joined())

    assert story.after(done(2)) == []
    assert story.after(done(0), done(1)) == [RunTask(1, "default", 1), RunTask(2, "default", 1)]


@pytest.mark.parametrize(
    "nonsense",
    [
        done(-1),
        done(99),
        failed(99),
        failed(-1),
        taken(99),
        reused(99),
        reused(-1),
        lost("nobody"),
        lost("x", "nowhere"),
    ],
    ids=str,
)
def test_events_about_what_nobody_knows_change_nothing(nonsense: AnyEvent) -> None:
    story = Story(a_plan(partitions=1))
    story.after(started(), joined())

    assert story.after(nonsense) == []
    assert story.after(done(0)) == [FinishRun("succeeded")]


def test_a_run_that_is_started_twice_is_started_once() -> None:
    story = Story(a_plan(partitions=1))

    assert story.after(started(), joined(), started()) == [RunTask(0, "default", 1)]
