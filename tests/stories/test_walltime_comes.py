"""Stories of workers whose time is limited: replaced before they go, spared new tasks, and no failure of anybody."""

from builders.plans import a_plan, a_pool
from builders.stories import (
    Story,
    done,
    failed,
    joined,
    later,
    leaving,
    lost,
    requested,
    started,
    taken,
)
from cenote.engine.messages import AnyCommand, DecisionEvent, RunTask, StartWorkers, StopWorkers, TaskGivenUp
from cenote.engine.task_classes import EngineOptions
from cenote.language.execution import Elastic, RunLimits

MANAGED = EngineOptions(manages_workers=True, window_per_slot=1.0)


def about_workers(commands: list[AnyCommand | DecisionEvent]) -> list[AnyCommand | DecisionEvent]:
    return [command for command in commands if isinstance(command, StartWorkers | StopWorkers)]


def sent(commands: list[AnyCommand | DecisionEvent]) -> list[int]:
    return [command.task for command in commands if isinstance(command, RunTask)]


def test_another_worker_is_asked_for_as_long_before_as_workers_take_to_come() -> None:
    story = Story(a_plan(partitions=9, pools=[a_pool("default", workers=1)]), MANAGED)
    story.after(started(), requested("a", at=0.0), joined("a", at=100.0, leaves=1000.0))

    assert about_workers(story.after(later(849.0))) == []
    assert about_workers(story.after(later(851.0))) == [StartWorkers("default", 1)]
    assert about_workers(story.after(requested("b", at=852.0), later(860.0))) == []


def test_it_is_never_asked_for_before_half_of_the_time_is_over() -> None:
    story = Story(a_plan(partitions=9, pools=[a_pool("default", workers=1)]), MANAGED)
    story.after(started(), requested("a", at=0.0), joined("a", at=5000.0, leaves=6000.0))

    assert about_workers(story.after(later(5499.0))) == []
    assert about_workers(story.after(later(5501.0))) == [StartWorkers("default", 1)]


def test_a_pool_with_nothing_left_to_do_asks_for_no_other() -> None:
    plan = a_plan(partitions=1, pools=[a_pool("default", workers=1)])
    story = Story(plan, MANAGED)
    story.after(started(), requested("a", at=0.0), joined("a", at=1.0, leaves=100.0))

    assert StartWorkers("default", 1) not in story.after(
        *(done(task, worker="a") for task in range(len(plan.tasks))), later(99.0)
    )


def test_an_elastic_pool_replaces_at_its_upper_limit_too() -> None:
    grows = Elastic(min=0, max=1, idle_time=60, resize_period=0)
    story = Story(a_plan(partitions=9, pools=[a_pool("default", elastic=grows)]), MANAGED)
    story.after(started(), requested("a", at=0.0), joined("a", at=10.0, leaves=100.0))

    assert about_workers(story.after(later(90.0))) == [StartWorkers("default", 1)]


def test_a_worker_that_leaves_gets_nothing_more_and_is_replaced_at_once() -> None:
    story = Story(a_plan(partitions=9, pools=[a_pool("default", workers=1, slots=2)]), MANAGED)
    first = story.after(started(), requested("a"), joined("a", slots=2, leaves=100.0))
    assert sent(first) == [0, 1]
    story.after(taken(0, "a"), taken(1, "a"))

    commands = story.after(leaving("a", at=50.0), done(0, worker="a", at=55.0))

    assert about_workers(commands) == [StartWorkers("default", 1)]
    assert sent(commands) == []
    assert sent(story.after(requested("b", at=56.0), joined("b", slots=2, at=57.0))) == [2]


def test_workers_whose_time_is_over_do_not_count_against_their_pool() -> None:
    story = Story(a_plan(partitions=9, pools=[a_pool("default", workers=1)]), MANAGED)
    story.after(started())
    for number in range(20):
        worker, at = f"w{number}", 100.0 * number
        story.after(requested(worker, at=at), joined(worker, at=at + 1))
        commands = story.after(lost(worker, at=at + 90, cause="walltime"))
        assert about_workers(commands) == [StartWorkers("default", 1)]


def test_a_task_that_was_cut_off_runs_again_without_being_blamed() -> None:
    story = Story(a_plan(partitions=1), EngineOptions(manages_workers=True, limits=RunLimits(lost=0)))
    story.after(started(), requested("a"), joined("a"), taken(0, "a"), lost("a", cause="walltime"))

    commands = story.after(failed(0, "lost", worker="a"), requested("b"), joined("b"))

    assert sent(commands) == [0]


def test_a_task_that_no_walltime_is_long_enough_for_fails_and_says_so() -> None:
    story = Story(a_plan(partitions=1), EngineOptions(manages_workers=True, limits=RunLimits(walltime=2)))
    story.after(started())
    for number in range(3):
        worker, attempt = f"w{number}", number + 1
        story.after(
            requested(worker), joined(worker), taken(0, worker, attempt=attempt), lost(worker, cause="walltime")
        )
        commands = story.after(failed(0, "lost", worker=worker, attempt=attempt))

    (given_up,) = [command for command in commands if isinstance(command, TaskGivenUp)]
    assert "takes longer than its workers' walltime" in given_up.failure.message


def test_a_worker_that_says_goodbye_after_it_is_gone_is_not_waited_for() -> None:
    story = Story(a_plan(partitions=9, pools=[a_pool("default", workers=1)]), MANAGED)
    story.after(started(), requested("a"), joined("a"), lost("a", cause="walltime"), requested("b"), joined("b"))

    assert about_workers(story.after(leaving("a"), later(30.0))) == []
