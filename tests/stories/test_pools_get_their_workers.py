"""Stories of pools whose workers the engine asks for: how many, when, and what becomes of them."""

import pytest

from builders.plans import a_plan, a_pool, a_segment
from builders.stories import Story, done, job, joined, later, lost, requested, started, taken
from cenote.engine.messages import (
    AnyCommand,
    DecisionEvent,
    FinishRun,
    JobState,
    PoolChanged,
    ResultLost,
    ResultNotNeeded,
    RunTask,
    StartWorkers,
    StopWorkers,
)
from cenote.engine.scaling import PoolState
from cenote.engine.task_classes import EngineOptions
from cenote.language.execution import Elastic, RunLimits

MANAGED = EngineOptions(manages_workers=True, window_per_slot=1.0)
GROWS = Elastic(min=0, max=5, idle_time=60, resize_period=10)


def about_workers(commands: list[AnyCommand | DecisionEvent]) -> list[AnyCommand | DecisionEvent]:
    return [command for command in commands if isinstance(command, StartWorkers | StopWorkers)]


def states(commands: list[AnyCommand | DecisionEvent]) -> list[tuple[str, PoolState]]:
    return [(command.pool, command.state) for command in commands if isinstance(command, PoolChanged)]


def test_a_fixed_pool_asks_for_its_workers_when_the_run_starts() -> None:
    story = Story(a_plan(partitions=9, pools=[a_pool("default", workers=4)]), MANAGED)

    assert about_workers(story.after(started())) == [StartWorkers("default", 4)]
    assert about_workers(story.after(later(1.0), requested("a"), joined("a"), later(2.0))) == []


def test_a_pool_asks_for_no_more_workers_than_there_are_tasks() -> None:
    plan = a_plan(partitions=5, segments=[a_segment("Skim")], pools=[a_pool("default", workers=4, slots=2)])

    assert about_workers(Story(plan, MANAGED).after(started())) == [StartWorkers("default", 3)]


def test_a_pool_that_no_task_can_reach_is_closed_at_once() -> None:
    story = Story(a_plan(partitions=1, pools=[a_pool("default"), a_pool("gpu")]), MANAGED)

    commands = story.after(started())

    assert about_workers(commands) == [StartWorkers("default", 1)]
    assert ("gpu", PoolState.CLOSED) in states(commands)


def test_a_lost_worker_of_a_fixed_pool_is_replaced() -> None:
    story = Story(a_plan(partitions=9, pools=[a_pool("default", workers=2)]), MANAGED)
    story.after(started(), requested("a"), requested("b"), joined("a"), joined("b"))

    assert about_workers(story.after(lost("a"))) == [StartWorkers("default", 1)]


def test_workers_that_keep_going_are_replaced_more_and_more_slowly_until_the_pool_is_given_up() -> None:
    story = Story(a_plan(partitions=1), MANAGED)
    story.after(started())

    asked_at = []
    for number in range(6):
        at = 100.0 * number
        story.after(requested(f"w{number}", at=at))
        immediately = story.after(lost(f"w{number}", at=at, cause="refused", reason="invalid partition"))
        asked_at.append(about_workers(immediately) == [StartWorkers("default", 1)])
        last = [*immediately, *story.after(later(at + 50))]

    assert asked_at == [True, False, False, False, False, False]
    assert ("default", PoolState.FAILURE) in states(last)
    assert last[-1] == FinishRun("failed")
    assert story.engine.failures[0].error_kind == "no-worker"
    assert "lost 6 workers in a row" in story.engine.failures[0].message
    assert "invalid partition" in story.engine.failures[0].message


def test_a_task_that_is_done_proves_that_workers_work() -> None:
    story = Story(a_plan(partitions=30, segments=[a_segment("Skim")]), MANAGED)
    story.after(started())

    for number in range(20):
        at = 10.0 * number
        worker = f"w{number}"
        story.after(requested(worker, at=at), joined(worker, at=at), done(number, worker=worker, at=at + 1))
        assert about_workers(story.after(lost(worker, at=at + 2))) == [StartWorkers("default", 1)]


