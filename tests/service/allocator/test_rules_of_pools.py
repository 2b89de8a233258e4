"""Stories of rules that each pool has for itself: whose turn it is, who gives way, limits, hours, and patience."""

from builders.service import (
    ServiceStory,
    a_service_pool,
    a_task,
    an_elastic_size,
    decided,
    started,
    stopped,
)
from cenote.engine.messages import StartWorkers
from cenote.language.schema.service import OTHERS, PoolRules, ShareRules
from cenote.service.allocator.messages import (
    CalendarTurned,
    RulesChanged,
    TaskEnded,
    TaskFellBack,
    TaskMoved,
    TaskPaused,
    TaskResumed,
)
from cenote.service.allocator.snapshot import Span


def a_story(rules: PoolRules | None = None, *, workers: int = 2, **more: object) -> ServiceStory:
    story = ServiceStory()
    if rules is not None:
        story.after(RulesChanged(at=story.now, rules=ShareRules(pools={"cpu": rules}, **more)))  # type: ignore[arg-type]  # rules
    story.add_pool(a_service_pool(workers=workers))
    return story


def test_with_fair_share_a_priority_only_orders_the_tasks_of_its_user() -> None:
    story = a_story(PoolRules(scheduling="fair_share"), workers=2)
    story.add_task(a_task("first", 4, user="ada"))
    story.add_task(a_task("urgent", 4, user="ada", priority=9))
    story.add_task(a_task("other", 4, user="bob"))

    assert started(story.end("first", 0)) == [("other", 0)]
    assert started(story.end("first", 1)) == [("urgent", 0)]
    assert story.slots_of_users == {"ada": 1, "bob": 1}


def test_the_queue_foresees_fair_share_too() -> None:
    story = a_story(PoolRules(scheduling="fair_share"), workers=1)
    story.add_task(a_task("hold", user="eve"))
    story.add_task(a_task("low", 1, user="ada"))
    story.add_task(a_task("high", 1, user="ada", priority=5))
    story.add_task(a_task("other", 1, user="bob"))

    assert [entry.task for entry in story.allocator.queue("cpu")] == ["high", "other", "low"]
    assert started(story.end("hold", 0)) == [("high", 0)]


def test_nobody_is_stopped_in_a_pool_without_preemption() -> None:
    for rules in (PoolRules(preemption=False), PoolRules(scheduling="fair_share")):
        story = a_story(rules, workers=1)
        story.add_task(a_task("low", preemptible=True))
        assert stopped(story.add_task(a_task("high", priority=5))) == []
    story = a_story(PoolRules(), workers=1)
    story.add_task(a_task("low", preemptible=True))
    assert stopped(story.add_task(a_task("high", priority=5))) == [("low", 0)]


def test_a_user_has_at_most_so_many_slots_of_one_pool_and_says_so() -> None:
    story = a_story(PoolRules(most_slots={"ada": 1, OTHERS: 2}), workers=4)
    story.add_pool(a_service_pool("gpu", workers=4))
    story.add_task(a_task("one", 9))
    story.add_task(a_task("two", 9, user="bob"))

    assert story.slots_of_users == {"ada": 1, "bob": 2}
    assert story.allocator.why("one")[0] == "user 'ada' has 1 of at most 1 slot of pool 'cpu'"
    assert len(started(story.after(TaskMoved(at=story.now, task="one", pool="gpu")))) == 4


def test_a_task_of_a_user_who_may_have_no_slot_there_is_refused() -> None:
    story = a_story(PoolRules(most_slots={"ada": 0}))
    assert "may not have any slot of pool 'cpu'" in (story.allocator.why_never(a_task("one")) or "")


# Hours


HOURS = ShareRules(pools={"cpu": PoolRules()})


def turned(story: ServiceStory, **sizes: tuple[int, int]) -> CalendarTurned:
    return CalendarTurned(at=story.now, spans={"day": Span(story.now, "Tuesday 00:00")}, sizes=sizes)


def test_an_elastic_pool_has_the_size_of_the_hour() -> None:
    story = ServiceStory()
    story.after(RulesChanged(at=story.now, rules=HOURS))
    story.add_pool(a_service_pool(elastic=an_elastic_size(most=2)))
    grown = story.obey(story.after(turned(story, cpu=(3, 5))))
    assert sum(command.count for command in grown if isinstance(command, StartWorkers)) == 3

    story.add_task(a_task("one", 20))
    story.obey(story.later(1))
    assert len(story.running) == 5
    story.after(turned(story))
    assert len(started(story.end("one", 0))) == 0
    (view,) = story.allocator.pools()
    assert (view.joined, view.leaving) == (2, 3)


