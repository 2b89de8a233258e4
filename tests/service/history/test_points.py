"""Points of time become fewer, and say the same on average."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.service.history import SlotPoint, mean, thinned, window


def slot_seconds(points: list[SlotPoint], until: float) -> float:
    ends = [*(one.at for one in points[1:]), until]
    return sum(one.busy * (end - one.at) for one, end in zip(points, ends, strict=True) if one.known)


@st.composite
def histories(draw: st.DrawFn) -> list[SlotPoint]:
    times = sorted(draw(st.lists(st.integers(0, 600), min_size=1, max_size=60, unique=True)))
    return [SlotPoint(at=float(at), busy=draw(st.integers(0, 8)), free=1) for at in times]


@given(histories())
def test_thinning_keeps_how_long_slots_were_in_use(points: list[SlotPoint]) -> None:
    few = thinned(points, width=60.0, until=660.0)
    assert slot_seconds(few, 660.0) == pytest.approx(slot_seconds(points, 660.0), abs=0.001 * 660)


@given(histories())
def test_there_is_at_most_one_point_in_each_width(points: list[SlotPoint]) -> None:
    few = thinned(points, width=60.0, until=660.0)
    assert len({one.at // 60 for one in few}) == len(few)


def test_what_lasts_longer_than_a_width_stays_exact() -> None:
    points = [SlotPoint(at=0.0, busy=2), SlotPoint(at=1000.0, busy=5)]
    assert thinned(points, width=60.0, until=2000.0) == points


def test_a_time_of_which_nothing_is_known_is_not_averaged() -> None:
    points = [SlotPoint(at=0.0, busy=4), SlotPoint(at=10.0, known=False), SlotPoint(at=20.0, busy=2)]
    assert thinned(points, width=60.0, until=60.0) == points


def test_a_window_begins_with_what_held_then() -> None:
    points = [SlotPoint(at=0.0, busy=1), SlotPoint(at=50.0, busy=2), SlotPoint(at=90.0, busy=3)]
    assert window(points, start=60.0) == [SlotPoint(at=60.0, busy=2), points[2]]


def test_the_mean_goes_by_how_long_something_held() -> None:
    points = [SlotPoint(at=0.0, busy=0, free=4), SlotPoint(at=30.0, busy=4, free=0)]
    assert mean(points, until=40.0) == SlotPoint(at=0.0, busy=1, free=3)
