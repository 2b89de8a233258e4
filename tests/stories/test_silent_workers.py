"""Stories of workers that do not answer: they are sent nothing more, and ended when their patience is over."""

from builders.plans import a_plan, a_pool
from builders.stories import Story, answers, done, failed, joined, later, lost, requested, silent, started, taken
from cenote.engine.messages import AnyCommand, EndWorkers, RunTask, StartWorkers
from cenote.engine.task_classes import EngineOptions

MANAGED = EngineOptions(manages_workers=True, window_per_slot=1.0)


def about_workers(commands: list[AnyCommand]) -> list[AnyCommand]:
    return [command for command in commands if isinstance(command, EndWorkers | StartWorkers)]


def sent(commands: list[AnyCommand]) -> list[int]:
    return [command.task for command in commands if isinstance(command, RunTask)]


def a_story() -> Story:
    """Two workers with one slot each, both at work."""
    story = Story(a_plan(partitions=6, pools=[a_pool("default", workers=2)]), MANAGED)
    story.after(started(), requested("one"), requested("two"), joined("one"), joined("two"))
    story.after(taken(0, "one", attempt=1), taken(1, "two", attempt=1))
    return story


def test_a_silent_worker_is_sent_nothing_and_still_has_its_task() -> None:
    story = a_story()

    assert story.after(silent("one", at=20.0), later(50.0)) == []
    assert sent(story.after(done(1, worker="two", attempt=1, at=51.0))) == [2]


def test_a_worker_that_answers_in_time_goes_on() -> None:
    story = a_story()
    story.after(silent("one", at=20.0))

    story.after(answers("one", at=60.0))
    assert about_workers(story.after(later(200.0))) == []
    assert sent(story.after(done(0, worker="one", attempt=1, at=201.0))) == [2]


def test_a_worker_that_is_silent_for_too_long_is_ended_once_and_replaced() -> None:
    story = a_story()
    story.after(silent("one", at=20.0, seconds=10.0, patience=60.0))

    assert about_workers(story.after(later(69.0))) == []
    assert about_workers(story.after(later(70.0), later(71.0))) == [
        EndWorkers("default", ("one",), "it did not answer for 1m")
    ]
    gone = story.after(lost("one", at=72.0, cause="silent"), failed(0, "lost", worker="one", attempt=1, at=72.0))
    assert about_workers(gone) == [StartWorkers("default", 1)]
    assert sent(story.after(requested("new", at=73.0), joined("new", at=74.0))) == [0]


def test_a_worker_that_was_told_to_stop_and_does_not_answer_is_ended_too() -> None:
    story = Story(a_plan(partitions=1, pools=[a_pool("default")]), MANAGED)
    story.after(started(), requested("one"), joined("one"), taken(0, "one", attempt=1))
    story.after(silent("one", at=20.0), answers("one", at=21.0), silent("one", at=40.0))

    assert about_workers(story.after(later(90.0))) == [EndWorkers("default", ("one",), "it did not answer for 1m")]


def test_silence_of_a_worker_that_nobody_knows_changes_nothing() -> None:
    story = a_story()

    assert story.after(silent("ghost"), answers("ghost"), answers("one"), silent("one", "nowhere")) == []
