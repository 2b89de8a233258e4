"""Compare two samples bin by bin, with uncertainties that hold for few events, for many and for weighted ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from cenote.renderers.support.bins import BinCounts, Floats
from cenote.renderers.support.intervals import binomial_interval, poisson_errors
from cenote.values import dataclass

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
