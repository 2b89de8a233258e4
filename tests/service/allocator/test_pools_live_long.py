"""Stories of pools: their size, their workers, what falls back, what closes and what is refused."""

import pytest

from builders.service import ServiceStory, a_service_pool, a_task, an_elastic_size, decided, memory, started, stopped
from cenote.engine.messages import EndWorkers, StartWorkers, StopWorkers, WorkerLost, WorkerRequested, WorkerSilent
from cenote.engine.scaling import PoolState
from cenote.language.schema.service import ShareRules
from cenote.service.allocator.messages import (
    PoolAdded,
    PoolClosed,
    PoolRemoved,
    PoolResized,
    RulesChanged,
    TaskEnded,
    TaskFellBack,
)
from cenote.service.client.definitions import PoolDefinition, TaskDefinition, TaskState


def a_story(pool: PoolDefinition | None = None) -> ServiceStory:
    story = ServiceStory()
    story.add_pool(pool or a_service_pool())
    return story


def test_a_fixed_pool_has_its_workers_without_work_and_replaces_lost_ones() -> None:
    story = ServiceStory()

    assert StartWorkers("cpu", 3) in story.after(PoolAdded(at=story.now, pool=a_service_pool(workers=3)))
    for _ in range(3):
        story.join("cpu")
    assert story.later(10_000) == []
    assert StartWorkers("cpu", 1) in story.lose("cpu-1")


def test_an_elastic_pool_begins_with_nothing_grows_with_work_and_shrinks_to_nothing() -> None:
    story = a_story(a_service_pool(elastic=an_elastic_size(most=2)))
    assert story.allocator.pools()[0].joined == 0

    story.add_task(a_task("one", 5))
    assert story.obey(story.later(1))
    assert len(story.running) == 2
    while story.running:
        one = next(iter(story.running))
        story.end(one.task, one.instance)
    stops = [*story.later(5), *story.later(5), *story.later(5)]
    assert sum(len(one.workers) for one in stops if isinstance(one, StopWorkers)) == 2


def test_a_pool_made_smaller_sends_workers_away_that_finish_what_they_have() -> None:
    story = a_story(a_service_pool(workers=3))
    story.add_task(a_task("one", 100))

    smaller = story.after(PoolResized(at=story.now, pool="cpu", workers=1))
    assert [len(one.workers) for one in smaller if isinstance(one, StopWorkers)] == [2]
    assert stopped(smaller) == []
    assert sum(len(started(story.end("one", number))) for number in range(3)) == 1


def test_a_closed_pool_starts_nothing_and_its_workers_go() -> None:
    story = a_story()
    story.add_task(a_task("one", 5))

    closing = story.after(PoolClosed(at=story.now, pool="cpu"))
    assert [one.workers for one in closing if isinstance(one, StopWorkers)] == [("cpu-1", "cpu-2")]
    assert started(story.end("one", 0)) == []
    assert story.allocator.why("one") == ["pool 'cpu': it closes: 2 workers left"]
    story.end("one", 1)
    story.lose("cpu-1", cause="retired")
    story.lose("cpu-2", cause="retired")
    assert story.allocator.pools()[0].state is PoolState.CLOSED
    assert story.allocator.why("one") == ["pool 'cpu': it is closed"]


def test_a_pool_may_follow_a_closed_one_of_its_name_and_what_waits_runs_there() -> None:
    story = a_story(a_service_pool(workers=1))
    story.add_task(a_task("one", 2))
    story.after(PoolClosed(at=story.now, pool="cpu"))
    assert story.allocator.why_no_pool(a_service_pool()) == "pool 'cpu' is closing: 1 worker left"
    story.end("one", 0)
    story.lose("cpu-1", cause="retired")

    assert story.allocator.why_no_pool(a_service_pool()) is None
    assert started(story.add_pool(a_service_pool())) == [("one", 1)]


def test_a_removed_pool_cancels_its_tasks_and_is_forgotten() -> None:
    story = a_story(a_service_pool(workers=1))
    story.add_task(a_task("one", 3))

    assert stopped(story.after(PoolRemoved(at=story.now, pool="cpu"))) == [("one", 0)]
    ended = decided(story.end("one", 0, code=None, cause="stopped"), TaskEnded)
    assert [(event.state, event.reason) for event in ended] == [(TaskState.CANCELLED, "pool 'cpu' was removed")]
    story.lose("cpu-1", cause="retired")
    assert story.allocator.pools() == []