def test_an_elastic_pool_grows_from_zero_to_what_waits_and_back_to_zero() -> None:
    later_work = a_segment("Train", needs=["Skim"], scope="run", pools=["default"])
    plan = a_plan(
        partitions=3,
        segments=[a_segment("Skim", pools=["spot"]), later_work],
        pools=[a_pool("default"), a_pool("spot", elastic=GROWS)],
    )
    story = Story(plan, MANAGED)
    names = ("a", "b", "c")

    assert StartWorkers("spot", 3) in story.after(started())
    story.after(*(event for name in names for event in (requested(name, "spot"), joined(name, "spot"))))
    last = story.after(*(done(task, pool="spot", at=20.0) for task in range(3)), later(21.0))
    assert about_workers(last) == [StopWorkers("spot", ("a", "b", "c"), "it has no work left")]


def test_an_elastic_pool_with_work_to_come_shrinks_only_after_its_idle_time() -> None:
    segments = [a_segment("First", pools=["spot"]), a_segment("Second", needs=["First"])]
    segments += [a_segment("Third", needs=["Second"], pools=["spot"])]
    plan = a_plan(partitions=2, segments=segments, pools=[a_pool("default"), a_pool("spot", elastic=GROWS)])
    story = Story(plan, MANAGED)
    story.after(started(), requested("a", "spot"), requested("b", "spot"), joined("a", "spot"), joined("b", "spot"))
    story.after(done(0, pool="spot", at=20.0), done(1, pool="spot", at=20.0), later(21.0))

    assert about_workers(story.after(later(79.0))) == []
    shrunk = story.after(later(81.0))
    assert about_workers(shrunk) == [StopWorkers("spot", ("b", "a"), "idle")]
    assert states(shrunk) == [("spot", PoolState.SUBMITTED)]
    assert about_workers(story.after(lost("a", "spot", cause="retired", at=83.0), later(84.0))) == []


def test_workers_that_run_a_task_are_not_stopped() -> None:
    segments = [a_segment("First", pools=["spot"]), a_segment("Second", needs=["First"], pools=["spot"], scope="run")]
    plan = a_plan(partitions=3, segments=segments, pools=[a_pool("spot", elastic=GROWS)])
    story = Story(plan, MANAGED)
    for name in ("a", "b", "c"):
        story.after(started(), requested(name, "spot"), joined(name, "spot"))
    story.after(taken(0, "c", pool="spot"), done(1, pool="spot", at=20.0), done(2, pool="spot", at=20.0), later(21.0))

    assert about_workers(story.after(later(100.0))) == [StopWorkers("spot", ("b", "a"), "idle")]


def test_a_worker_that_comes_though_it_was_told_to_stop_is_told_again_and_gets_no_work() -> None:
    segments = [a_segment("First", pools=["spot"]), a_segment("Second", needs=["First"], pools=["spot"], scope="run")]
    story = Story(a_plan(partitions=2, segments=segments, pools=[a_pool("spot", elastic=GROWS)]), MANAGED)
    story.after(started(), requested("a", "spot"), requested("b", "spot"), joined("a", "spot"))
    story.after(done(0, pool="spot", at=20.0), later(30.0))
    assert about_workers(story.after(later(100.0))) == [StopWorkers("spot", ("b",), "idle")]

    again = story.after(joined("b", "spot", at=101.0))

    assert about_workers(again) == [StopWorkers("spot", ("b",), "it is no longer needed")]
    assert not [command for command in again if isinstance(command, RunTask)]


