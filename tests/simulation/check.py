"""Play the scenario of a seed to its end, through crashes and resumes, and check what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from simulation.expected import Expected, expected_of
from simulation.invariants import Watch
from simulation.pool_rules import BrokenError
from simulation.runtime import Life, Store
from simulation.scenario import Scenario, a_scenario


@dataclass(frozen=True)
class Played:
    """How one seed went."""

    seed: int
    status: str
    events: int
    lives: int


class SeedError(Exception):
    """An invariant was broken; the message has the seed and every event of the last life."""


def play(seed: int) -> Played:
    """Run the scenario of this seed; raises SeedError when something is wrong."""
    scenario = a_scenario(seed)
    random, store = Random(seed + 1), Store()
    status, events, lives = _play_to_the_end(seed, scenario, random, store)
    if scenario.mended and scenario.spoiled:
        mended = _play_to_the_end(seed, scenario.after_mending(), random, store)
        events, lives = events + mended[1], lives + mended[2]
    return Played(seed, status, events, lives)


def _play_to_the_end(seed: int, scenario: Scenario, random: Random, store: Store) -> tuple[str, int, int]:
    """Life after life, until one is neither cancelled nor crashes: how it ended, events, lives."""
    expected = expected_of(scenario)
    crashes: list[int | None] = [*scenario.crashes, None]
    cancel_after, events, lives = scenario.cancel_after, 0, 0
    while True:
        life = Life(scenario, random, store, Watch(scenario, expected, frozenset(store.finished)))
        try:
            status = life.run(cancel_after=cancel_after, crash_after=crashes[0])
            _check_end(status, life, store, expected, scenario)
        except Exception as error:
            raise SeedError(_story(seed, life, error)) from error
        events, lives = events + len(life.events), lives + 1
        if status == "cancelled":
            cancel_after = None
        elif status is not None:
            return status, events, lives
        else:
            crashes.pop(0)


def _check_end(status: str | None, life: Life, store: Store, expected: Expected, scenario: Scenario) -> None:
    wrongly_failed = set(life.engine.failures) - scenario.spoiled
    if wrongly_failed:
        raise BrokenError(f"tasks {sorted(wrongly_failed)} were given up, though nothing is wrong with them")
    if status is None or status == "cancelled":
        return
    if status != expected.status:
        raise BrokenError(f"the run ended as '{status}' instead of '{expected.status}'")
    if status == "failed" and not scenario.options.keep_going:
        return
    for task in expected.results:
        there = store.whole.get(task, store.partial.get(task))
        if there != expected.values.get(task):
            raise BrokenError(f"result {task} is {there} instead of {expected.values.get(task)}")
        if (there is not None and task not in store.whole) != (task in expected.partial):
            raise BrokenError(f"result {task} is wrongly called {'whole' if task in expected.partial else 'partial'}")


def _story(seed: int, life: Life, error: Exception) -> str:
    lines = [f"seed {seed}: {error!r}" if not isinstance(error, BrokenError) else f"seed {seed}: {error}"]
    lines += [f"  {event}\n      → {commands}" for event, commands in life.events]
    return "\n".join(lines)
