"""This file runs simulated schedules by the thousand: `python -m cenote.simulate --seeds 100000`."""

# ruff: noqa: T201 (a command of its own: it prints)

from __future__ import annotations

import argparse
import sys
from collections import Counter

from cenote.simulate.check import SeedError, play


def main() -> int:
    """Play the seeds; print the first that breaks an invariant, with its events."""
    parser = argparse.ArgumentParser(prog="python -m cenote.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many to play")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    asked = parser.parse_args()
    endings: Counter[str] = Counter()
    events = 0
    for seed in range(asked.first, asked.first + asked.seeds):
        try:
            played = play(seed)
        except SeedError as failed:
            print(failed)
            return 1
        endings[played.status] += 1
        events += played.events
    print(f"{asked.seeds} seeds, {events} events, every invariant held; endings: {dict(endings)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
