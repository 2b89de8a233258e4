"""Stories of tasks that move to another pool: for want of a worker, after preemptions, out of memory."""

from dataclasses import replace

import pytest

from builders.plans import SegmentSketch, a_plan, a_pool, a_segment
from builders.stories import Cause, Story, done, failed, job, joined, later, lost, requested, started, taken
from cenote.engine.messages import (
    AnyCommand,
    CancelTask,
    DecisionEvent,
    FellBack,
    FinishRun,
    JobState,
    RunTask,
    TaskGivenUp,
    TaskSplit,
)
from cenote.engine.task_classes import EngineOptions
from cenote.language.execution import FallbackWhen, RunLimits
from cenote.planning.placement.pools import Candidate, StagePlacement, Verdict
from cenote.planning.plan import Plan

MANAGED = EngineOptions(manages_workers=True, window_per_slot=1.0)
NEVER = FallbackWhen()
INFER = a_segment("Infer", pools=["gpu", "default"])


def work(commands: list[AnyCommand | DecisionEvent]) -> list[AnyCommand | DecisionEvent]:
    """What is about tasks; workers and states of pools have stories of their own."""
    kinds = (RunTask, CancelTask, TaskGivenUp, FellBack, TaskSplit, FinishRun)
    return [command for command in commands if isinstance(command, kinds)]


def a_gpu_plan(
    segment: SegmentSketch = INFER, *, partitions: int = 2, gpu: int = 1, timeout: int | None = None
) -> Plan:
    pools = [a_pool("default"), a_pool("gpu", workers=gpu, queue_timeout=timeout)]
    return a_plan(partitions=partitions, segments=[segment], pools=pools)


def a_memory_plan(
    segment: SegmentSketch,
    when: FallbackWhen = NEVER,
) -> Plan:
    small = a_pool("default", memory=4_000_000_000, fallback=["large"] if when.oom else [], fallback_when=when)
    large = a_pool("large", memory=32_000_000_000, slots=2)
    return a_plan(partitions=1, segments=[segment], pools=[small, large])


def test_tasks_whose_preferred_pool_has_no_worker_move_after_a_while() -> None:
    story = Story(a_gpu_plan(), MANAGED)
    story.after(started(), requested("cpu"), joined("cpu"), later(1.0))

    assert work(story.after(later(59.9))) == []
    moved, run = work(story.after(later(61.0)))

    assert isinstance(moved, FellBack)
    assert (moved.at, moved.stage, moved.task, moved.tasks) == (61.0, "Infer", None, 2)
    assert (moved.from_pool, moved.to_pool, moved.waited) == ("gpu", "default", 61.0)
    assert run == RunTask(0, "default", 1)


def test_tasks_move_at_once_when_the_preferred_pool_never_gets_a_worker() -> None:
    story = Story(a_gpu_plan(gpu=0), MANAGED)

    (moved,) = work(story.after(started()))

    assert isinstance(moved, FellBack)
    assert moved.reason == "pool 'gpu' has no workers and cannot get any"


def test_a_pool_says_itself_when_and_where_its_waiting_work_goes() -> None:
    spot = a_pool("spot", fallback=["paid"], fallback_when=FallbackWhen(no_worker_for=600))
    story = Story(a_plan(segments=[a_segment("Skim", pools=["spot"])], pools=[spot, a_pool("paid")]), MANAGED)
    story.after(started(), requested("a", "spot"), job(JobState.PENDING, "a", "spot", reason="Priority"))

    assert work(story.after(later(599.0))) == []
    (moved,) = work(story.after(later(600.0)))
    assert isinstance(moved, FellBack)
    assert (moved.to_pool, moved.waited) == ("paid", 600.0)
    assert moved.reason == "pool 'spot' had no worker for 10m (no_worker_for: 10m); latest report: Priority"


def test_a_pool_that_moves_work_only_for_memory_keeps_work_that_waits() -> None:
    spot = a_pool("spot", fallback=["paid"], fallback_when=FallbackWhen(oom=True))
    story = Story(a_plan(segments=[a_segment("Skim", pools=["spot"])], pools=[spot, a_pool("paid")]), MANAGED)

    assert work(story.after(started(), later(100_000.0))) == []


def test_tasks_that_moved_stay_and_tasks_that_come_later_use_the_preferred_pool_again() -> None:
    segments = [a_segment("Index"), a_segment("Infer", needs=["Index"], pools=["gpu", "default"])]
    plan = a_plan(partitions=2, segments=segments, pools=[a_pool("default"), a_pool("gpu")])
    story = Story(plan, MANAGED)
    story.after(started(), requested("cpu"), joined("cpu"), done(0, at=2.0), later(100.0))

    assert work(story.after(joined("card", "gpu", at=101.0))) == []
    assert RunTask(3, "gpu", 1) in story.after(done(1, at=102.0))


