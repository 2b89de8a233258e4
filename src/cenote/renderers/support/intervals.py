"""Give the uncertainties of counts and shares: central intervals (Garwood, Clopper–Pearson) of one deviation."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

TAIL = 0.5 * math.erfc(1 / math.sqrt(2))
"""The probability left out at each side: 15.87 %."""
EXACT_BELOW = 200
"""Beyond it the cube-root approximation is right to a ten-thousandth of a standard deviation."""
SHARES_EXACT_BELOW = 2000
"""With more than this on both sides a share is normal, to a thousandth of a standard deviation."""
Floats = NDArray[np.float64]


def poisson_errors(counts: Floats) -> tuple[Floats, Floats]:
    """How far the interval of each count reaches down and up. Counts are not negative; broken ones are approximated."""
    low, high = _approximate(counts)
    for index in np.flatnonzero((counts < EXACT_BELOW) & (counts == np.rint(counts))):
        low.flat[index], high.flat[index] = _exact(round(counts.flat[index]))
    return counts - low, high - counts


def _approximate(counts: Floats) -> tuple[Floats, Floats]:
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


def binomial_interval(passed: Floats, total: Floats) -> tuple[Floats, Floats]:
    """The lowest and the highest share of which so many of so many pass; all of [0, 1] where the total is zero."""
    failed = np.maximum(total - passed, 0.0)
    low, high = _normal_shares(passed, failed)
    exact = np.minimum(passed, failed) < SHARES_EXACT_BELOW
    low[exact] = _beta_quantile(passed[exact], failed[exact] + 1, TAIL)
    high[exact] = _beta_quantile(passed[exact] + 1, failed[exact], 1 - TAIL)
    return low, high


def _normal_shares(passed: Floats, failed: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval, with half an event of continuity."""
    total = np.maximum(passed + failed, 1.0)
    bounds = []
    for sign in (-1, 1):
        share = np.clip((passed + 0.5 * sign) / total, 0.0, 1.0)
        spread = np.sqrt(share * (1 - share) / total + 0.25 / total**2)
        bounds.append((share + 0.5 / total + sign * spread) / (1 + 1 / total))
    return bounds[0], bounds[1]


def _beta_quantile(a: Floats, b: Floats, probability: float) -> Floats:
    """Where the distribution Beta(a, b) has this probability below it (Newton's method, held within a bracket)."""
    found: Floats = np.where(a <= 0, 0.0, 1.0)
    inner = (a > 0) & (b > 0)
    a, b = a[inner], b[inner]
    low, high, x = np.zeros_like(a), np.ones_like(a), np.clip(a / (a + b), 1e-9, 1 - 1e-9)
    log_beta = _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)
    for _ in range(60):
        wrong = _incomplete_beta(x, a, b, log_beta) - probability
        low, high = np.where(wrong < 0, x, low), np.where(wrong < 0, high, x)
        slope = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - log_beta)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            stepped = x - wrong / slope
        step = np.where((stepped > low) & (stepped < high), stepped, (low + high) / 2)
        moved, x = np.abs(step - x), step
        if not (moved > 1e-13).any():
            break
    found[inner] = x
    return found


def _log_gamma(values: Floats) -> Floats:
    return np.array([math.lgamma(value) for value in values])


def _incomplete_beta(x: Floats, a: Floats, b: Floats, log_beta: Floats) -> Floats:
    """The probability below x, by the continued fraction (Lentz's method) of the side where it converges."""
    swapped = x > (a + 1) / (a + b + 2)
    y, p, q = np.where(swapped, 1 - x, x), np.where(swapped, b, a), np.where(swapped, a, b)
    front = np.exp(p * np.log(y) + q * np.log1p(-y) - log_beta) / p
    c, d = np.ones_like(y), 1 / (1 - (p + q) * y / (p + 1))
    fraction: Floats = d.copy()
    for m in range(1, 2000):
        even = m * (q - m) * y / ((p + 2 * m - 1) * (p + 2 * m))
        odd = -(p + m) * (p + q + m) * y / ((p + 2 * m) * (p + 2 * m + 1))
        d = 1 / (1 + even * d)
        c = 1 + even / c
        fraction = fraction * c * d
        d = 1 / (1 + odd * d)
        c = 1 + odd / c
        fraction = fraction * c * d
        if (np.abs(c * d - 1) < 1e-14).all():
            break
    below = front * fraction
    share: Floats = np.where(swapped, 1 - below, below)
    return share
