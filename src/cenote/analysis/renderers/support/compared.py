"""Compare two samples bin by bin: intervals of counts and shares, envelopes of variations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.bins import BinCounts, Floats, Roles
from cenote.common.values import dataclass
from cenote.language.systematics import NOMINAL, sides_by_group

# Give the uncertainties of counts and shares: central intervals (Garwood, Clopper–Pearson) of one deviation.


TAIL = 0.5 * math.erfc(1 / math.sqrt(2))
"""The probability left out at each side: 15.87 %."""
EXACT_BELOW = 200
"""Beyond it the cube-root approximation is right to a ten-thousandth of a standard deviation."""
SHARES_EXACT_BELOW = 2000
"""With more than this on both sides a share is normal, to a thousandth of a standard deviation."""
FloatArray = NDArray[np.float64]


def poisson_errors(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far the interval of each count reaches down and up. Counts are not negative; broken ones are approximated."""
    low, high = _approximate(counts)
    for index in np.flatnonzero((counts < EXACT_BELOW) & (counts == np.rint(counts))):
        low.flat[index], high.flat[index] = _exact(round(counts.flat[index]))
    return counts - low, high - counts


def _approximate(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
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


def binomial_interval(passed: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest share of which so many of so many pass; all of [0, 1] where the total is zero."""
    failed = np.maximum(total - passed, 0.0)
    low, high = _normal_shares(passed, failed)
    exact = np.minimum(passed, failed) < SHARES_EXACT_BELOW
    low[exact] = _beta_quantile(passed[exact], failed[exact] + 1, TAIL)
    high[exact] = _beta_quantile(passed[exact] + 1, failed[exact], 1 - TAIL)
    return low, high


def _normal_shares(passed: FloatArray, failed: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval, with half an event of continuity."""
    total = np.maximum(passed + failed, 1.0)
    bounds = []
    for sign in (-1, 1):
        share = np.clip((passed + 0.5 * sign) / total, 0.0, 1.0)
        spread = np.sqrt(share * (1 - share) / total + 0.25 / total**2)
        bounds.append((share + 0.5 / total + sign * spread) / (1 + 1 / total))
    return bounds[0], bounds[1]


def _beta_quantile(a: FloatArray, b: FloatArray, probability: float) -> FloatArray:
    """Where the distribution Beta(a, b) has this probability below it (Newton's method, held within a bracket)."""
    found: FloatArray = np.where(a <= 0, 0.0, 1.0)
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


def _log_gamma(values: FloatArray) -> FloatArray:
    return np.array([math.lgamma(value) for value in values])


def _incomplete_beta(x: FloatArray, a: FloatArray, b: FloatArray, log_beta: FloatArray) -> FloatArray:
    """The probability below x, by the continued fraction (Lentz's method) of the side where it converges."""
    swapped = x > (a + 1) / (a + b + 2)
    y, p, q = np.where(swapped, 1 - x, x), np.where(swapped, b, a), np.where(swapped, a, b)
    front = np.exp(p * np.log(y) + q * np.log1p(-y) - log_beta) / p
    c, d = np.ones_like(y), 1 / (1 - (p + q) * y / (p + 1))
    fraction: FloatArray = d.copy()
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
    share: FloatArray = np.where(swapped, 1 - below, below)
    return share


ComparisonKind = Literal["ratio", "split_ratio", "pull", "difference", "relative_difference", "efficiency", "asymmetry"]
CountErrors = Literal["sqrt", "poisson"]


@dataclass(frozen=True, eq=False)
class Compared:
    """The result in each bin: the value, and how far its interval reaches down and up."""

    values: Floats
    down: Floats
    up: Floats
    known: np.typing.NDArray[np.bool_]
    """Bins in which the comparison says something: no ratio to nothing, no pull without an uncertainty."""


def errors_of(counts: BinCounts, method: CountErrors | None) -> tuple[Floats, Floats]:
    """Down and up: Poisson intervals, of as many events as weighted bins are worth, or one standard deviation.

    Without a method, Poisson intervals for true counts alone.
    """
    if method == "sqrt" or (method is None and not counts.are_counts):
        return counts.errors, counts.errors
    if counts.are_counts:
        return poisson_errors(counts.values)
    usable = (counts.values > 0) & (counts.variances > 0)
    weight = np.where(usable, counts.variances / np.where(usable, counts.values, 1.0), 1.0)
    down, up = poisson_errors(np.where(usable, counts.values / weight, 0.0))
    return np.where(usable, down * weight, counts.errors), np.where(usable, up * weight, counts.errors)


def compare(kind: ComparisonKind, one: BinCounts, other: BinCounts, *, method: CountErrors | None = None) -> Compared:
    """The first sample compared with the second."""
    return COMPARISONS[kind](one, other, method)


def _ratio(one: BinCounts, other: BinCounts, method: CountErrors | None) -> Compared:
    """Of two Poisson means by the share of the first in both, which is binomial; else by propagation."""
    known = other.values > 0
    below = np.where(known, other.values, 1.0)
    values = one.values / below
    if method != "sqrt" and one.are_counts and other.are_counts:
        low, high = binomial_interval(one.values, one.values + other.values)
        low, high = (share / np.maximum(1 - share, 1e-300) for share in (low, np.where(known, high, 0.5)))
        return Compared(values, values - np.minimum(low, values), np.maximum(high, values) - values, known)
    (down, up), (other_down, other_up) = errors_of(one, method), errors_of(other, method)
    slope = values / below
    return Compared(values, np.hypot(down / below, slope * other_up), np.hypot(up / below, slope * other_down), known)


def _split_ratio(one: BinCounts, other: BinCounts, method: CountErrors | None) -> Compared:
    """With the uncertainty of the first alone: that of the second is a band around 1."""
    known = other.values > 0
    below = np.where(known, other.values, 1.0)
    down, up = errors_of(one, method)
    return Compared(one.values / below, down / below, up / below, known)


def _relative_difference(one: BinCounts, other: BinCounts, method: CountErrors | None) -> Compared:
    ratio = _ratio(one, other, method)
    return Compared(ratio.values - 1, ratio.down, ratio.up, ratio.known)


def _difference(one: BinCounts, other: BinCounts, method: CountErrors | None) -> Compared:
    (down, up), (other_down, other_up) = errors_of(one, method), errors_of(other, method)
    filled = (one.variances > 0) | (other.variances > 0)
    return Compared(one.values - other.values, np.hypot(down, other_up), np.hypot(up, other_down), filled)


def _pull(one: BinCounts, other: BinCounts, method: CountErrors | None) -> Compared:
    """The difference in units of the uncertainty towards the other."""
    difference = _difference(one, other, method)
    spread = np.where(difference.values > 0, difference.down, difference.up)
    known = difference.known & (spread > 0)
    ones = np.ones_like(spread)
    return Compared(difference.values / np.where(known, spread, 1.0), ones, ones, known)


def _asymmetry(one: BinCounts, other: BinCounts, method: CountErrors | None) -> Compared:
    both = one.values + other.values
    known = both > 0
    below = np.where(known, both, 1.0)
    values = (one.values - other.values) / below
    if method != "sqrt" and one.are_counts and other.are_counts:
        low, high = (2 * share - 1 for share in binomial_interval(one.values, both))
        return Compared(values, values - low, high - values, known)
    spread = 2 / below**2 * np.hypot(other.values * one.errors, one.values * other.errors)
    return Compared(values, spread, spread, known)


def _efficiency(one: BinCounts, other: BinCounts, method: CountErrors | None) -> Compared:
    """Of events that are among the others: Clopper–Pearson, of as many events as weighted bins are worth."""
    known = other.values > 0
    below = np.where(known, other.values, 1.0)
    values = one.values / below
    inside = known & (values >= 0) & (values <= 1)
    worth = np.where(inside, below**2 / np.where(other.variances > 0, other.variances, below), 0.0)
    low, high = binomial_interval(np.where(inside, values, 0.0) * worth, worth)
    variance = np.maximum((1 - 2 * values) * one.variances + values**2 * other.variances, 0.0) / below**2
    normal = ~inside if method != "sqrt" else known
    spread = np.sqrt(variance)
    return Compared(values, np.where(normal, spread, values - low), np.where(normal, spread, high - values), known)


def more_than_all(one: BinCounts, other: BinCounts) -> int | None:
    """A bin that has more events than the one they should be among; None where there is none, or weights may cancel."""
    if not (one.are_counts and other.are_counts):
        return None
    bins = np.flatnonzero(one.values > other.values)
    return int(bins[0]) if len(bins) else None


COMPARISONS: dict[ComparisonKind, Callable[[BinCounts, BinCounts, CountErrors | None], Compared]] = {
    "ratio": _ratio,
    "split_ratio": _split_ratio,
    "pull": _pull,
    "difference": _difference,
    "relative_difference": _relative_difference,
    "efficiency": _efficiency,
    "asymmetry": _asymmetry,
}


# Sum up variations: how far they move each bin up and down.


@dataclass(frozen=True, eq=False)
class Envelope:
    """How far bins reach down and up from the nominal contents; both are zero or more."""

    down: Floats
    up: Floats

    def with_errors(self, errors: Floats) -> Envelope:
        """In quadrature with an uncertainty that is the same in both directions."""
        return Envelope(np.hypot(self.down, errors), np.hypot(self.up, errors))


def variations_of(histogram: object, roles: Roles) -> list[str]:
    """The variations of a histogram, the nominal one left out."""
    axes = getattr(histogram, "axes", ())
    return [] if roles.variation is None else [name for name in axes[roles.variation] if name != NOMINAL]


def envelope(nominal: Floats, varied: Mapping[str, Floats], context: DrawContext) -> Envelope | None:
    """The envelope of each group of variations (`jes_up` and `jes_down`), and all groups in quadrature; None without
    any variation. A variation without a counterpart is mirrored, as in the templates of fits."""
    if not varied:
        return None
    groups = sides_by_group(varied, context.sides).values()
    sides = [[varied[name] for name in group] for group in groups]
    sides = [[one, *(others or [mirrored(nominal, one)])] for one, *others in sides]
    moved = [[side - nominal for side in group] for group in sides]
    return Envelope(_in_quadrature(moved, -1.0), _in_quadrature(moved, 1.0))


def mirrored(nominal: Floats, varied: Floats, *, least: float = 0.0) -> Floats:
    """The other side of a variation without a counterpart; not less than nothing."""
    other: Floats = np.maximum(2 * nominal - varied, least)
    return other


def _in_quadrature(groups: Iterable[list[Floats]], sign: float) -> Floats:
    furthest = [np.max([sign * moved for moved in group], axis=0) for group in groups]
    total: Floats = np.sqrt(np.sum([np.square(np.maximum(moved, 0.0)) for moved in furthest], axis=0))
    return total
