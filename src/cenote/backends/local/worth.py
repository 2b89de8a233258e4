"""Decide whether other cores bring more than it costs to use them."""

from __future__ import annotations

_COST = 1.0
"""Seconds of CPU for the first process, which imports everything; those that are forked from it cost next to nothing.
A second core must bring more than that."""

TO_START = 1.0
"""Seconds until the first process is there, on a machine that has a core for it."""


def are_worth_it(seconds: float, cpus: int) -> bool:
    """Whether so much work of one core should go to processes on so many."""
    return seconds * (1 - 1 / cpus) > _COST


def seconds_left(done: float, events: int, all_events: int, *, expected: float) -> float:
    """Work that is left, as the part that is done tells: so many seconds for so many events. Before anything is done it
    is what was expected."""
    return done * max(0, all_events - events) / events if events else max(expected, done)
