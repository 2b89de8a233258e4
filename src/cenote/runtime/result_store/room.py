"""Decide what leaves the store: what was of no use for longest, and what fills packs that hold hardly anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.values import dataclass

_BELOW = 0.9
"""Share of the limit that is left when there is too much, so that not every run makes room."""
_HALF_EMPTY = 0.5
"""Share of a pack that must be of no use before it is written again without that."""
_SMALL = 16 << 20
_MOST_SMALL = 16
"""So many packs may be smaller than that many bytes before they become one."""
_SHORTEST = 3600.0
"""Seconds of no use that count as none."""


@dataclass(frozen=True)
class Held:
    """The results of complete packs, as arrays, one value each; those that are not to be found are not among them."""

    pack: NDArray[Any]
    """Number of the pack."""
    length: NDArray[Any]
    seconds: NDArray[Any]
    """What making it took."""
    idle: NDArray[Any]
    """Seconds since it was of use."""
    needed: NDArray[Any]
    """Whether a process that runs found it or made it."""


def leaving(
    held: Held, sizes: NDArray[Any], *, total: int, limit: int, unused_for: float | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which packs are to be written again, and which results stay there.

    `sizes` are those of the packs, `total` that of all that there is, packs that others are writing included. What was
    of no use for so many seconds leaves in any case.
    """
    own = np.zeros(len(sizes)) + np.bincount(held.pack, held.length, len(sizes))
    stays = np.ones(len(held.pack), np.bool_)
    old = np.zeros(len(held.pack), np.bool_) if unused_for is None else (held.idle >= unused_for) & ~held.needed
    excess = total - _BELOW * limit if total > limit else 0.0
    order = _least_useful_first(held)
    if excess > 0:
        low, high = 0, len(order)
        while low < high:  # the fewest that make room
            middle = (low + high) // 2
            enough = _freed(held, sizes, own, order[:middle]).sum() >= excess
            low, high = (low, middle) if enough else (middle + 1, high)
        stays[order[:low]] = False
    freed = _freed(held, sizes, own, np.flatnonzero(~stays))
    stays &= ~old
    again = freed > 0
    again[held.pack[old]] = True
    small = (sizes < _SMALL) & ~again
    if small.sum() > _MOST_SMALL:
        again |= small
    stays |= ~again[held.pack]  # where little would be won, all stay
    return again, stays


def _least_useful_first(held: Held) -> NDArray[Any]:
    """Results that may go: those of no use for longest first; of those alike, what is made again most quickly."""
    age = np.floor(np.log2(np.maximum(held.idle, _SHORTEST) / _SHORTEST))
    worth = held.seconds / np.maximum(held.length, 1)
    order = np.lexsort((worth, -age))
    found: NDArray[Any] = order[~held.needed[order]]
    return found


def _freed(held: Held, sizes: NDArray[Any], own: NDArray[Any], gone: NDArray[Any]) -> NDArray[Any]:
    """Bytes that each pack would give back: none where too much of it stays."""
    lost = np.bincount(held.pack[gone], held.length[gone], len(sizes)) + (sizes - own)
    found: NDArray[Any] = np.where(lost >= _HALF_EMPTY * np.maximum(sizes, 1), lost, 0.0)
    return found