def test_tasks_that_a_dead_pool_was_sent_are_called_back_before_they_move() -> None:
    story = Story(a_gpu_plan(partitions=1), MANAGED)
    story.after(started(), requested("card", "gpu"), joined("card", "gpu"), requested("cpu"), joined("cpu"))
    story.after(lost("card", "gpu", at=10.0), later(11.0))

    called_back, _, again = work(story.after(later(71.0)))
    assert (called_back, again) == (CancelTask(0), RunTask(0, "default", 2))
    assert work(story.after(failed(0, "stopped", pool="gpu", attempt=1, at=72.0))) == []
    assert work(story.after(done(0, attempt=2, at=73.0))) == [FinishRun("succeeded")]


def test_a_pool_without_fallback_waits_until_its_queue_timeout_and_says_why() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Infer", pools=["gpu"]), a_segment("Hist")],
        pools=[a_pool("default"), a_pool("gpu", workers=0, queue_timeout=7200)],
    )
    story = Story(plan, MANAGED)

    assert work(story.after(started(), requested("cpu"), joined("cpu"), done(1, at=9.0))) == [RunTask(1, "default", 1)]
    assert work(story.after(later(7100.0))) == []
    given_up, finished = work(story.after(later(7300.0)))
    assert isinstance(given_up, TaskGivenUp)
    assert given_up.failure.message == "pool 'gpu' had no worker for 2h 1m (queue_timeout: 2h)"
    assert (given_up.failure.error_kind, given_up.failure.stage, given_up.pool) == ("no-worker", "Infer", "gpu")
    assert finished == FinishRun("failed")


def test_keep_going_gives_up_every_task_that_waited_in_vain() -> None:
    plan = a_gpu_plan(a_segment("Infer", pools=["gpu"], product=True), gpu=0, timeout=60)
    story = Story(plan, EngineOptions(manages_workers=True, keep_going=True))

    given_up = work(story.after(started(), later(1.0), later(62.0)))

    assert [command.task for command in given_up if isinstance(command, TaskGivenUp)] == [0, 1]
    assert given_up[-1] == FinishRun("failed")


@pytest.mark.parametrize("cause", ["error", "timeout", "bad_input", "internal"])
def test_a_failure_of_the_users_code_never_moves_a_task(cause: Cause) -> None:
    story = Story(a_gpu_plan(a_segment("Infer", pools=["gpu", "default"], retries=1), partitions=1), MANAGED)
    story.after(started(), requested("card", "gpu"), joined("card", "gpu"), requested("cpu"), joined("cpu"))

    commands = story.after(failed(0, cause, pool="gpu", attempt=1))
    commands += story.after(failed(0, cause, pool="gpu", attempt=2))

    assert not [command for command in commands if isinstance(command, FellBack)]
    assert not [command for command in commands if isinstance(command, RunTask) and command.pool != "gpu"]


def test_a_run_begins_with_the_stages_that_do_not_get_the_pool_that_they_prefer() -> None:
    plan = a_plan(partitions=2, segments=[a_segment("Infer", pools=["default", "spare"])])
    refused = Candidate("gpu", fits=False, reason="will never have a worker: its `workers` is 0")
    placed = StagePlacement("Infer", ("default", "spare"), Verdict.YES, "prefers 'gpu'", passed_over=refused)
    story = Story(replace(plan, placement=replace(plan.placement, stages=(placed,))), MANAGED)
    (moved,) = [one for one in work(story.after(started())) if isinstance(one, FellBack)]
    assert (moved.stage, moved.from_pool, moved.to_pool, moved.alternatives) == ("Infer", "gpu", "default", ("spare",))
    assert moved.reason == "pool 'gpu' will never have a worker: its `workers` is 0"


def test_a_task_that_is_preempted_too_often_moves_alone() -> None:
    spot = a_pool("spot", fallback=["paid"], fallback_when=FallbackWhen(preempted=2))
    plan = a_plan(partitions=2, segments=[a_segment("Skim", pools=["spot"])], pools=[spot, a_pool("paid")])
    story = Story(plan, MANAGED)
    story.after(started(), requested("a", "spot"), joined("a", "spot"), taken(0, "a", pool="spot", attempt=1))

    first = story.after(lost("a", "spot", cause="preempted"), failed(0, "lost", pool="spot", worker="a", attempt=1))
    assert work(first) == []
    assert work(story.after(requested("b", "spot"), joined("b", "spot"))) == [RunTask(0, "spot", 2)]
    second = story.after(lost("b", "spot", cause="preempted"), failed(0, "lost", pool="spot", worker="b", attempt=2))
    assert work(second) == [
        FellBack(
            at=3.0,
            stage="Skim",
            task=0,
            tasks=1,
            from_pool="spot",
            to_pool="paid",
            reason="preempted 2 times in pool 'spot'",
        ),
    ]
    assert work(story.after(joined("c", "paid", at=5.0), joined("d", "spot", at=5.0))) == [
        RunTask(0, "paid", 3),
        RunTask(1, "spot", 1),
    ]


