"""Play many seeds: `PYTHONPATH=tests python -m allocation --seeds 10000`."""

from __future__ import annotations

import argparse
import sys

from allocation.play import play


def main() -> None:
    """Stops at the first seed that breaks a rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    events = timed_out = stopped = restarts = 0
    for seed in range(given.first, given.first + given.seeds):
        played = play(seed)
        events, timed_out = events + played.events, timed_out + played.timed_out
        stopped, restarts = stopped + played.stopped, restarts + played.restarts
    sys.stdout.write(
        f"{given.seeds} schedules: {events} events, {restarts} restarts, {timed_out} tasks timed out, "
        f"{stopped} instances stopped by budgets; no rule was broken\n"
    )


if __name__ == "__main__":
    main()
