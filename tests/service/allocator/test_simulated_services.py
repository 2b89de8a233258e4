"""The real allocator under simulated users, workers and kills; CENOTE_DEEP_TESTS=1 plays 10,000 schedules."""

import os

import pytest

from allocation.play import play
from cenote.service.client.definitions import TaskState

SEEDS = 10_000 if os.environ.get("CENOTE_DEEP_TESTS") else 300
BLOCK = SEEDS // 10


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_schedule_breaks_a_rule(first: int) -> None:
    for seed in range(first, first + BLOCK):
        play(seed)


def test_a_seed_always_plays_the_same() -> None:
    assert [play(seed) for seed in range(10)] == [play(seed) for seed in range(10)]


def test_the_seeds_cover_restarts_and_every_ending() -> None:
    played = [play(seed) for seed in range(50)]

    assert {state for schedule in played for state in schedule.ended.values()} == {
        TaskState.SUCCESS,
        TaskState.FAILURE,
        TaskState.CANCELLED,
    }
    assert sum(schedule.restarts > 1 for schedule in played) > 10
    assert sum(schedule.timed_out for schedule in played) > 10
    assert sum(schedule.stopped for schedule in played) > 5
