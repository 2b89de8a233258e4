"""The clock of a service never goes back."""

from __future__ import annotations

from cenote.service.server.clock import steady_clock


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    day, passed = [1000.0], [5.0]
    clock = steady_clock(now=lambda: day[0], passed=lambda: passed[0])
    assert clock() == 1000.0
    day[0], passed[0] = 400.0, 15.0
    assert clock() == 1010.0


def test_a_service_that_starts_before_the_last_event_of_its_log_goes_on_from_there() -> None:
    assert steady_clock(2000.0, now=lambda: 1000.0, passed=lambda: 0.0)() == 2000.0
