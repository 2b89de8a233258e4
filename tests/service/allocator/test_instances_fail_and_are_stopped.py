"""Stories of retries, lost workers, cancelled tasks, tasks that come after others, and preemption."""

from builders.service import ServiceStory, a_service_pool, a_task, decided, most_slots, started, stopped
from cenote.service.allocator.messages import (
    ArchiveTask,
    InstanceGivenUp,
    RulesChanged,
    TaskArchived,
    TaskCancelled,
    TaskEnded,
)
from cenote.service.client.definitions import InstanceState, TaskState


def a_story(*, workers: int = 2) -> ServiceStory:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=workers))
    return story


def test_a_task_whose_instances_all_succeed_is_a_success_and_goes_to_the_archive() -> None:
    story = a_story()
    story.add_task(a_task("one", 2))
    story.end("one", 0)

    last = story.end("one", 1)
    assert [ended.state for ended in decided(last, TaskEnded)] == [TaskState.SUCCESS]
    assert ArchiveTask("one") in last
    story.after(TaskArchived(at=story.now, task="one"))
    assert story.allocator.tasks() == []


def test_a_failed_instance_is_tried_again_as_often_as_asked() -> None:
    story = a_story()
    story.add_task(a_task("one", retries=1))

    assert started(story.end("one", 0, code=3)) == [("one", 0)]
    last = story.end("one", 0, code=3, message="no such file")
    assert [event.reason for event in decided(last, InstanceGivenUp)] == [
        "ended with exit code 3: no such file (2 attempts)"
    ]
    assert [(event.state, event.reason) for event in decided(last, TaskEnded)] == [
        (TaskState.FAILURE, "1 of 1 instance failed")
    ]


def test_a_timeout_counts_as_a_failure() -> None:
    story = a_story()
    story.add_task(a_task("one"))

    assert (
        "exceeded its time limit" in decided(story.end("one", 0, code=None, cause="timeout"), InstanceGivenUp)[0].reason
    )


def test_one_failed_instance_does_not_stop_the_others() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one", 3))

    assert started(story.end("one", 0, code=1)) == [("one", 1)]


def test_a_lost_worker_does_not_count_against_the_retries() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one"))
    lost = story.obey(story.lose("cpu-1"))

    assert started(lost) == [("one", 0)]
    assert next(story.allocator.instances("one")).attempts == 2


def test_an_instance_that_keeps_losing_its_workers_is_given_up() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one"))
    for number in range(1, 4):
        assert started(story.obey([*story.lose(f"cpu-{number}"), *story.later(60)])) == [("one", 0)]

    assert decided(story.lose("cpu-4"), InstanceGivenUp)[0].reason.startswith("kills its worker: 4 workers lost")


def test_workers_that_had_to_go_are_not_held_against_an_instance() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one"))
    for number in range(1, 9):
        assert started(story.obey(story.lose(f"cpu-{number}", cause="walltime"))) == [("one", 0)]


def test_a_cancelled_task_stops_what_runs_and_drops_what_waits() -> None:
    story = a_story()
    story.add_task(a_task("one", 5))

    assert stopped(story.after(TaskCancelled(at=story.now, task="one", by="ada"))) == [("one", 0), ("one", 1)]
    assert story.end("one", 0, code=None, cause="stopped") == []
    last = story.end("one", 1, code=143)
    assert [(event.state, event.reason) for event in decided(last, TaskEnded)] == [
        (TaskState.CANCELLED, "cancelled by ada")
    ]


def test_a_task_waits_for_those_that_it_comes_after() -> None:
    story = a_story()
    story.add_task(a_task("one"))
    assert started(story.add_task(a_task("two", after=("one",)))) == []
    assert story.allocator.why("two") == ["it comes after task 'one' (one), which has not ended"]
    assert started(story.end("one", 0)) == [("two", 0)]


