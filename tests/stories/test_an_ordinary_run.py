"""Stories of runs in which nothing goes wrong."""

from builders.plans import a_plan, a_segment
from builders.stories import Story, done, joined, lost, started
from cenote.engine.messages import FinishRun, ForgetTask, RunTask, Tick, Warned
from cenote.engine.task_classes import EngineOptions

ONE_PER_SLOT = EngineOptions(window_per_slot=1.0)


def test_a_plan_without_tasks_is_finished_as_soon_as_it_starts() -> None:
    story = Story(a_plan(segments=[]))

    assert story.after(started()) == [FinishRun("succeeded")]


def test_nothing_is_sent_before_the_run_has_started() -> None:
    story = Story(a_plan(partitions=1))

    assert story.after(joined()) == []
    assert story.after(started()) == [RunTask(0, "default", 1)]


def test_nothing_is_sent_before_a_worker_has_joined() -> None:
    story = Story(a_plan(partitions=1))

    assert story.after(started()) == []
    assert story.after(joined()) == [RunTask(0, "default", 1)]


def test_partitions_run_in_order_and_are_then_merged() -> None:
    story = Story(a_plan(partitions=2), ONE_PER_SLOT)

    assert story.after(started(), joined()) == [RunTask(0, "default", 1)]
    assert story.after(done(0)) == [RunTask(1, "default", 1)]
    assert story.after(done(1)) == [RunTask(2, "default", 1)]
    assert story.after(done(2)) == [ForgetTask(0), ForgetTask(1), FinishRun("succeeded")]


def test_a_single_partition_needs_no_merge_and_its_result_is_kept() -> None:
    story = Story(a_plan(partitions=1))

    assert story.after(started(), joined(), done(0)) == [RunTask(0, "default", 1), FinishRun("succeeded")]


def test_a_pool_is_sent_as_many_tasks_as_its_window_holds() -> None:
    story = Story(a_plan(partitions=9), EngineOptions(window_per_slot=1.5))

    assert story.after(started(), joined(slots=3)) == [RunTask(task, "default", 1) for task in range(5)]
    assert story.after(done(2)) == [RunTask(5, "default", 1)]


def test_a_worker_that_joins_twice_counts_once() -> None:
    story = Story(a_plan(partitions=4), ONE_PER_SLOT)

    assert story.after(started(), joined()) == [RunTask(0, "default", 1)]
    assert story.after(joined()) == []


def test_a_pool_that_lost_a_worker_is_sent_less() -> None:
    story = Story(a_plan(partitions=4), ONE_PER_SLOT)
    story.after(started(), joined("first"), joined("second"))

    assert story.after(lost("second"), done(0)) == []
    assert story.after(done(1)) == [RunTask(2, "default", 1)]


def test_a_segment_runs_once_its_own_partition_came_through_the_one_before() -> None:
    plan = a_plan(partitions=2, segments=[a_segment("Index"), a_segment("Hist", needs=["Index"], product=True)])
    story = Story(plan, ONE_PER_SLOT)

    assert story.after(started(), joined()) == [RunTask(0, "default", 1)]
    assert story.after(done(0)) == [RunTask(2, "default", 1)], "the later segment goes before the next partition"
    assert story.after(done(2)) == [ForgetTask(0), RunTask(1, "default", 1)]


def test_merges_go_before_everything_else() -> None:
    story = Story(a_plan(partitions=4, fan_in=2), ONE_PER_SLOT)
    story.after(started(), joined())

    assert story.after(done(0)) == [RunTask(1, "default", 1)]
    assert story.after(done(1)) == [RunTask(4, "default", 1)]


def test_each_segment_waits_for_its_own_pool_only() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Infer", pools=["gpu"], product=True), a_segment("Hist", product=True)],
        pools={"default": 1, "gpu": 1},
    )
    story = Story(plan)

    assert story.after(started(), joined("cpu", "default")) == [RunTask(1, "default", 1)]
    assert story.after(done(1)) == []
    assert story.after(joined("card", "gpu")) == [RunTask(0, "gpu", 1)]
    assert story.after(done(0)) == [FinishRun("succeeded")]


def test_merges_run_in_the_pool_for_merges() -> None:
    plan = a_plan(
        partitions=2,
        segments=[a_segment("Infer", pools=["gpu"], product=True)],
        pools={"gpu": 1, "default": 1},
        merge_pool="default",
    )
    story = Story(plan)
    story.after(started(), joined("card", "gpu"), joined("cpu", "default"), done(0))

    assert story.after(done(1)) == [RunTask(2, "default", 1)]


def test_pools_that_share_a_segment_take_its_tasks_in_the_order_written() -> None:
    shared = a_segment("Infer", pools=["a100", "v100"], shared=True)
    story = Story(a_plan(partitions=5, segments=[shared]), EngineOptions(window_per_slot=2.0))

    assert story.after(started(), joined("old", "v100"), joined("new", "a100")) == [
        RunTask(0, "v100", 1),
        RunTask(1, "v100", 1),
        RunTask(2, "a100", 1),
        RunTask(3, "a100", 1),
    ]


def test_pools_that_share_a_segment_fill_their_idle_slots_before_they_queue() -> None:
    shared = a_segment("Infer", pools=["a100", "v100"], shared=True)
    story = Story(a_plan(partitions=2, segments=[shared]))

    assert story.after(joined("old", "v100"), joined("new", "a100"), started()) == [
        RunTask(0, "a100", 1),
        RunTask(1, "v100", 1),
    ]


def test_a_segment_with_a_preferred_pool_waits_for_it() -> None:
    plan = a_plan(partitions=1, segments=[a_segment("Infer", pools=["gpu", "default"])])
    story = Story(plan)

    assert story.after(started(), joined("cpu", "default")) == []
    assert story.after(joined("card", "gpu")) == [RunTask(0, "gpu", 1)]


def test_training_waits_for_every_partition() -> None:
    plan = a_plan(partitions=2, segments=[a_segment("Index"), a_segment("Train", needs=["Index"], scope="run")])
    story = Story(plan)
    story.after(started(), joined())

    assert story.after(done(1)) == []
    assert story.after(done(0)) == [RunTask(2, "default", 1)]
    assert story.after(done(2)) == [ForgetTask(0), ForgetTask(1), FinishRun("succeeded")]


def test_a_task_is_forgotten_only_when_its_last_reader_is_done() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Index"), a_segment("Left", needs=["Index"]), a_segment("Right", needs=["Index"])],
    )
    story = Story(plan)
    story.after(started(), joined(slots=2), done(0))

    assert story.after(done(1)) == []
    assert story.after(done(2)) == [ForgetTask(0), FinishRun("succeeded")]


def test_a_product_that_later_stages_read_too_is_never_forgotten() -> None:
    plan = a_plan(partitions=1, segments=[a_segment("Index", product=True), a_segment("Hist", needs=["Index"])])
    story = Story(plan)
    story.after(started(), joined(), done(0))

    assert story.after(done(1)) == [FinishRun("succeeded")]


def test_time_and_warnings_change_nothing() -> None:
    story = Story(a_plan(partitions=1))
    story.after(started(), joined())

    assert story.after(Tick(at=5.0), Warned(at=5.0, message="no GPU here")) == []


def test_nothing_comes_out_after_the_run_is_finished() -> None:
    story = Story(a_plan(partitions=1))
    story.after(started(), joined(), done(0))

    assert story.after(done(0), joined("late"), started(), lost("late")) == []
