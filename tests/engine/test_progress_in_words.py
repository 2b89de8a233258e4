"""How far a run is, and why something has not happened yet."""

from cenote.engine.options import EngineOptions
from cenote.engine.progress import TaskCounts
from cenote.testing.plans import a_plan, a_segment
from cenote.testing.stories import Story, done, failed, job, joined, requested, reused, started, taken

TWO_STEPS = a_plan(partitions=2, segments=[a_segment("Index"), a_segment("Hist", needs=["Index"], product=True)])


def test_tasks_are_counted_by_state() -> None:
    story = Story(a_plan(partitions=6), EngineOptions(keep_going=True, window_per_slot=1.0))
    story.after(started(), reused(5), joined(slots=2), done(0), failed(1))

    assert story.engine.counts(0) == TaskCounts(waiting=0, ready=1, sent=2, done=2, failed=1, abandoned=0, needless=0)
    assert story.engine.counts(0).total == 6
    assert story.engine.counts(0, merges=True).waiting == 1


def test_a_task_without_a_worker_says_which_pool_it_waits_for() -> None:
    story = Story(TWO_STEPS)
    story.after(started())

    assert story.engine.waiting_reason(0) == "pool 'default' has no worker yet"


def test_a_task_without_a_worker_says_what_is_known_of_those_that_were_asked_for() -> None:
    story = Story(TWO_STEPS, EngineOptions(manages_workers=True))
    story.after(started(), requested("a"), job("pending", "a", reason="Priority"))

    assert story.engine.waiting_reason(0) == (
        "pool 'default' has no worker yet: 1 wanted, 1 asked for; the last word: Priority"
    )


def test_a_task_without_room_says_how_full_the_pool_is() -> None:
    story = Story(TWO_STEPS, EngineOptions(window_per_slot=1.0))
    story.after(started(), joined())

    assert story.engine.waiting_reason(1) == "pool 'default' is full: 1 tasks sent to 1 slots"


def test_a_task_without_its_inputs_says_what_it_waits_for() -> None:
    story = Story(TWO_STEPS)
    story.after(started(), joined())

    assert story.engine.waiting_reason(2) == "waits for 1 of 1 tasks that it needs: Index"
    assert story.engine.waiting_reason(4) == "waits for 2 of 2 tasks that it needs: Hist"


def test_a_task_on_its_way_says_where_it_is() -> None:
    story = Story(TWO_STEPS)
    story.after(started(), joined(), taken(0, "node7"))

    assert story.engine.waiting_reason(0) == "runs on node7"
    assert story.engine.waiting_reason(1) == "is sent, and waits for a slot"


def test_a_settled_task_says_how_it_ended() -> None:
    story = Story(TWO_STEPS, EngineOptions(keep_going=True))
    story.after(started(), reused(3), joined(), failed(0), done(4))

    assert story.engine.waiting_reason(0) == "failed: simulated error"
    assert story.engine.waiting_reason(1) == "is not needed: what would read it is done or abandoned"
    assert story.engine.waiting_reason(3) == "is done"
    assert story.engine.waiting_reason(4) == "is done, without the parts that failed"


def test_a_stage_says_how_many_tasks_are_done_and_why_the_first_open_one_is_not() -> None:
    story = Story(TWO_STEPS, EngineOptions(window_per_slot=1.0))
    story.after(started(), joined(), done(0))

    assert story.engine.waiting_reason("Index") == (
        "1 of 2 tasks done; task 1: pool 'default' is full: 1 tasks sent to 1 slots"
    )
    assert story.engine.waiting_reason("Hist").startswith("0 of 2 tasks done; task 2: is sent")
    assert story.engine.waiting_reason("Nowhere") == "there is no stage 'Nowhere' in this plan"