def test_tasks_that_come_after_a_failure_fail_with_that_reason_all_the_way() -> None:
    story = a_story()
    story.add_task(a_task("one"))
    story.add_task(a_task("two", after=("one",)))
    story.add_task(a_task("three", after=("two",)))

    ends = decided(story.end("one", 0, code=1), TaskEnded)
    assert [(event.task, event.state) for event in ends] == [
        ("one", TaskState.FAILURE),
        ("two", TaskState.FAILURE),
        ("three", TaskState.FAILURE),
    ]
    assert ends[1].reason == "task 'one' (one), which it comes after, failed"


def test_a_higher_priority_stops_the_latest_of_those_who_said_they_may_be() -> None:
    story = a_story(workers=3)
    story.add_task(a_task("modest", 3, preemptible=True))
    urgent = story.add_task(a_task("urgent", 2, priority=1, user="bob"))

    assert stopped(urgent) == [("modest", 2), ("modest", 1)]
    assert started(urgent) == []
    assert started(story.end("modest", 2, code=None, cause="stopped")) == [("urgent", 0)]


def test_a_preempted_instance_waits_again_and_has_not_used_a_retry() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("modest", preemptible=True))
    story.add_task(a_task("urgent", priority=1))
    story.end("modest", 0, code=143, cause="signal")

    assert next(story.allocator.instances("modest")).state is InstanceState.WAITING
    assert started(story.end("urgent", 0)) == [("modest", 0)]
    assert decided(story.end("modest", 0), TaskEnded)[0].state is TaskState.SUCCESS


def test_a_preempted_instance_says_why_it_began_again_as_long_as_it_is_known() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("modest", preemptible=True))
    story.add_task(a_task("urgent", priority=1))
    story.end("modest", 0, code=143, cause="signal")
    seen = [next(story.allocator.instances("modest"))]
    story.end("urgent", 0)
    seen.append(next(story.allocator.instances("modest")))
    story.end("modest", 0)
    seen.append(next(story.allocator.instances("modest")))

    assert [one.state for one in seen] == [InstanceState.WAITING, InstanceState.ASSIGNED, InstanceState.SUCCEEDED]
    why = "it gave way to task 'urgent' (urgent) of higher priority"
    assert {(one.cause, one.message) for one in seen} == {("preempted", why)}


def test_a_preempted_instance_that_does_not_want_another_slot_has_failed_for_that_reason() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("lease", preemptible=True, requeue=False))
    story.add_task(a_task("urgent", priority=1))
    last = story.end("lease", 0, cause="stopped")

    why = "it gave way to task 'urgent' (urgent) of higher priority"
    assert [event.reason for event in decided(last, InstanceGivenUp)] == [why]
    assert [event.state for event in decided(last, TaskEnded)] == [TaskState.FAILURE]
    assert started(last) == [("urgent", 0)]
    assert next(story.allocator.instances("lease")).cause == "preempted"


def test_an_instance_that_does_not_want_another_slot_fails_with_its_worker() -> None:
    story = a_story(workers=2)
    story.add_task(a_task("lease", requeue=False))
    (instance,) = story.allocator.instances("lease")
    last = story.lose(instance.worker)

    assert [event.state for event in decided(last, TaskEnded)] == [TaskState.FAILURE]
    assert started(last) == []


def test_nothing_is_stopped_that_did_not_say_it_may_be() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("firm"))

    assert stopped(story.add_task(a_task("urgent", priority=1))) == []


def test_nothing_is_stopped_for_an_equal_priority_or_for_a_user_at_the_limit() -> None:
    story = a_story(workers=2)
    story.after(RulesChanged(at=story.now, rules=most_slots(bob=1)))
    story.add_task(a_task("modest", 2, preemptible=True, priority=1))

    assert stopped(story.add_task(a_task("equal", 2, priority=1, user="cyd"))) == []
    assert stopped(story.add_task(a_task("urgent", 9, priority=2, user="bob"))) == [("modest", 1)]


def test_late_and_doubled_news_of_an_attempt_changes_nothing() -> None:
    story = a_story(workers=1)
    story.add_task(a_task("one", 2, retries=5))
    story.end("one", 0, code=1)
    late = story.log[-2]

    assert story.after(late) == []
    assert next(story.allocator.instances("one")).attempts == 2
