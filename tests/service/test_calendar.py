"""Days, weeks, months and scaling periods, as clocks of a time zone show them."""

import math
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from cenote.language.schema.service import Budget, PoolRules, ScalingPeriod, ShareRules
from cenote.service.server.calendar import next_turn, now_is, zone_of

ZURICH = ZoneInfo("Europe/Zurich")
DAILY = (0, 1, 2, 3, 4, 5, 6)


def at(text: str, *, fold: int = 0) -> float:
    """When clocks in Zurich show this."""
    return datetime.fromisoformat(text).replace(tzinfo=ZURICH, fold=fold).timestamp()


def rules(*periods: ScalingPeriod) -> ShareRules:
    pool = PoolRules(periods=periods, budget=Budget(amount=1.0, per="week"))
    return ShareRules(pools={"cpu": pool}, timezone="Europe/Zurich")


def a_period(begins: str, ends: str, *, days: tuple[int, ...] = DAILY, most: int = 10) -> ScalingPeriod:
    minutes = [int(text[:2]) * 60 + int(text[3:]) for text in (begins, ends)]
    return ScalingPeriod(days=days, begins=minutes[0], ends=minutes[1], min=2, max=most)


WORK = a_period("08:00", "18:00", days=(0, 1, 2, 3, 4))


@pytest.mark.parametrize(
    ("moment", "holds"),
    [
        ("2026-11-16 07:59", False),
        ("2026-11-16 08:00", True),
        ("2026-11-16 17:59", True),
        ("2026-11-16 18:00", False),
        ("2026-11-14 12:00", False),
        ("2026-07-15 08:00", True),
    ],
)
def test_a_period_holds_by_the_clock_in_summer_and_winter(moment: str, holds: bool) -> None:
    assert now_is(rules(WORK), at(moment)).sizes == ({"cpu": (2, 10)} if holds else {})


def test_a_period_may_end_on_the_next_day() -> None:
    night = rules(a_period("22:00", "06:00", days=(4,)))
    holding = ["2026-11-13 22:00", "2026-11-14 05:59"]
    others = ["2026-11-13 05:00", "2026-11-14 06:00", "2026-11-14 23:00"]
    assert all(now_is(night, at(moment)).sizes for moment in holding)
    assert not any(now_is(night, at(moment)).sizes for moment in others)


def test_the_first_period_that_holds_counts() -> None:
    both = rules(a_period("12:00", "13:00", most=3), WORK)
    assert now_is(both, at("2026-11-16 12:30")).sizes == {"cpu": (2, 3)}
    assert now_is(both, at("2026-11-16 13:30")).sizes == {"cpu": (2, 10)}


def test_days_are_as_long_as_clocks_make_them() -> None:
    spring, autumn = "2026-03-29", "2026-10-25"
    for day, hours in ((spring, 23), (autumn, 25), ("2026-11-16", 24)):
        midnight = at(f"{day} 00:00")
        assert next_turn(rules(), midnight) - midnight == hours * 3600
        assert now_is(rules(), at(f"{day} 23:30")).spans["day"].since == midnight


def test_times_that_clocks_skip_or_show_twice_begin_once() -> None:
    skipped = rules(a_period("02:30", "05:00"))
    assert not now_is(skipped, at("2026-03-29 01:59")).sizes
    assert now_is(skipped, at("2026-03-29 04:00")).sizes
    twice = rules(a_period("02:30", "05:00"))
    assert now_is(twice, at("2026-10-25 02:30", fold=0)).sizes
    assert now_is(twice, at("2026-10-25 02:15", fold=1)).sizes


def test_turns_are_the_edges_of_periods_and_midnight() -> None:
    times, now = [], at("2026-11-16 00:00")
    for _ in range(4):
        now = next_turn(rules(WORK), now)
        times.append(datetime.fromtimestamp(now, ZURICH).strftime("%a %H:%M"))
    assert times == ["Mon 08:00", "Mon 18:00", "Tue 00:00", "Tue 08:00"]


def test_between_two_turns_nothing_changes() -> None:
    both, now = rules(a_period("22:00", "06:00", days=(4, 6)), WORK), at("2026-10-23 12:00")
    for _ in range(30):
        after = next_turn(both, now)
        middle, last = now_is(both, (now + after) / 2), now_is(both, after - 0.001)
        assert (middle.spans, middle.sizes) == (last.spans, last.sizes)
        now = after


def test_spans_say_when_the_next_begins() -> None:
    spans = now_is(rules(), at("2026-12-31 12:00")).spans
    assert {per: span.next for per, span in spans.items()} == {
        "day": "Friday 00:00",
        "week": "Monday 00:00",
        "month": "1 January 00:00",
    }
    assert spans["week"].since == at("2026-12-28 00:00")
    assert spans["month"].since == at("2026-12-01 00:00")


def test_without_rules_about_time_nothing_turns() -> None:
    assert next_turn(ShareRules(), 0.0) == math.inf
    assert zone_of("Europe/Zurch") is None
