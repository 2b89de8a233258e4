"""Stories of who gets the next slot: priority, fair share, limits and order."""

from collections import Counter

from builders.service import ServiceStory, a_service_pool, a_task, most_slots, started, stopped, weights
from cenote.engine.messages import Tick
from cenote.language.schema.service import OTHERS, ShareRules
from cenote.service.allocator.messages import (
    PoolAdded,
    RulesChanged,
    TaskMoved,
    TaskPaused,
    TaskPrioritised,
    TaskPutAhead,
    TaskResumed,
)


def a_story(*, workers: int = 2, slots: int = 1, rules: ShareRules | None = None) -> ServiceStory:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=workers, slots=slots))
    if rules:
        story.after(RulesChanged(at=story.now, rules=rules))
    return story


def test_four_instances_on_a_pool_of_four_go_to_four_workers_though_these_come_one_by_one() -> None:
    story = ServiceStory()
    story.after(PoolAdded(at=story.now, pool=a_service_pool(workers=4, slots=4)), Tick(at=story.now))
    story.add_task(a_task("one", 4))
    for _ in range(4):
        story.join("cpu")

    assert Counter(story.running.values()) == {f"cpu-{number}": 1 for number in range(1, 5)}


def test_instances_do_not_wait_long_for_workers_that_do_not_come() -> None:
    story = ServiceStory()
    story.after(PoolAdded(at=story.now, pool=a_service_pool(workers=4, slots=4)), Tick(at=story.now))
    story.add_task(a_task("one", 4))
    story.join("cpu")
    story.later(60)

    assert Counter(story.running.values()) == {"cpu-1": 4}


def test_sixteen_instances_on_four_workers_run_four_at_a_time_each_on_its_own_worker() -> None:
    story = a_story(workers=4)

    assert started(story.add_task(a_task("one", 16))) == [("one", number) for number in range(4)]
    assert len(set(story.running.values())) == 4
    assert started(story.end("one", 2)) == [("one", 4)]


def test_work_is_spread_over_the_workers_with_the_most_room() -> None:
    story = a_story(workers=3, slots=2)
    story.add_task(a_task("one", 3))

    assert len(set(story.running.values())) == 3


def test_two_users_with_weights_two_to_one_share_twelve_slots_eight_to_four() -> None:
    story = a_story(workers=12, rules=weights(ada=2.0, bob=1.0))
    story.add_task(a_task("first", 1000, user="ada"))
    story.add_task(a_task("second", 1000, user="bob"))

    for _ in range(30):
        for one in list(story.running):
            story.end(one.task, one.instance)

    assert story.slots_of_users == {"ada": 8, "bob": 4}


def test_the_share_stays_exact_when_single_instances_end() -> None:
    story = a_story(workers=12, rules=weights(ada=2.0, bob=1.0))
    story.add_task(a_task("first", 1000, user="ada"))
    story.add_task(a_task("second", 1000, user="bob"))
    for one in list(story.running):
        story.end(one.task, one.instance)

    for turn in range(200):
        one = list(story.running)[turn * 7 % 12]
        story.end(one.task, one.instance)
        assert story.slots_of_users == {"ada": 8, "bob": 4}


def test_groups_share_before_their_users_do() -> None:
    story = a_story(workers=6)
    story.add_task(a_task("a", 100, user="ada", group="big"))
    story.add_task(a_task("b", 100, user="bob", group="big"))
    story.add_task(a_task("c", 100, user="cyd", group="small"))
    for _ in range(20):
        for one in list(story.running):
            story.end(one.task, one.instance)

    used = story.slots_of_users
    assert used["cyd"] == 3
    assert used["ada"] + used["bob"] == 3


def test_a_high_priority_task_starts_next() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one", 5))
    story.add_task(a_task("urgent", 1, priority=9, user="bob"))

    assert started(story.end("one", 0)) == [("urgent", 0)]