def test_preemptions_do_not_count_as_the_tasks_fault() -> None:
    story = Story(a_plan(partitions=1), EngineOptions(manages_workers=True, limits=RunLimits(lost=1)))
    story.after(started())
    for number in range(1, 6):
        name = f"w{number}"
        at = 100.0 * number
        assert RunTask(0, "default", number) in story.after(requested(name, at=at), joined(name, at=at), later(at + 1))
        story.after(lost(name, cause="preempted", at=at + 2), failed(0, "lost", worker=name, attempt=number, at=at + 2))

    assert not story.engine.failures


def test_a_task_out_of_memory_moves_to_a_larger_pool_once_and_is_then_split() -> None:
    story = Story(a_memory_plan(a_segment("Index"), FallbackWhen(oom=True)), MANAGED)
    story.after(started(), requested("a"), joined("a"), requested("b", "large"), joined("b", "large"))

    moved, run = work(story.after(failed(0, "oom", attempt=1)))
    assert isinstance(moved, FellBack)
    assert (moved.task, moved.from_pool, moved.to_pool) == (0, "default", "large")
    assert moved.reason == "out of memory in 'default' (4 GB per task): simulated oom"
    assert run == RunTask(0, "large", 2)
    assert work(story.after(failed(0, "oom", pool="large", attempt=2))) == [
        TaskSplit(at=3.0, task=0, pieces=2, reason="out of memory in 'large' (16 GB per task): simulated oom"),
        RunTask(0, "large", 3, 2),
    ]


def test_a_task_out_of_memory_without_a_larger_pool_is_split_down_to_a_floor_and_then_fails_with_the_numbers() -> None:
    story = Story(a_memory_plan(a_segment("Index")), MANAGED)
    story.after(started(), requested("a"), joined("a"))

    pieces = []
    for attempt in range(1, 5):
        split, run = work(story.after(failed(0, "oom", attempt=attempt)))
        assert isinstance(split, TaskSplit)
        assert isinstance(run, RunTask)
        pieces.append((split.pieces, run.split))
    given_up, finished = work(story.after(failed(0, "oom", attempt=5)))

    assert pieces == [(2, 2), (4, 4), (8, 8), (16, 16)]
    assert isinstance(given_up, TaskGivenUp)
    assert given_up.failure.error_kind == "out-of-memory"
    assert given_up.failure.message.startswith("out of memory in pool 'default' (4 GB per task), even in 16 pieces")
    assert finished == FinishRun("failed")


def test_a_stages_own_fallback_allows_a_larger_pool_too() -> None:
    story = Story(a_memory_plan(a_segment("Index", pools=["default", "large"])), MANAGED)
    story.after(started(), requested("a"), joined("a"), requested("b", "large"), joined("b", "large"))

    assert RunTask(0, "large", 2) in story.after(failed(0, "oom", attempt=1))


def test_a_stage_that_needs_all_data_at_once_cannot_be_split() -> None:
    story = Story(a_memory_plan(a_segment("Train", scope="run")), MANAGED)
    story.after(started(), requested("a"), joined("a"))

    given_up, _ = work(story.after(failed(0, "oom", attempt=1)))

    assert isinstance(given_up, TaskGivenUp)
    assert "it cannot be split" in given_up.failure.message


def test_a_worker_killed_for_memory_with_one_task_means_that_the_task_ran_out_of_memory() -> None:
    story = Story(a_memory_plan(a_segment("Index"), FallbackWhen(oom=True)), MANAGED)
    story.after(started(), requested("a"), joined("a"), requested("b", "large"), joined("b", "large"))
    story.after(taken(0, "a", attempt=1))

    commands = story.after(lost("a", cause="oom", reason="killed"), failed(0, "lost", worker="a", attempt=1))

    assert RunTask(0, "large", 2) in commands


def test_the_limits_say_how_often_a_task_may_be_preempted_and_into_how_many_pieces_it_is_split() -> None:
    calm = EngineOptions(manages_workers=True, limits=RunLimits(preempted=0))
    story = Story(a_plan(partitions=1), calm)
    story.after(started(), requested("a"), joined("a"), taken(0, "a", attempt=1))
    story.after(lost("a", cause="preempted"), failed(0, "lost", worker="a", attempt=1))
    assert "preempted 1 times" in story.engine.failures[0].message

    whole = EngineOptions(manages_workers=True, limits=RunLimits(splits=1))
    story = Story(a_memory_plan(a_segment("Index")), whole)
    story.after(started(), requested("a"), joined("a"), failed(0, "oom", attempt=1))
    assert story.engine.failures[0].error_kind == "out-of-memory"


def test_the_limits_say_how_long_tasks_wait_where_their_pool_does_not() -> None:
    options = EngineOptions(manages_workers=True, limits=RunLimits(no_worker_for=600))
    story = Story(a_gpu_plan(), options)
    story.after(started(), requested("cpu"), joined("cpu"), later(1.0))

    assert not [one for one in story.after(later(599.0)) if isinstance(one, FellBack)]
    assert [one.waited for one in story.after(later(600.0)) if isinstance(one, FellBack)] == [600.0]
