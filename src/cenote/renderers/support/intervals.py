"""Give the uncertainties of counts: central Poisson intervals (Garwood) of one standard deviation."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

TAIL = 0.5 * math.erfc(1 / math.sqrt(2))
"""The probability left out at each side: 15.87 %."""
EXACT_BELOW = 200
"""Beyond it the cube-root approximation is right to a ten-thousandth of a standard deviation."""


def poisson_errors(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far the interval of each count reaches down and up. Counts are whole and not negative."""
    low, high = _approximate(counts)
    for index in np.flatnonzero(counts < EXACT_BELOW):
        low[index], high[index] = _exact(round(counts[index]))
    return counts - low, high - counts


def _approximate(counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The cube root of a gamma variable is nearly normal (Wilson and Hilferty)."""
    below, above = np.maximum(counts, 1.0), counts + 1.0
    low = below * (1 - 1 / (9 * below) - 1 / (3 * np.sqrt(below))) ** 3
    high = above * (1 - 1 / (9 * above) + 1 / (3 * np.sqrt(above))) ** 3
    return np.where(counts > 0, low, 0.0), high


@cache
def _exact(count: int) -> tuple[float, float]:
    """The means for which this count, or a more extreme one, has the probability of the tail."""
    start_low, start_high = _approximate(np.array([float(count)]))
    low = _mean_with_cdf(count - 1, 1 - TAIL, float(start_low[0])) if count else 0.0
    return low, _mean_with_cdf(count, TAIL, float(start_high[0]))


def _mean_with_cdf(count: int, probability: float, start: float) -> float:
    """The mean of the Poisson distribution that gives `count` or less with this probability (Newton's method)."""
    mean = start
    for _ in range(30):
        terms = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(count + 1)]
        step = (math.fsum(terms) - probability) / terms[-1]
        mean += step
        if abs(step) < 1e-12 * mean:
            break
    return mean