def test_tasks_of_one_user_start_in_the_order_of_submission() -> None:
    story = a_story(workers=1)
    for name in ("one", "two", "three"):
        story.add_task(a_task(name))

    assert started([*story.end("one", 0), *story.end("two", 0)]) == [("two", 0), ("three", 0)]


def test_a_task_can_be_put_ahead_of_another() -> None:
    story = a_story(workers=1)
    for name in ("one", "two", "three", "four"):
        story.add_task(a_task(name))
    story.after(TaskPutAhead(at=story.now, task="four", of="two"))
    story.after(TaskPutAhead(at=story.now, task="three", of="four"))

    assert [entry.task for entry in story.allocator.queue("cpu")] == ["three", "four", "two"]


def test_a_task_put_ahead_of_a_higher_priority_gets_that_priority() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one"))
    story.add_task(a_task("high", priority=3))
    story.add_task(a_task("low"))
    story.after(TaskPutAhead(at=story.now, task="low", of="high"))

    assert [entry.task for entry in story.allocator.queue("cpu")] == ["low", "high"]


def test_a_user_never_has_more_slots_than_allowed_in_all_pools_together() -> None:
    story = a_story(workers=4, rules=most_slots(ada=3))
    story.add_pool(a_service_pool("gpu", workers=4))
    story.add_task(a_task("one", 2))
    assert len(started(story.add_task(a_task("two", 10, pool="gpu")))) == 1
    assert started(story.end("one", 0)) == [("two", 1)]
    assert story.allocator.why("two")[0] == "user 'ada' has 3 of at most 3 slots"


def test_a_limit_without_a_name_is_for_all_others() -> None:
    story = a_story(workers=4, rules=ShareRules(most_slots={OTHERS: 1, "bob": 2}))
    story.add_task(a_task("one", 9, user="ada"))
    story.add_task(a_task("two", 9, user="bob"))

    assert story.slots_of_users == {"ada": 1, "bob": 2}


def test_a_higher_limit_takes_effect_at_once() -> None:
    story = a_story(workers=4, rules=most_slots(ada=1))
    story.add_task(a_task("one", 9))

    raised = story.after(RulesChanged(at=story.now, rules=most_slots(ada=3)))
    assert started(raised) == [("one", 1), ("one", 2)]


def test_a_paused_task_finishes_what_runs_and_starts_nothing_more_until_resumed() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one", 3))
    story.after(TaskPaused(at=story.now, task="one"))

    assert started(story.end("one", 0)) == []
    assert story.allocator.why("one") == ["it is paused"]
    assert started(story.after(TaskResumed(at=story.now, task="one"))) == [("one", 1)]


def test_a_moved_task_starts_in_the_other_pool_and_what_runs_stays() -> None:
    story = a_story(workers=1)
    story.add_pool(a_service_pool("gpu", workers=1))
    story.add_task(a_task("one", 3))

    moved = story.after(TaskMoved(at=story.now, task="one", pool="gpu"))
    assert started(moved) == [("one", 1)]
    assert stopped(moved) == []
    assert started(story.end("one", 0)) == []


def test_a_changed_priority_changes_the_order() -> None:
    story = a_story(workers=1)
    for name in ("one", "two", "three"):
        story.add_task(a_task(name))
    story.after(TaskPrioritised(at=story.now, task="three", priority=1))

    assert started(story.end("one", 0)) == [("three", 0)]


def test_the_queue_foresees_the_order_in_which_slots_are_given() -> None:
    story = a_story(workers=1, rules=weights(ada=2.0, bob=1.0))
    story.add_task(a_task("hold", user="eve"))
    story.add_task(a_task("first", 4, user="ada"))
    story.add_task(a_task("second", 4, user="bob"))
    story.add_task(a_task("urgent", 1, user="bob", priority=1))

    entries = [(entry.task, entry.instances) for entry in story.allocator.queue("cpu")]
    assert entries[0] == ("urgent", 1)
    assert sum(many for _, many in entries) == 9
    assert started(story.end("hold", 0)) == [("urgent", 0)]
