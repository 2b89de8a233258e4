"""Stories of runs that go on from an earlier one, and of runs that somebody stops."""

from builders.plans import a_plan, a_segment
from builders.stories import Story, cancelled, done, failed, joined, reused, started, taken
from cenote.engine.messages import CancelTask, FinishRun, ForgetTask, RunTask
from cenote.engine.task_classes import EngineOptions

ONE_PER_SLOT = EngineOptions(window_per_slot=1.0)


def test_a_reused_task_does_not_run_again() -> None:
    story = Story(a_plan(partitions=2))

    assert story.after(started(), reused(0), joined()) == [RunTask(1, "default", 1)]
    assert story.after(done(1)) == [RunTask(2, "default", 1)]


def test_a_run_whose_results_are_all_there_finishes_without_a_worker() -> None:
    story = Story(a_plan(partitions=2))

    assert story.after(started(), reused(2)) == [FinishRun("succeeded")]
    assert story.not_needed == [0, 1]


def test_what_led_to_a_finished_result_is_not_needed() -> None:
    plan = a_plan(partitions=2, segments=[a_segment("Left", product=True), a_segment("Right", product=True)])
    story = Story(plan)

    assert story.after(started(), reused(2), joined(slots=2)) == [RunTask(3, "default", 1), RunTask(4, "default", 1)]
    assert story.not_needed == [0, 1]


def test_a_task_runs_if_only_one_of_its_readers_is_done() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Index"), a_segment("Left", needs=["Index"]), a_segment("Right", needs=["Index"])],
    )
    story = Story(plan)

    assert story.after(started(), reused(1), joined()) == [RunTask(0, "default", 1)]
    assert story.after(done(0)) == [RunTask(2, "default", 1)]


def test_a_reused_task_that_nobody_reads_any_more_is_forgotten_whatever_comes_first() -> None:
    plan = a_plan(partitions=2, segments=[a_segment("Index"), a_segment("Hist", needs=["Index"])])

    assert Story(plan).after(started(), reused(0), reused(2)) == [ForgetTask(0)]
    assert Story(plan).after(started(), reused(2), reused(0)) == [ForgetTask(0)]


def test_what_comes_before_a_reused_middle_is_not_needed() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Index"), a_segment("Infer", needs=["Index"]), a_segment("Hist", needs=["Infer"])],
    )
    story = Story(plan)

    assert story.after(started(), reused(1), joined()) == [RunTask(2, "default", 1)]
    assert story.not_needed == [0]


def test_reused_tasks_make_a_merge_ready() -> None:
    story = Story(a_plan(partitions=2))

    assert story.after(started(), reused(1), reused(0), joined()) == [RunTask(2, "default", 1)]


def test_cancelling_calls_running_tasks_back_and_then_ends() -> None:
    story = Story(a_plan(partitions=4), ONE_PER_SLOT)
    story.after(started(), joined(slots=2), taken(0), taken(1))

    assert story.after(cancelled()) == [CancelTask(0), CancelTask(1)]
    assert story.after(done(0)) == []
    assert story.after(failed(1, "internal")) == [FinishRun("cancelled")]
    assert story.abandoned == dict.fromkeys((1, 2, 3, 4), "the run was cancelled")


def test_cancelling_again_ends_at_once() -> None:
    story = Story(a_plan(partitions=4))
    story.after(started(), joined(), taken(0), cancelled())

    assert story.after(cancelled()) == [FinishRun("cancelled")]
    assert story.after(cancelled(), done(0)) == []


def test_cancelling_while_nothing_runs_ends_at_once() -> None:
    story = Story(a_plan(partitions=4))

    assert story.after(started(), cancelled()) == [FinishRun("cancelled")]


def test_cancelling_does_not_wait_for_tasks_that_no_worker_has() -> None:
    story = Story(a_plan(partitions=4))
    story.after(started(), joined(), taken(0))

    assert story.after(cancelled()) == [CancelTask(0), CancelTask(1)]
    assert story.after(done(0)) == [FinishRun("cancelled")]


def test_cancelling_a_run_that_is_failing_already_ends_it_as_failed() -> None:
    story = Story(a_plan(partitions=4))
    story.after(started(), joined(), taken(1), failed(0))

    assert story.after(cancelled()) == [FinishRun("failed")]


def test_a_worker_that_joins_a_cancelled_run_gets_nothing() -> None:
    story = Story(a_plan(partitions=4), ONE_PER_SLOT)
    story.after(started(), joined(), taken(0), cancelled())

    assert story.after(joined("late")) == []
