"""Add up what workers and slots cost, in whole numbers: the order of events and compaction change nothing.

An account counts from the beginning of its span (a day, a week, a month, or for ever). A worker counts from the time
that it is on a machine until it is gone; a slot from the time that an instance gets it until the instance ends, or is
told to stop, or is past its time limit.
"""

from __future__ import annotations

import msgspec

RESERVE = 60.0
"""Seconds that everything which runs has set aside: what is to end is over by then, and decisions are as late."""
NOTICE = 300.0
"""Seconds that workers have, to finish what they run, before a budget ends them."""
USE = 300.0
"""Seconds that a worker must be able to work before that, to be asked for at all."""
LEAST = 60.0
"""Seconds that an instance without a time limit must be able to run, to be started."""
_UNIT = 10**15
_HOUR = 3_600_000


def rate_of(cost: float | None, slots: int = 1) -> int:
    """What one of so many slots of a worker costs in a millisecond, from its cost in an hour."""
    return round((cost or 0.0) * _UNIT / (_HOUR * slots))


def moment(at: float) -> int:
    """A time in milliseconds."""
    return round(at * 1000)


def units(amount: float) -> int:
    """An amount as accounts count."""
    return round(amount * _UNIT)


def amount_of(counted: int) -> float:
    """And back."""
    return counted / _UNIT


class Charge(msgspec.Struct, frozen=True):
    """Something that costs."""

    rate: int
    since: int
    until: int | None = None
    """The latest time that it counts to; None where it has no limit."""


class Account:
    """What one pool, profile or user has spent since `begins`, and has promised to spend."""

    def __init__(self, begins: int = 0, closed: int = 0) -> None:
        self.begins, self.closed = begins, closed
        self._rate = self._offset = 0
        """Of charges without a limit: each adds rate × time - rate × its beginning."""
        self._limited_rate = self._limited_offset = self._promised = 0
        """The same of those with one, and what they cost if they last until then."""

    def open(self, charge: Charge, sign: int = 1) -> None:
        """It costs from now on; with the other sign, it never did."""
        since = max(charge.since, self.begins)
        if charge.until is None:
            self._rate += sign * charge.rate
            self._offset += sign * charge.rate * since
        else:
            self._limited_rate += sign * charge.rate
            self._limited_offset += sign * charge.rate * since
            self._promised += sign * charge.rate * max(0, charge.until - since)

    def close(self, charge: Charge, at: int) -> None:
        """It is over."""
        self.open(charge, -1)
        end = at if charge.until is None else min(at, charge.until)
        self.closed += charge.rate * max(0, end - max(charge.since, self.begins))

    def spent(self, at: int) -> int:
        """So far."""
        limited = min(self._limited_rate * at - self._limited_offset, self._promised)
        return self.closed + self._rate * at - self._offset + limited

    def committed(self, at: int) -> int:
        """What it will have spent at least, even if everything without a limit is told to end now."""
        reserve = self._rate * moment(RESERVE)
        return self.closed + self._rate * at - self._offset + reserve + self._promised