def test_a_pool_says_how_it_is_from_its_start_to_its_end() -> None:
    story = Story(a_plan(partitions=2, segments=[a_segment("Skim")], pools=[a_pool("default", workers=2)]), MANAGED)
    told = story.after(started(), requested("a"), requested("b"))
    told += story.after(job(JobState.RUNNING, "a"), job(JobState.RUNNING, "b"), joined("a"), joined("b"))
    told += story.after(done(0, at=9.0), done(1, at=9.0))

    assert [state for _, state in states(told)] == [
        PoolState.SUBMITTED,
        PoolState.PARTIALLY_DISPATCHED,
        PoolState.FULLY_DISPATCHED,
        PoolState.PARTIALLY_EXECUTING,
        PoolState.FULLY_EXECUTING,
        PoolState.CLOSED,
    ]
    assert told[-1] == FinishRun("succeeded")


def test_a_pool_whose_work_is_over_closes_while_others_go_on() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Infer", pools=["gpu"]), a_segment("Hist", needs=["Infer"])],
        pools=[a_pool("default"), a_pool("gpu")],
    )
    story = Story(plan, MANAGED)
    story.after(started(), requested("card", "gpu"), joined("card", "gpu"), requested("cpu"), joined("cpu"))

    assert ("gpu", PoolState.CLOSING) in states(story.after(done(0, pool="gpu", at=9.0)))
    assert states(story.after(lost("card", "gpu", cause="retired", at=10.0))) == [("gpu", PoolState.CLOSED)]


def test_a_closed_pool_opens_again_when_what_it_made_is_lost() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Infer", pools=["gpu"]), a_segment("Hist", needs=["Infer"])],
        pools=[a_pool("default"), a_pool("gpu")],
    )
    story = Story(plan, MANAGED)
    story.after(started(), requested("card", "gpu"), joined("card", "gpu"), requested("cpu"), joined("cpu"))
    story.after(done(0, pool="gpu", at=9.0), lost("card", "gpu", cause="retired", at=10.0))

    assert about_workers(story.after(ResultLost(at=11.0, task=0, pool="gpu"))) == [StartWorkers("gpu", 1)]
    again = story.after(requested("new", "gpu"), joined("new", "gpu"), done(0, pool="gpu", worker="new", at=20.0))
    assert about_workers(again) == [StopWorkers("gpu", ("new",), "it has no work left")]


def test_a_pool_that_was_opened_for_a_lost_result_closes_when_nobody_needs_that_any_more() -> None:
    plan = a_plan(
        partitions=1,
        segments=[a_segment("Infer", pools=["gpu"]), a_segment("Hist", needs=["Infer"])],
        pools=[a_pool("default"), a_pool("gpu")],
    )
    story = Story(plan, MANAGED)
    story.after(started(), requested("card", "gpu"), joined("card", "gpu"), requested("cpu"), joined("cpu"))
    story.after(done(0, pool="gpu", at=9.0), lost("card", "gpu", cause="retired", at=10.0))
    story.after(ResultLost(at=11.0, task=0, pool="gpu"), requested("new", "gpu", at=12.0))

    spared = story.after(ResultNotNeeded(at=13.0, task=0, pool="gpu"))
    assert about_workers(spared) == [StopWorkers("gpu", ("new",), "it has no work left")]


def test_a_run_whose_workers_join_by_themselves_never_asks_for_any() -> None:
    story = Story(a_plan(partitions=2, pools=[a_pool("default", workers=4)]))

    assert story.after(started(), later(1000.0)) == []


@pytest.mark.parametrize(("limit", "losses"), [(1, 2), (2, 4), (3, 6)])
def test_a_pool_is_given_up_after_as_many_losses_as_the_limits_allow(limit: int, losses: int) -> None:
    story = Story(a_plan(partitions=1), EngineOptions(manages_workers=True, limits=RunLimits(pool=limit)))
    story.after(started())

    failed_at = []
    for number in range(1, losses + 1):
        at = 100.0 * number
        found = story.after(requested(f"w{number}", at=at), lost(f"w{number}", at=at), later(at + 50))
        failed_at += [number for pool, state in states(found) if state is PoolState.FAILURE]
    assert failed_at == [losses]
