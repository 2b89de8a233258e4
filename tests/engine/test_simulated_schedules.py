"""The real engine under simulated faults; `python -m cenote.simulate --seeds 100000` plays more of them."""

import pytest

from cenote.simulate.check import play
from cenote.simulate.scenario import a_scenario

SEEDS = 1000
BLOCK = 100


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_schedule_breaks_an_invariant(first: int) -> None:
    for seed in range(first, first + BLOCK):
        play(seed)


def test_a_seed_always_plays_the_same() -> None:
    assert [play(seed) for seed in range(50)] == [play(seed) for seed in range(50)]


def test_the_seeds_cover_every_kind_of_trouble_and_every_ending() -> None:
    scenarios = [a_scenario(seed) for seed in range(SEEDS // 2)]
    endings = {play(seed).status for seed in range(BLOCK)}

    assert endings == {"succeeded", "partial", "failed"}
    assert any(scenario.crashes and scenario.doomed and scenario.options.keep_going for scenario in scenarios)
    assert any(scenario.cancel_after and scenario.impatient for scenario in scenarios)
    assert any(scenario.killers and not scenario.numbered for scenario in scenarios)
    assert any(len(scenario.plan.tasks) == 0 for scenario in scenarios)
    assert any(segment.scope == "run" for scenario in scenarios for segment in scenario.plan.segments)
