"""Tell the time to a service: the time of day, which never goes back, whatever happens to the clock of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable


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
