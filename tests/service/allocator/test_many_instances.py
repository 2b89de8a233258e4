"""Long queues: what one event costs does not grow with them."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from builders.service import ServiceStory, a_service_pool, a_task, decided
from cenote.service.allocator.messages import TaskAdded, TaskEnded, TaskFellBack
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.reasons import Ahead, Lines


def calls_of(story: ServiceStory, name: str, instance: int) -> int:
    """How many calls of Python functions it takes to handle the end of one instance."""
    return calls_in(lambda: story.end(name, instance))


def calls_in(act: Callable[[], object]) -> int:
    """How many calls of Python functions something takes."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


def a_story(*, tasks: int, instances: int, **more: Any) -> ServiceStory:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=4))
    story.after(*(TaskAdded(at=story.now, task=a_task(f"task-{number}", instances, **more)) for number in range(tasks)))
    return story


def test_handling_an_event_takes_as_many_steps_with_a_hundred_thousand_instances_as_with_a_hundred() -> None:
    few, many = a_story(tasks=1, instances=100), a_story(tasks=1, instances=100_000)

    assert calls_of(many, "task-0", 1) == calls_of(few, "task-0", 1)


def test_handling_an_event_takes_as_many_steps_with_ten_thousand_tasks_as_with_ten() -> None:
    few, many = a_story(tasks=10, instances=2), a_story(tasks=10_000, instances=2)

    assert calls_of(many, "task-0", 1) == calls_of(few, "task-0", 1)


def test_an_instance_that_waits_takes_ten_bytes_at_most() -> None:
    story = a_story(tasks=1, instances=100_000)
    task = story.allocator._state.tasks["task-0"]  # what it holds is the point

    sizes = [sys.getsizeof(task.states), sys.getsizeof(task.attempts), sys.getsizeof(task.seats)]
    assert sum(sizes) < 10 * 100_000
    assert len(task.live) == 4


def test_asking_why_all_tasks_wait_takes_one_walk_along_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[str] = []
    walk = Lines._walk

    def noted(lines: Lines, pool: LongLivedPool) -> tuple[dict[str, Ahead], Ahead]:
        walks.append(pool.name)
        return walk(lines, pool)

    monkeypatch.setattr(Lines, "_walk", noted)
    story = a_story(tasks=3000, instances=2)
    names = list(story.allocator.submitted())[2:]  # the first two have all slots

    words = [story.allocator.why(name)[-1] for name in names]
    ahead = [story.allocator.ahead_of(name) for name in names]

    assert walks == ["cpu"]
    assert ahead == [min(2 * number, 1000) for number in range(2998)]
    assert words[0] == "it is next"
    assert words[-1].startswith("more than 1,000 instances are ahead of it: 2 of 'task-2'")


def test_time_goes_on_in_as_many_steps_with_ten_thousand_tasks_that_may_not_wait_for_ever_as_with_ten() -> None:
    few, many = (a_story(tasks=tasks, instances=2, queue_timeout=3600) for tasks in (10, 10_000))

    assert calls_in(lambda: many.later(1)) == calls_in(lambda: few.later(1))


def test_of_thousands_that_have_waited_too_long_some_end_at_a_time() -> None:
    story = a_story(tasks=2000, instances=1, queue_timeout=60)
    ended = [len(decided(story.later(seconds), TaskEnded)) for seconds in (61.0, *[0.1] * 30)]

    assert max(ended) < 500
    assert sum(ended) == 2000 - 4, "four have slots"


def test_of_thousands_that_fall_back_some_move_at_a_time() -> None:
    story = ServiceStory()
    story.add_pool(a_service_pool("spot", workers=0, fallback=("cpu",), no_worker_for=60))
    story.add_pool(a_service_pool("cpu", workers=1))
    story.after(*(TaskAdded(at=story.now, task=a_task(f"task-{number}", pool="spot")) for number in range(2000)))
    moved = [len(decided(story.later(seconds), TaskFellBack)) for seconds in (1.0, 61.0, *[0.1] * 30)]

    assert max(moved) < 500
    assert sum(moved) == 2000
