"""Stories of tasks that fail, and of workers that are lost."""

import pytest

from builders.plans import a_plan, a_pool, a_segment
from builders.stories import Cause, Story, done, failed, given_up, joined, later, lost, requested, started, taken
from cenote.engine.messages import CancelTask, FinishRun, ForgetTask, LossCause, RunTask, StartWorkers, TaskGivenUp
from cenote.engine.task_classes import EngineOptions
from cenote.language.execution import RunLimits

KEEP_GOING = EngineOptions(keep_going=True)


def test_an_error_of_the_users_code_is_not_retried_by_default() -> None:
    story = Story(a_plan(partitions=1))
    story.after(started(), joined())

    assert story.after(failed(0)) == [given_up(0), FinishRun("failed")]
    assert story.engine.failures[0].message == "simulated error"


@pytest.mark.parametrize("cause", ["error", "timeout", "bad_input", "oom"])
def test_a_failure_is_retried_as_often_as_the_stage_says(cause: Cause) -> None:
    story = Story(a_plan(partitions=1, segments=[a_segment("Hist", retries=2)]))
    story.after(started(), joined())

    assert story.after(failed(0, cause, attempt=1)) == [RunTask(0, "default", 2)]
    assert story.after(failed(0, cause, attempt=2)) == [RunTask(0, "default", 3)]
    assert story.after(failed(0, cause, attempt=3)) == [given_up(0, cause), FinishRun("failed")]


def test_a_fault_of_ours_is_never_retried() -> None:
    story = Story(a_plan(partitions=1, segments=[a_segment("Hist", retries=2)]))
    story.after(started(), joined())

    assert story.after(failed(0, "internal")) == [given_up(0, "internal"), FinishRun("failed")]


def test_a_lost_worker_does_not_use_up_retries() -> None:
    story = Story(a_plan(partitions=1, segments=[a_segment("Hist", retries=1)]))
    story.after(started(), joined("first"), joined("second"))

    assert story.after(lost("first"), failed(0, "lost", attempt=1)) == [RunTask(0, "default", 2)]
    assert story.after(failed(0, "error", attempt=2)) == [RunTask(0, "default", 3)]


def test_a_lost_worker_and_its_lost_task_are_one_loss() -> None:
    story = Story(a_plan(partitions=1), EngineOptions(limits=RunLimits(lost=1)))
    story.after(started(), joined("first"), joined("second"), taken(0, "first", attempt=1))

    assert story.after(failed(0, "lost", attempt=1), lost("first"), failed(0, "lost", attempt=1)) == [
        RunTask(0, "default", 2)
    ]


def test_a_task_that_loses_worker_after_worker_is_given_up_and_not_blamed() -> None:
    story = Story(a_plan(partitions=1), EngineOptions(limits=RunLimits(lost=2)))
    story.after(started(), joined())

    assert story.after(failed(0, "lost"), failed(0, "lost")) == [RunTask(0, "default", 2), RunTask(0, "default", 3)]
    given_up, finished = story.after(failed(0, "lost"))
    assert finished == FinishRun("failed")
    assert isinstance(given_up, TaskGivenUp)
    assert (given_up.task, given_up.worker, given_up.failure) == (0, "worker", story.engine.failures[0])
    assert story.engine.failures[0].message.startswith("3 workers were lost while running it; the last one: ")


def test_a_task_that_crashes_its_worker_twice_is_blamed_and_nobody_waits_for_that() -> None:
    story = Story(a_plan(partitions=1), EngineOptions(manages_workers=True))
    story.after(started(), requested("first"), joined("first"), taken(0, "first", attempt=1))

    again = story.after(lost("first", cause="crashed"), failed(0, "lost", worker="first", attempt=1))
    assert StartWorkers("default", 1) in again
    story.after(requested("second"), joined("second"), taken(0, "second", attempt=2))
    given_up = story.after(lost("second", cause="crashed"), failed(0, "lost", worker="second", attempt=2))
    assert [(one.task, one.worker) for one in given_up if isinstance(one, TaskGivenUp)] == [(0, "second")]
    assert story.engine.failures[0].message.startswith("kills its worker: 2 workers crashed while running it; ")


def test_tasks_that_shared_a_worker_that_crashed_are_not_blamed() -> None:
    story = Story(a_plan(partitions=2), EngineOptions(manages_workers=True, limits=RunLimits(crashed=0, lost=3)))
    story.after(started(), requested("first"), joined("first", slots=2))
    story.after(taken(0, "first", attempt=1), taken(1, "first", attempt=1))

    story.after(lost("first", cause="crashed"))
    story.after(failed(0, "lost", worker="first", attempt=1), failed(1, "lost", worker="first", attempt=1))
    assert not story.engine.failures


@pytest.mark.parametrize("cause", ["died", "crashed", "overdue"])
def test_a_stage_that_ends_every_worker_uses_up_few_of_them_however_many_tasks_it_has(cause: LossCause) -> None:
    pool = a_pool("default", workers=2)
    story = Story(a_plan(partitions=100, pools=[pool]), EngineOptions(manages_workers=True, window_per_slot=50.0))
    waiting = [one for one in story.after(started()) if isinstance(one, RunTask)]
    lost_workers = 0
    while not story.engine.failures:
        lost_workers += 1
        worker, at = f"default-{lost_workers}", 40.0 * lost_workers  # later than any pause
        come = story.after(later(at), requested(worker, at=at), joined(worker, at=at))
        waiting += [one for one in come if isinstance(one, RunTask)]
        sent = waiting.pop(0)  # one that was tried comes after all that were sent ahead, so that tasks take turns
        back = story.after(
            taken(sent.task, worker, attempt=sent.attempt),
            lost(worker, cause=cause, at=at),
            failed(sent.task, "lost", worker=worker, attempt=sent.attempt, at=at),
        )
        waiting += [one for one in back if isinstance(one, RunTask)]
    assert lost_workers <= 7, "three times as many as the pool has, and one"


