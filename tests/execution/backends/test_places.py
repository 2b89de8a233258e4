"""Pools limit how many tasks run at once, on one machine too."""

from __future__ import annotations

from cenote.execution.backends.local.slots import SlotTable
from cenote.execution.worker.task_spec import TaskSpec
from cenote.language.execution import Amounts, Pool
from cenote.planning.placement.pools import PlacedPool


def pool(name: str, workers: int, slots: int = 1) -> PlacedPool:
    return PlacedPool(
        spec=Pool(name),
        strategy="local",
        workers=workers,
        elastic=None,
        slots=slots,
        resources=Amounts(),
        granted=Amounts(),
    )


def task(number: int) -> TaskSpec:
    return TaskSpec(number, f"{number:032x}", "run", 0)


def test_a_pool_never_has_more_tasks_than_slots() -> None:
    places = SlotTable([pool("gpu", 1), pool("default", 2, slots=2)])
    for number in range(5):
        places.wait(task(number), "gpu")
        places.wait(task(10 + number), "default")
    taken = []
    while (found := places.take()) is not None:
        taken.append(found)
    assert [pool for _, pool, _ in taken].count("gpu") == 1
    assert [pool for _, pool, _ in taken].count("default") == 4
    assert places.waiting == 5


def test_a_freed_place_is_taken_by_the_next_task_of_that_pool() -> None:
    places = SlotTable([pool("gpu", 1)])
    places.wait(task(1), "gpu")
    places.wait(task(2), "gpu")
    first = places.take()
    assert first is not None
    assert places.take() is None
    places.free("gpu", first[2])
    second = places.take()
    assert second is not None
    assert second[0].task == 2


def test_workers_are_named_after_their_pool() -> None:
    places = SlotTable([pool("big", 2, slots=4)])
    assert [event.worker for event in places.joined(1.0)] == ["big-1", "big-2"]
    assert [places.worker("big", place) for place in (0, 3, 4, 7)] == ["big-1", "big-1", "big-2", "big-2"]


def test_a_waiting_task_can_be_taken_back() -> None:
    places = SlotTable([pool("default", 1)])
    places.wait(task(1), "default")
    assert places.withdraw(1) == (task(1), "default")
    assert places.withdraw(1) is None
    assert places.take() is None
