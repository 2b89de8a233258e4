"""Run simulated schedules by the thousand: `PYTHONPATH=tests python -m simulation --seeds 100000`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from cenote.common.units import format_bytes
from simulation.check import SeedError, play
from simulation.scale import measure, three_pools


def main() -> int:
    """Play seeds, or measure."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--scale", type=int, metavar="TASKS", help="instead: run so many tasks, and say what they cost")
    asked = parser.parse_args()
    return _scale(asked.scale) if asked.scale else _seeds(asked.first, asked.seeds)


def _seeds(first: int, count: int) -> int:
    """Play the seeds; print the first that breaks an invariant, with its events."""
    endings: Counter[str] = Counter()
    events = 0
    for seed in range(first, first + count):
        try:
            played = play(seed)
        except SeedError as failed:
            print(failed)
            return 1
        endings[played.status] += 1
        events += played.events
    print(f"{count} seeds, {events} events, every invariant held; endings: {dict(endings)}")
    return 0


def _scale(tasks: int) -> int:
    plan = three_pools(tasks)
    timed, weighed = measure(plan, memory=False), measure(plan, memory=True)
    print(f"{timed.tasks} tasks, {timed.events} events: {timed.status} after {timed.seconds:.1f} s of processor time")
    print(f"{timed.events / timed.seconds:,.0f} events per second, {format_bytes(weighed.peak_bytes)} at the most")
    return 0 if timed.status == "succeeded" else 1


if __name__ == "__main__":
    sys.exit(main())