def test_the_first_failure_stops_the_run_and_calls_running_tasks_back() -> None:
    story = Story(a_plan(partitions=4), EngineOptions(window_per_slot=1.0))
    story.after(started(), joined(slots=3), taken(0), taken(1), taken(2))

    assert story.after(failed(0)) == [given_up(0), CancelTask(1), CancelTask(2)]
    assert story.after(done(1)) == []
    assert story.after(failed(2, "internal")) == [FinishRun("failed")]
    assert list(story.engine.failures) == [0], "a task that was called back has not failed"
    assert story.abandoned == dict.fromkeys((2, 3, 4), "task 0 failed")


def test_keep_going_merges_the_parts_that_there_are() -> None:
    story = Story(a_plan(partitions=3), KEEP_GOING)
    story.after(started(), joined(slots=3))

    assert story.after(failed(1)) == [given_up(1)]
    assert story.after(done(0), done(2)) == [RunTask(3, "default", 1, missing=(1,))]
    assert story.after(done(3)) == [FinishRun("partial")], "parts of a partial merge are kept for the next run"


def test_keep_going_abandons_what_needs_the_failed_task_and_nothing_else() -> None:
    plan = a_plan(partitions=2, segments=[a_segment("Index"), a_segment("Hist", needs=["Index"], product=True)])
    story = Story(plan, KEEP_GOING)
    story.after(started(), joined(slots=2))

    assert story.after(failed(0)) == [given_up(0)]
    assert story.after(done(1)) == [RunTask(3, "default", 1)]
    assert story.after(done(3)) == [ForgetTask(1), RunTask(4, "default", 1, missing=(2,))]
    assert story.after(done(4)) == [FinishRun("partial")]
    assert story.abandoned == {2: "task 0 failed"}


def test_keep_going_does_not_train_on_fewer_partitions() -> None:
    plan = a_plan(
        partitions=2,
        segments=[a_segment("Index", product=True), a_segment("Train", needs=["Index"], scope="run")],
    )
    story = Story(plan, KEEP_GOING)
    story.after(started(), joined(slots=2), failed(0))

    assert story.after(done(1)) == [RunTask(2, "default", 1, missing=(0,))], "the merge goes on, the training does not"
    assert story.after(done(2)) == [FinishRun("partial")]


def test_keep_going_does_not_use_a_partial_merge_as_if_it_were_whole() -> None:
    plan = a_plan(partitions=4, fan_in=2)
    story = Story(plan, KEEP_GOING)
    story.after(started(), joined(slots=4), failed(0), done(1), done(2), done(3))

    assert story.after(done(4)) == []
    assert story.after(done(5)) == [ForgetTask(2), ForgetTask(3), RunTask(6, "default", 1)]
    assert story.after(done(6)) == [ForgetTask(4), FinishRun("partial")], "what is whole is kept for the next run"


def test_keep_going_abandons_a_merge_without_any_part() -> None:
    story = Story(a_plan(partitions=2), KEEP_GOING)
    story.after(started(), joined(slots=2), failed(0))

    assert story.after(failed(1)) == [given_up(1), FinishRun("failed")]
    assert story.abandoned == {2: "task 1 failed"}


def test_keep_going_ends_as_failed_when_no_result_is_there() -> None:
    plan = a_plan(partitions=1, segments=[a_segment("Index"), a_segment("Hist", needs=["Index"])])
    story = Story(plan, KEEP_GOING)
    story.after(started(), joined(), done(0))

    assert story.after(failed(1)) == [given_up(1), FinishRun("failed")]


def test_keep_going_leaves_out_work_that_nobody_could_use_any_more() -> None:
    plan = a_plan(partitions=3, segments=[a_segment("Index"), a_segment("Train", needs=["Index"], scope="run")])
    story = Story(plan, EngineOptions(keep_going=True, window_per_slot=1.0))
    story.after(started(), joined())

    assert story.after(failed(0)) == [given_up(0), FinishRun("failed")]
    assert story.abandoned == dict.fromkeys((1, 2, 3), "task 0 failed")


def test_keep_going_waits_for_a_running_task_that_nobody_needs_and_never_retries_it() -> None:
    plan = a_plan(
        partitions=2,
        segments=[a_segment("Index", retries=1), a_segment("Train", needs=["Index"], scope="run")],
    )
    story = Story(plan, KEEP_GOING)
    story.after(started(), joined(slots=2))

    assert story.after(failed(0, "internal")) == [given_up(0, "internal")]
    assert story.after(failed(1, "error")) == [FinishRun("failed")]
    assert list(story.engine.failures) == [0]


def test_inputs_of_a_failed_task_are_kept_for_the_next_run() -> None:
    plan = a_plan(partitions=1, segments=[a_segment("Index"), a_segment("Hist", needs=["Index"])])
    story = Story(plan, KEEP_GOING)

    commands = story.after(started(), joined(), done(0), failed(1))

    assert ForgetTask(0) not in commands
