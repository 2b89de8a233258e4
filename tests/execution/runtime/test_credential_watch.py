"""Watching credentials, with a clock and files of our own."""

from __future__ import annotations

import pytest

from cenote.execution.credentials.interface import CredentialFacts
from cenote.execution.runs.horizon import Horizon
from cenote.execution.runtime.credential_watch import LOOK_EVERY, RENEW_AGAIN, renewal_pause

NOW = 1_800_000_000.0
HOUR = 3600.0


def facts(hours: float | None) -> CredentialFacts:
    return CredentialFacts("/somewhere", ends=None if hours is None else NOW + hours * HOUR)


def test_a_credential_that_ends_before_a_stage_is_told_with_both_times() -> None:
    horizon = Horizon(NOW, {"Fill": NOW + HOUR, "RunInference": NOW + 3 * HOUR})
    told = horizon.too_soon("x509", facts(2))
    assert "'x509' ends" in told
    assert "RunInference is predicted to end" in told
    assert horizon.too_soon("x509", facts(4)) == ""
    assert horizon.too_soon("x509", facts(None)) == ""
    assert horizon.too_soon("x509", facts(-1)) == "", "that it has ended is said elsewhere"


@pytest.mark.parametrize(("stages", "told"), [({}, True), ({"Fill": NOW + HOUR}, False)])
def test_a_walltime_counts_where_no_end_is_predicted(stages: dict[str, float], *, told: bool) -> None:
    horizon = Horizon(NOW, stages, {"gpu": NOW + 8 * HOUR})
    assert ("pool 'gpu'" in horizon.too_soon("x509", facts(2))) == told


@pytest.mark.parametrize(
    ("begins", "ends", "now", "pause"),
    [
        (-60, 50, 0, 12.5),  # a token of 50 s is renewed several times before it ends
        (0, 24 * 3600, 23 * 3600, RENEW_AGAIN),
        (None, 50, 0, 12.5),
        (0, 100, 99, LOOK_EVERY),
        (0, 100, 500, 25.0),  # it has ended: as often as its life is long
        (None, 100, 500, RENEW_AGAIN),
        (0, 3600, 5000, RENEW_AGAIN),
    ],
)
def test_the_pause_between_renewals_follows_the_life_of_the_credential(
    begins: float | None, ends: float, now: float, pause: float
) -> None:
    assert renewal_pause(CredentialFacts("/token", begins=begins, ends=ends), now) == pause
