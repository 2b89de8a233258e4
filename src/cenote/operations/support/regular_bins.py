"""Find the bins of equal width that values belong to: a value that equals an edge belongs to the bin that begins there.

boost-histogram multiplies and rounds down, which puts 29 into bin 28 of 100 bins from 0 to 100. Here the multiplication
is only a guess, corrected by the edges themselves; compiled stages do the same (`compiled/emit.py`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROUNDINGS_PER_BIN = 4
_AT_ONCE = 16_384
"""Values whose bins are found together: what is computed on the way stays in the processor's cache."""


@lru_cache(maxsize=256)
def regular_edges(count: int, low: float, high: float) -> NDArray[np.float64]:
    """Where the bins begin, and where the last ends: `low + i * (high - low) / count`, computed exactly from the limits
    as they are written and rounded once, to the nearest number of double precision.

    0.1 means a tenth, not the number of double precision beside it: else 0.3 would not be an edge of ten bins from 0.1
    to 1.1, nor 0 one of a hundred from -0.7 to 0.3.
    """
    written = [Fraction(repr(float(limit))) for limit in (low, high)]
    bottom = math.lcm(*(limit.denominator for limit in written))
    start, stop = (limit.numerator * (bottom // limit.denominator) for limit in written)
    exact = ((start * (count - i) + stop * i, count * bottom) for i in range(count + 1))
    edges = np.fromiter((top / below for top, below in exact), np.float64, count + 1)  # Python rounds once
    edges.flags.writeable = False
    return edges


def guess_is_near(count: int, low: float, high: float) -> bool:
    """Whether `(x - low) * (count / (high - low))` misses the bin of x by one at most: so it is where bins are much
    wider than the roundings of their edges."""
    width, largest = high - low, max(abs(low), abs(high))
    usable = math.isfinite(width) and math.isfinite(count / width)
    return usable and width / count >= _ROUNDINGS_PER_BIN * math.ulp(largest)


def regular_places(
    values: Any, count: int, low: float, high: float, *, overflow: bool
) -> NDArray[np.int32]:  # Any: numbers of any type, or one
    """The bin of each value: -1 below the first, `count` above the last and for NaN. Without overflow, the upper edge
    belongs to the last bin."""
    numbers, edges = np.asarray(values, dtype=np.float64), regular_edges(count, low, high)
    places = np.empty(numbers.shape, dtype=np.int32)
    near = guess_is_near(count, low, high)
    flat, found = numbers.reshape(-1), places.reshape(-1)
    for start in range(0, flat.size, _AT_ONCE):
        x = flat[start : start + _AT_ONCE]
        place = _corrected(x, edges, count / (high - low)) if near else np.searchsorted(edges, x, side="right") - 1
        if not overflow:
            place[x == high] = count - 1
        found[start : start + _AT_ONCE] = place
    return places


def _corrected(x: NDArray[np.float64], edges: NDArray[np.float64], scale: float) -> NDArray[np.int32]:
    with np.errstate(invalid="ignore", over="ignore"):  # infinity
        guess = x - edges[0]
        guess *= scale
    np.fmin(guess, len(edges) - 2, out=guess)  # NaN becomes the last bin, and is below none of its edges
    np.fmax(guess, 0, out=guess)
    begin = guess.astype(np.int32)
    place: NDArray[np.int32] = begin + np.int32(1)
    below_end = x < edges.take(place, mode="clip")
    place -= below_end
    place -= x < edges.take(begin, mode="clip")
    return place
