"""Tell the allocator, which has no clock, when days, weeks, months and scaling periods begin."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from cenote.common.text import did_you_mean
from cenote.language.schema.service import ScalingPeriod, ShareRules
from cenote.service.allocator.messages import CalendarTurned
from cenote.service.allocator.snapshot import Span

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAY = timedelta(days=1)


@cache
def zone_of(name: str) -> ZoneInfo | None:
    """A time zone by its name; None where there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def nearest_zone(name: str) -> str | None:
    """A hint for one that is not there."""
    known = available_timezones()
    return did_you_mean(name, known) or (None if known else "this machine has no time zones: install `tzdata`")


def now_is(rules: ShareRules, at: float) -> CalendarTurned:
    """What day, week, month and period it is, by the clocks that the rules mean."""
    zone = _zone(rules)
    here = datetime.fromtimestamp(at, zone)
    today = here.date()
    monday, first = today - timedelta(days=today.weekday()), today.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    spans = {
        "day": Span(_epoch(today, 0, zone), f"{_DAYS[(today.weekday() + 1) % 7]} 00:00"),
        "week": Span(_epoch(monday, 0, zone), "Monday 00:00"),
        "month": Span(_epoch(first, 0, zone), f"1 {_MONTHS[following.month - 1]} 00:00"),
    }
    sizes = {
        name: (holding.min, holding.max)
        for name, pool in rules.pools.items()
        if (holding := next((one for one in pool.periods if _holds(one, at, zone)), None)) is not None
    }
    return CalendarTurned(at=at, spans=spans, sizes=sizes)


def next_turn(rules: ShareRules, at: float) -> float:
    """When the next of them begins or ends; never, where no rule depends on it."""
    periods = [period for pool in rules.pools.values() for period in pool.periods]
    if not periods and not rules.budgets and not any(pool.budget for pool in rules.pools.values()):
        return math.inf
    zone = _zone(rules)
    today = datetime.fromtimestamp(at, zone).date()
    turns = [_epoch(today + _DAY, 0, zone)]
    turns += [edge for period in periods for begin, end in _times(period, today, zone) for edge in (begin, end)]
    return min(turn for turn in turns if turn > at)


def _holds(period: ScalingPeriod, at: float, zone: ZoneInfo) -> bool:
    today = datetime.fromtimestamp(at, zone).date()
    return any(begin <= at < end for begin, end in _times(period, today, zone))


def _times(period: ScalingPeriod, today: date, zone: ZoneInfo) -> Iterator[tuple[float, float]]:
    """When it begins and ends, from the day before until the day after."""
    for day in (today - _DAY, today, today + _DAY):
        if day.weekday() in period.days:
            last = day if period.ends > period.begins else day + _DAY
            yield _epoch(day, period.begins, zone), _epoch(last, period.ends, zone)


def _epoch(day: date, minutes: int, zone: ZoneInfo) -> float:
    """When clocks show this. A time that they skip is taken for what they would have shown; one that they show twice
    for the first."""
    if minutes == 24 * 60:
        day, minutes = day + _DAY, 0
    return datetime.combine(day, time(minutes // 60, minutes % 60), tzinfo=zone).timestamp()


def _zone(rules: ShareRules) -> ZoneInfo:
    return zone_of(rules.timezone) or ZoneInfo("UTC")