def test_jobs_are_called_off_when_all_that_waited_for_them_fell_back() -> None:
    story = ServiceStory()
    story.add_pool(a_service_pool("cpu", workers=1))
    size = an_elastic_size(most=2, idle=600)
    spot = a_service_pool("spot", elastic=size, fallback=("cpu",), no_worker_for=30)
    story.after(PoolAdded(at=story.now, pool=spot))
    story.add_task(a_task("one", 2, pool="spot"))
    story.later(1)
    story.after(*(WorkerRequested(at=story.now, pool="spot", worker=name) for name in ("spot-1", "spot-2")))
    commands = story.later(31)

    assert [(one.task, one.pool) for one in decided(commands, TaskFellBack)] == [("one", "cpu")]
    away = [one for one in commands if isinstance(one, StopWorkers)]
    assert [(one.pool, set(one.workers)) for one in away] == [("spot", {"spot-1", "spot-2"})]


def test_work_without_a_worker_falls_back_in_order_to_a_pool_where_it_fits() -> None:
    story = a_story(a_service_pool("small", workers=1, resources=memory(10)))
    story.add_pool(a_service_pool("large", workers=1, resources=memory(100)))
    spot = a_service_pool("spot", workers=1, fallback=("small", "large"), no_worker_for=30)
    story.after(PoolAdded(at=story.now, pool=spot))
    story.add_task(a_task("one", pool="spot", amounts=memory(50)))
    assert story.allocator.why("one") == ["pool 'spot': waits for 1 worker"]

    assert decided(story.later(29), TaskFellBack) == []
    moved = story.later(2)
    assert [(event.pool, event.reason) for event in decided(moved, TaskFellBack)] == [
        ("large", "pool 'spot' had no worker for 31s")
    ]
    assert started(moved) == [("one", 0)]


def test_a_silent_worker_gets_nothing_and_is_ended_when_its_patience_is_over() -> None:
    story = a_story()
    story.add_task(a_task("one", 4))
    story.after(WorkerSilent(at=story.now, worker="cpu-1", pool="cpu", seconds=0.0, patience=30.0))

    assert started(story.end("one", 0)) == []
    assert [one.workers for one in story.later(31) if isinstance(one, EndWorkers)] == [("cpu-1",)]


def test_a_pool_whose_workers_are_refused_fails_and_is_tried_again_when_resized() -> None:
    story = ServiceStory()
    story.after(PoolAdded(at=story.now, pool=a_service_pool(workers=1)))
    story.after(WorkerLost(at=story.now, worker="x", pool="cpu", reason="no such account", cause="refused"))
    assert story.allocator.pools()[0].why == "it failed: its workers were refused: no such account"

    assert StartWorkers("cpu", 1) in story.after(PoolResized(at=story.now + 60, pool="cpu", workers=1))


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (a_task("one", pool="cpuu"), "there is no pool 'cpuu'; did you mean 'cpu'?"),
        (a_task("one", 0), "a task needs at least one instance, not 0"),
        (
            a_task("one", amounts=memory(6_000_000_000)),
            "a slot of pool 'cpu' has 5 GB of memory; an instance asks for 6 GB",
        ),
        (a_task("one", after=("none",)), "there is no task none, which it should come after"),
        (a_task("one", after=("gone",)), "task gone, which it should come after, ended as Failure"),
        (a_task("one", user="eve"), "user 'eve' may not have any slot"),
        (a_task("known"), "there is a task with id known already"),
    ],
)
def test_what_can_never_run_is_refused_with_the_reason(task: TaskDefinition, reason: str) -> None:
    story = a_story(a_service_pool(slots=2, resources=memory(10_000_000_000)))
    story.after(RulesChanged(at=story.now, rules=ShareRules(most_slots={"eve": 0})))
    story.add_task(a_task("known"))
    archive = {"gone": TaskState.FAILURE, "done": TaskState.SUCCESS}

    assert (story.allocator.why_never(task, archive.get) or "").startswith(reason)
    assert story.allocator.why_never(a_task("fine", after=("done", "known")), archive.get) is None
