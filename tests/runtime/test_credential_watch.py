"""Watching credentials, with a clock and files of our own."""

from __future__ import annotations

import pytest

from cenote.credentials.interface import CredentialFacts
from cenote.runs.horizon import Horizon

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
