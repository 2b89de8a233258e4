"""How many workers a pool should have."""

from dataclasses import replace

import pytest

from cenote.engine.scaling import Load, Past, needed_workers, remembered, wanted_workers
from cenote.language.execution import Elastic, PoolSize

ELASTIC = PoolSize(slots=2, elastic=Elastic(min=1, max=6, idle_time=60, resize_period=10))
FIXED = PoolSize(slots=2, workers=4)


def a_load(tasks: int, to_come: int = 1000) -> Load:
    return Load(waiting=tasks, sent=0, to_come=to_come)


def play(limits: PoolSize, tasks: dict[int, int], *, until: int, size: int = 0) -> list[tuple[int, int]]:
    """(second, new size) at every change, when so many tasks wait from these seconds on."""
    past, waiting, changes = Past(size=size), 0, []
    for second in range(until):
        waiting = tasks.get(second, waiting)
        past = remembered(past, needed_workers(a_load(waiting), limits), limits, second)
        wanted = wanted_workers(a_load(waiting), limits, past, second)
        if wanted != past.size:
            changes.append((second, wanted))
            past = replace(past, size=wanted, resized=second)
    return changes


def test_a_fixed_pool_has_its_number_whatever_waits() -> None:
    assert wanted_workers(a_load(0), FIXED, Past(), 0.0) == 4
    assert wanted_workers(a_load(500), FIXED, Past(size=4), 0.0) == 4


def test_a_fixed_pool_starts_no_worker_that_would_never_get_a_task_and_stops_none_early() -> None:
    assert wanted_workers(a_load(3, to_come=3), FIXED, Past(), 0.0) == 2
    assert wanted_workers(a_load(3, to_come=3), FIXED, Past(size=4), 0.0) == 4


def test_a_pool_that_nothing_can_come_to_any_more_needs_nobody() -> None:
    assert wanted_workers(a_load(0, to_come=0), FIXED, Past(size=4), 0.0) == 0
    assert wanted_workers(a_load(0, to_come=0), ELASTIC, Past(size=4, resized=0.0), 1.0) == 0


@pytest.mark.parametrize(("tasks", "workers"), [(0, 1), (2, 1), (3, 2), (12, 6), (500, 6)])
def test_an_elastic_pool_needs_what_its_tasks_fill_within_its_limits(tasks: int, workers: int) -> None:
    assert needed_workers(a_load(tasks), ELASTIC) == workers


def test_idle_slots_are_kept_beside_the_busy_ones() -> None:
    limits = PoolSize(slots=2, elastic=Elastic(max=6, idle_slots=3))

    assert needed_workers(a_load(4), limits) == 4
    assert needed_workers(a_load(4, to_come=4), limits) == 2, "no slot is kept for tasks that cannot come"


def test_a_pool_grows_at_once_and_then_at_most_once_per_period() -> None:
    assert play(ELASTIC, {0: 4, 1: 6, 2: 12}, until=60) == [(0, 1), (10, 6)]
    assert play(PoolSize(slots=1, elastic=Elastic(max=9, resize_period=10)), {0: 4, 1: 6}, until=60) == [
        (0, 4),
        (10, 6),
    ]


def test_the_resize_factor_makes_steps_smaller_but_still_arrives() -> None:
    limits = PoolSize(slots=1, elastic=Elastic(max=8, resize_period=10, resize_factor=0.5))

    assert play(limits, {0: 8}, until=60) == [(0, 4), (10, 6), (20, 7), (30, 8)]


def test_a_pool_shrinks_to_what_was_enough_all_through_its_idle_time() -> None:
    limits = PoolSize(slots=1, elastic=Elastic(max=8, idle_time=60, resize_period=1))

    assert play(limits, {0: 8, 100: 5, 130: 0}, until=300) == [(0, 8), (160, 5), (190, 0)]


def test_a_load_that_goes_up_and_down_does_not_make_the_pool_flap() -> None:
    limits = PoolSize(slots=1, elastic=Elastic(max=8, idle_time=60, resize_period=1))
    swinging = {second: 3 + 4 * (second % 20 < 10) for second in range(600)}

    assert play(limits, swinging, until=600) == [(0, 7)]


def test_a_pool_below_its_least_is_filled_up_at_once() -> None:
    assert wanted_workers(a_load(0), ELASTIC, Past(size=0, resized=0.0), 1.0) == 1