def test_the_hour_holds_after_a_restart_from_a_compacted_log() -> None:
    story = ServiceStory()
    story.after(RulesChanged(at=story.now, rules=HOURS))
    story.add_pool(a_service_pool(elastic=an_elastic_size(most=2)))
    story.obey(story.after(turned(story, cpu=(3, 5))))
    story.restart(list(story.allocator.compacted()))
    story.add_task(a_task("one", 20))
    story.later(61)

    assert story.allocator.pools()[0].joined + story.allocator.pools()[0].queued == 5


def test_a_fixed_pool_keeps_its_size_at_any_hour() -> None:
    story = a_story(workers=2)
    story.after(turned(story, cpu=(3, 5)))
    assert story.allocator.pools()[0].joined == 2


# Patience


def test_a_task_that_waits_too_long_fails_and_says_what_it_waited_for() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("long"))
    story.add_task(a_task("short", queue_timeout=60))
    assert decided(story.later(59), TaskEnded) == []

    (ended,) = decided(story.later(2), TaskEnded)
    assert (ended.task, ended.state) == ("short", "Failure")
    assert ended.reason == (
        "it waited 1m 1s without a slot, which is past its own `queue_timeout`: "
        "the only slot of pool 'cpu' is in use; it is next"
    )


def test_only_waiting_for_slots_counts() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("first"))
    story.add_task(a_task("second", queue_timeout=60, after=("first",)))
    story.add_task(a_task("paused", queue_timeout=60))
    story.after(TaskPaused(at=story.now, task="paused"))
    assert decided(story.later(1000), TaskEnded) == []

    story.after(TaskResumed(at=story.now, task="paused"))
    assert [one.task for one in decided(story.later(100), TaskEnded)] == ["paused"]


def test_a_task_that_has_a_slot_is_patient() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one", 3, queue_timeout=60))
    assert decided(story.later(1000), TaskEnded) == []


def test_past_the_time_of_its_pool_a_task_falls_back_or_fails() -> None:
    story = ServiceStory()
    story.add_pool(a_service_pool("spot", workers=1, queue_timeout=60, fallback=("cpu",)))
    story.add_pool(a_service_pool("cpu", workers=1, queue_timeout=100))
    story.add_task(a_task("a", pool="spot"))
    story.add_task(a_task("b", pool="cpu"))
    story.add_task(a_task("one", pool="spot"))

    (moved,) = decided(story.later(61), TaskFellBack)
    assert (moved.task, moved.pool, moved.reason) == ("one", "cpu", "it waited 1m 1s for pool 'spot'")
    assert story.allocator.task("one").fell_back_from == ("spot",)  # type: ignore[union-attr]  # it is there
    assert decided(story.later(60), TaskEnded) == []
    (ended,) = decided(story.later(41), TaskEnded)
    assert "past the `queue_timeout` of pool 'cpu'" in ended.reason


def test_how_long_a_task_has_waited_survives_a_restart() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("long"))
    story.add_task(a_task("short", queue_timeout=60))
    story.later(50)
    story.restart(list(story.allocator.compacted()))

    assert [one.task for one in decided(story.later(11), TaskEnded)] == ["short"]


# What is absurd


def test_absurd_numbers_and_texts_are_refused_in_words() -> None:
    story = a_story()
    for changes, words in (
        ({"priority": 10**9}, "`priority`"),
        ({"retries": 10**6}, "`retries`"),
        ({"timeout": 10**12}, "`timeout` should be"),
        ({"queue_timeout": 0}, "`queue_timeout` should be"),
        ({"results_period": -1}, "`results_period` should be"),
        ({"command": " "}, "needs a command"),
        ({"command": "echo \0"}, "holds a NUL"),
        ({"command": "x" * 200_000}, "at most 100,000 bytes"),
        ({"results": ("out", "../../*")}, "'../../*' leads out of it"),
        ({"results": ("/etc/passwd",)}, "'/etc/passwd' leads out of it"),
        ({"group": "a\nb"}, "its group should have nothing that changes what a terminal shows"),
        ({"group": "a" * 300}, "its group should have at most 200 letters, not 300"),
    ):
        assert words in (story.allocator.why_never(a_task("one", **changes)) or "")
    assert "at most 1024" in (story.allocator.why_no_pool(a_service_pool("big", slots=5000)) or "")
