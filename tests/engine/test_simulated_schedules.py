"""The real engine under simulated faults; `PYTHONPATH=tests python -m simulation --seeds 100000` plays more of them."""

from random import Random

import pytest

from cenote.engine.machine import Engine
from cenote.engine.messages import Record
from simulation.check import play
from simulation.expected import expected_of
from simulation.invariants import Watch
from simulation.runtime import Life, Store
from simulation.scenario import a_scenario

SEEDS = 1000
BLOCK = 100


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_schedule_breaks_an_invariant(first: int) -> None:
    for seed in range(first, first + BLOCK):
        play(seed)


@pytest.mark.parametrize("seed", [41006375, 41014465, 41017947, 41020557, 41028743, 5003057])
def test_what_a_silent_worker_tells_late_does_not_widen_the_window(seed: int) -> None:
    play(seed)


def test_a_seed_always_plays_the_same() -> None:
    assert [play(seed) for seed in range(50)] == [play(seed) for seed in range(50)]


@pytest.mark.parametrize("seed", range(40))
def test_a_replayed_journal_leads_to_the_same_decisions(seed: int) -> None:
    scenario = a_scenario(seed)
    life = Life(scenario, Random(seed), Store(), Watch(scenario, expected_of(scenario), frozenset()))
    life.run(cancel_after=scenario.cancel_after, crash_after=None)

    again = Engine(scenario.plan, scenario.options)
    for event, commands in life.events:
        assert again.handle(event) == commands
        for command in commands:
            if isinstance(command, Record):
                assert again.handle(command.event) == []


def test_the_seeds_cover_every_kind_of_trouble_and_every_ending() -> None:
    scenarios = [a_scenario(seed) for seed in range(SEEDS // 2)]
    endings = {play(seed).status for seed in range(BLOCK)}

    assert endings == {"succeeded", "partial", "failed"}
    assert any(scenario.crashes and scenario.doomed and scenario.options.keep_going for scenario in scenarios)
    assert any(scenario.cancel_after and scenario.impatient for scenario in scenarios)
    assert any(scenario.killers and not scenario.numbered for scenario in scenarios)
    assert any(len(scenario.plan.tasks) == 0 for scenario in scenarios)
    assert any(segment.scope == "run" for scenario in scenarios for segment in scenario.plan.segments)


def test_the_seeds_cover_pools_of_every_kind_and_all_their_trouble() -> None:
    scenarios = [scenario for scenario in map(a_scenario, range(SEEDS // 2)) if scenario.options.manages_workers]
    pools = [pool for scenario in scenarios for pool in scenario.plan.placement.pools]

    assert any(pool.elastic and pool.elastic.min == 0 for pool in pools)
    assert any(pool.workers == 0 for pool in pools)
    assert any(pool.fallback and pool.spec.fallback_when.preempted for pool in pools)
    assert any(scenario.unschedulable and scenario.options.keep_going for scenario in scenarios)
    assert any(scenario.weather.barren and not scenario.unschedulable for scenario in scenarios)
    assert any(scenario.weather.hungry and scenario.loss_rate for scenario in scenarios)
    assert any(scenario.weather.refusal_rate and scenario.weather.preemption_rate for scenario in scenarios)
    assert any(scenario.weather.freeze_rate and scenario.weather.walltime for scenario in scenarios)
