"""How many tasks a pool is sent ahead: enough that its workers never wait, few enough for their memory."""

from __future__ import annotations

import pytest

from cenote.engine.capacity import PoolCapacity


def a_pool(slots: int = 1) -> PoolCapacity:
    pool = PoolCapacity("gpu", window_per_slot=2.0, ahead_seconds=0.2)
    pool.join("gpu-1", slots)
    return pool


def window_after(seconds: float, fetching: float, slots: int = 1) -> int:
    pool = a_pool(slots)
    for _ in range(100):
        pool.finish(seconds, fetching)
    return pool.window


def test_a_worker_finds_its_next_task_already_there() -> None:
    assert a_pool(slots=3).window == 6


@pytest.mark.parametrize("fetching", [0.0, 0.1, 0.99])
def test_one_task_ahead_is_enough_where_inputs_come_sooner_than_it_ends(fetching: float) -> None:
    assert window_after(1.0, fetching) == 2


def test_two_are_fetched_at_once_where_inputs_take_longer_than_a_task() -> None:
    assert window_after(1.0, 1.5) == 3


def test_however_long_inputs_take_no_more_than_two_lie_ready_for_each_slot() -> None:
    assert window_after(1.0, 1000.0, slots=4) == 12


def test_a_pool_whose_inputs_come_quickly_again_is_sent_less() -> None:
    pool = a_pool()
    for fetching in [2.0] * 50 + [0.0] * 100:
        pool.finish(1.0, fetching)
    assert pool.window == 2


def test_short_tasks_are_sent_ahead_for_as_long_as_the_way_takes() -> None:
    assert window_after(0.01, 0.0) == 20
