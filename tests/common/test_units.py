"""Amounts and durations are shown with three digits, in the unit a person would choose."""

from __future__ import annotations

import pytest

from cenote.common.units import format_bytes, format_count, format_seconds


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (147_300_000, "147 MB"),
        (999_700_000, "1 GB"),
        (4_000_000_000, "4 GB"),
        (1_234_567_890_123, "1.23 TB"),
    ],
)
def test_amounts_of_bytes(amount: float, shown: str) -> None:
    assert format_bytes(amount) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(7, "7"), (5704, "5704"), (80_000, "80 k"), (999_400, "999 k"), (999_999, "1 M"), (1_234_567, "1.23 M")],
)
def test_counts(number: float, shown: str) -> None:
    assert format_count(number) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.642, "642 ms"),
        (0.9999, "1.0 s"),
        (2.94, "2.9 s"),
        (9.97, "10s"),
        (59.7, "1m"),
        (7325, "2h 2m"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown
