"""Stories of a service that is killed and started again from its log."""

from builders.service import ServiceStory, a_service_pool, a_task, decided, started, stopped
from cenote.engine.messages import EndWorkers, StopWorkers, WorkerJoined
from cenote.service.allocator.allocator import Allocator
from cenote.service.allocator.messages import (
    ArchiveTask,
    AttemptId,
    InstanceAssigned,
    InstanceEnded,
    InstancesKnown,
    PoolClosed,
    PoolRemoved,
    ServiceStarted,
    TaskCancelled,
    TaskEnded,
)
from cenote.service.client.definitions import TaskState


def a_story(*, workers: int = 1) -> ServiceStory:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=workers))
    story.add_task(a_task("one", 3))
    story.begin()
    return story


def test_what_ended_is_asked_for_again_where_the_end_of_the_log_is_lost() -> None:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=1))
    known = len(story.log)
    story.add_task(a_task("one", 3))
    story.end("one", 0)
    (worker,) = story.running.values()
    story.log = story.log[: known + 1]  # neither who got it nor how it ended
    story.allocator = Allocator.replay(story.log)
    story.watch(story.allocator.resume(story.now, careful=True))
    over, running = AttemptId("one", 0, 1), AttemptId("one", 1, 1)
    again = story.after(
        InstancesKnown(at=story.now, worker=worker, pool="cpu", running=(running,), over=(over,)),
        WorkerJoined(at=story.now, worker=worker, pool="cpu", slots=1),
    )

    assert started(again) == [("one", 0)]  # the worker knows it, and tells its end
    assert started(story.end("one", 0)) == []
    assert started(story.end("one", 1)) == [("one", 2)]


def test_what_workers_run_is_not_begun_again_though_the_end_of_the_log_is_lost() -> None:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=2))
    known = len(story.log)
    story.add_task(a_task("one", 3))
    running = dict(story.running)
    story.log = story.log[: known + 1]  # the task is there, and not who got it
    story.allocator = Allocator.replay(story.log)
    story.watch(story.allocator.resume(story.now, careful=True))
    first, last = sorted(set(running.values()))
    again = [*story.come_back(first), *story.come_back(last)]

    assert started(again) == []
    assert [one.attempts for one in story.allocator.instances("one")] == [1, 1, 0]
    assert started(story.end("one", 0)) == [("one", 2)]


def test_a_replayed_log_gives_the_same_state_and_no_commands() -> None:
    story = a_story()
    story.end("one", 0, code=1)

    assert Allocator.replay(story.log).compacted() == story.allocator.compacted()
    assert Allocator.replay(story.allocator.compacted()).compacted() == story.allocator.compacted()


def test_decisions_that_come_back_change_nothing() -> None:
    story = a_story()
    before = story.allocator.compacted()

    assert story.after(*decided_in(story)) == []
    assert story.allocator.compacted() == before


def decided_in(story: ServiceStory) -> list[InstanceAssigned]:
    return [event for event in story.log if isinstance(event, InstanceAssigned)]


def test_what_runs_goes_on_when_its_worker_comes_back() -> None:
    story = a_story()
    assert started(story.restart()) == []

    assert started(story.come_back("cpu-1")) == []
    assert started(story.end("one", 0)) == [("one", 1)]


def test_what_was_assigned_and_never_sent_is_sent_once_more_with_the_same_attempt() -> None:
    story = a_story()
    story.end("one", 0)
    story.running.clear()  # the service was killed before it could send the next one
    story.restart()

    assert started(story.come_back("cpu-1")) == [("one", 1)]
    assert list(story.running) == [AttemptId("one", 1, 1)]


def test_a_decision_that_was_not_committed_is_made_anew() -> None:
    story = a_story()
    story.end("one", 0)
    story.restart([event for event in story.log if event != decided_in(story)[-1]])

    story.running.clear()
    assert started(story.come_back("cpu-1")) == [("one", 1)]


def test_what_ended_meanwhile_is_heard_once() -> None:
    story = a_story()
    story.restart()
    attempt = AttemptId("one", 0, 1)
    ended = InstanceEnded(
        at=story.now, task="one", instance=0, attempt=1, worker="cpu-1", exit_code=0, cause="exit", message=""
    )

    known = story.after(InstancesKnown(at=story.now, worker="cpu-1", pool="cpu", finished=(attempt,)))
    assert started(known) == []
    story.after(ended, ended)
    assert next(story.allocator.instances("one")).attempts == 1


def test_a_worker_that_does_not_come_back_is_ended_and_its_work_goes_elsewhere() -> None:
    story = a_story(workers=2)
    story.restart()
    story.come_back("cpu-2")

    assert [one for one in story.later(59) if isinstance(one, EndWorkers)] == []
    assert [one.workers for one in story.later(2) if isinstance(one, EndWorkers)] == [("cpu-1",)]
    assert started(story.obey(story.lose("cpu-1", cause="silent"))) == [("one", 0)]


def test_a_worker_that_lost_its_memory_lost_its_instances() -> None:
    story = a_story()
    story.restart()
    story.running.clear()

    assert started(story.come_back("cpu-1")) == [("one", 0)]
    assert list(story.running) == [AttemptId("one", 0, 2)]


def test_what_is_not_wanted_any_more_is_stopped_when_its_worker_comes_back() -> None:
    story = a_story()
    story.after(TaskCancelled(at=story.now, task="one", by="ada"))
    story.restart()

    assert stopped(story.come_back("cpu-1")) == [("one", 0)]


def test_what_was_cancelled_before_its_worker_heard_of_it_is_over_when_the_worker_comes_back() -> None:
    story = a_story()
    story.end("one", 0)
    story.running.clear()  # the service was killed before it could send the next one
    story.after(TaskCancelled(at=story.now, task="one", by="ada"))
    story.restart()

    back = story.come_back("cpu-1")
    assert started(back) == []
    assert [event.state for event in decided(back, TaskEnded)] == [TaskState.CANCELLED]


def test_a_worker_that_runs_what_the_service_does_not_know_is_asked_to_stop_it() -> None:
    story = a_story()
    stray = AttemptId("gone", 0, 1)

    known = story.after(InstancesKnown(at=story.now, worker="cpu-9", pool="cpu", running=(stray,)))
    assert stopped(known) == [("gone", 0)]


def test_ended_tasks_go_to_the_archive_and_leaving_workers_are_asked_again() -> None:
    story = a_story()
    for number in range(3):
        story.end("one", number)
    story.after(PoolClosed(at=story.now, pool="cpu"))

    commands = story.restart()
    assert ArchiveTask("one") in commands
    assert [one.workers for one in commands if isinstance(one, StopWorkers)] == [("cpu-1",)]
    assert len(decided(commands, ServiceStarted)) == 1
    assert story.allocator.record_of("one").state is TaskState.SUCCESS


def test_what_waits_for_a_pool_outlives_the_removal_of_an_earlier_one_of_its_name() -> None:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=1))
    story.after(PoolRemoved(at=story.now, pool="cpu"))
    story.lose("cpu-1", cause="retired")
    story.add_pool(a_service_pool(workers=1))
    story.add_task(a_task("one", 3))
    story.begin()

    assert decided(story.restart(), TaskCancelled) == []
    story.come_back("cpu-2")
    assert started(story.end("one", 0)) == [("one", 1)]
