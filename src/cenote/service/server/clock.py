"""Keep the time of a service: a clock that never goes back, and turns in its loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar


def steady_clock(
    at_least: float = 0.0,
    *,
    now: Callable[[], float] = time.time,
    passed: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
) -> Callable[[], float]:
    """Seconds since the epoch, and not before what the log has seen; a machine that slept has aged.

    Somebody may set the clock of the machine back. Patience, polls and walltimes must not stand still until it is where
    it was.
    """
    began, start = passed(), max(now(), at_least)
    return lambda: start + (passed() - began)


# Go through many things in the service's loop, and let everybody else have their turn in between.


Value = TypeVar("Value")
TURN = 0.005
"""Seconds of one turn, about: what one thing takes differs a lot, and is not known before."""


async def in_turns(values: Iterable[Value]) -> AsyncIterator[Value]:
    """These values, as many in each turn as there is time for. What they are about may change in between."""
    began = time.monotonic()
    for value in values:
        yield value
        if time.monotonic() - began > TURN:
            await asyncio.sleep(0)
            began = time.monotonic()
