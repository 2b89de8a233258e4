"""Long queues: what one event costs does not grow with them."""

import sys
from types import FrameType

from builders.service import ServiceStory, a_service_pool, a_task
from cenote.service.allocator.messages import TaskAdded


def calls_of(story: ServiceStory, name: str, instance: int) -> int:
    """How many calls of Python functions it takes to handle the end of one instance."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        story.end(name, instance)
    finally:
        sys.setprofile(before)
    return calls


def a_story(*, tasks: int, instances: int) -> ServiceStory:
    story = ServiceStory()
    story.add_pool(a_service_pool(workers=4))
    story.after(*(TaskAdded(at=story.now, task=a_task(f"task-{number}", instances)) for number in range(tasks)))
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
