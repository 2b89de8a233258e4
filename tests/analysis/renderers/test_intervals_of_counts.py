"""Check the uncertainties of counts against published numbers and against their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cenote.analysis.renderers.support.compared import EXACT_BELOW, TAIL, poisson_errors


@pytest.mark.parametrize(
    ("count", "down", "up"),
    [(0, 0.0, 1.841), (1, 0.827, 2.300), (2, 1.292, 2.638), (10, 3.109, 4.267), (100, 9.983, 11.033)],
)
def test_small_counts_get_the_published_intervals(count: int, down: float, up: float) -> None:
    below, above = poisson_errors(np.array([float(count)]))
    assert below[0] == pytest.approx(down, abs=2e-3)
    assert above[0] == pytest.approx(up, abs=2e-3)


@pytest.mark.parametrize("count", [1, 7, 60, EXACT_BELOW - 1])
def test_the_ends_of_an_interval_leave_one_tail_each(count: int) -> None:
    below, above = poisson_errors(np.array([float(count)]))
    low, high = count - below[0], count + above[0]
    assert poisson_cdf(count, high) == pytest.approx(TAIL, rel=1e-9)
    assert 1 - poisson_cdf(count - 1, low) == pytest.approx(TAIL, rel=1e-9)


def test_the_approximation_continues_the_exact_intervals() -> None:
    below, above = poisson_errors(np.array([EXACT_BELOW - 1.0, float(EXACT_BELOW), EXACT_BELOW + 1.0]))
    assert np.diff(below, n=2)[0] == pytest.approx(0, abs=2e-3)
    assert np.diff(above, n=2)[0] == pytest.approx(0, abs=2e-3)


def poisson_cdf(count: int, mean: float) -> float:
    return math.fsum(math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1))
