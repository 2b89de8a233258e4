"""Workers that a batch system refuses: for good when it never took one, one by one when it did."""

from __future__ import annotations

from builders.plans import a_plan, a_pool, a_segment
from builders.stories import Story, joined, later, lost, requested, started
from cenote.engine.messages import FinishRun, PoolChanged, StartWorkers
from cenote.engine.scaling import PoolState
from cenote.engine.task_classes import EngineOptions

MANAGED = EngineOptions(manages_workers=True)
WORDS = "sbatch: error: Requested node configuration is not available"


def test_a_pool_whose_first_request_is_refused_is_given_up_at_once_in_the_batch_systems_words() -> None:
    story = Story(a_plan(partitions=4, pools=[a_pool("default", workers=2)]), MANAGED)
    story.after(started())

    commands = story.after(lost("default-1", cause="refused", reason=WORDS))

    assert [c.state for c in commands if isinstance(c, PoolChanged)] == [PoolState.FAILURE]
    assert story.after(later(3.0))[-1] == FinishRun("failed")
    assert WORDS in story.engine.failures[0].message
    assert story.engine.failures[0].error_kind == "job-refused"


def test_a_pool_that_has_a_worker_goes_on_with_it_when_a_further_one_is_refused() -> None:
    plan = a_plan(partitions=4, segments=[a_segment("Skim")], pools=[a_pool("default", workers=2)])
    story = Story(plan, MANAGED)
    story.after(started(), requested("a"), joined("a"))

    commands = story.after(lost("b", cause="refused", reason="QOSMaxSubmitJobPerUserLimit"))

    assert [c for c in commands if isinstance(c, PoolChanged) and c.state is PoolState.FAILURE] == []
    assert [c for c in commands if isinstance(c, StartWorkers)] == [StartWorkers("default", 1)]


def test_what_workers_wrote_that_never_joined_stands_below_the_reason_for_giving_their_pool_up() -> None:
    story = Story(a_plan(partitions=1), MANAGED)
    story.after(started())
    for number in range(6):
        worker, at = f"w{number}", 100.0 * number
        gone = lost(worker, at=at, cause="died", reason="it ended with exit code 3", log="no such library")
        story.after(requested(worker, at=at), gone)
    story.after(later(700.0))

    first, *below = story.engine.failures[0].message.splitlines()

    assert first.endswith("the last: it ended with exit code 3")
    assert below == ["  what it wrote last:", "    no such library"]
