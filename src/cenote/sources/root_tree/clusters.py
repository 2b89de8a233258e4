"""Find the entries at which reading may start without decompressing anything twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHARE_OF_BYTES = 0.9
"""A boundary counts when branches with this share of the bytes have a basket that starts there."""


def boundaries(branches: Iterable[tuple[ArrayLike, int]], entries: int) -> tuple[int, ...]:
    """Entries at which (nearly) all baskets start, or else those of the largest branch.

    Of each branch: where its baskets start, the end included, and its size in bytes.
    """
    sizes: dict[bytes, int] = {}
    largest: tuple[int, bytes] = (-1, b"")
    for starts, size in branches:
        key = np.asarray(starts, np.int64).tobytes()
        sizes[key] = sizes.get(key, 0) + size  # most have the same: what is done for each is done for few
        if size > largest[0]:
            largest = (size, key)
    if not sizes or not entries:
        return (0, entries) if entries else (0,)
    alike = {key: _numbers(key) for key in sizes}
    places, which = np.unique(np.concatenate(list(alike.values())), return_inverse=True)
    weights = np.concatenate([np.full(len(starts), float(sizes[key])) for key, starts in alike.items()])
    shared = places[np.bincount(which, weights=weights) >= SHARE_OF_BYTES * sum(sizes.values())]
    if len(shared) <= 2:
        shared = alike[largest[1]]
    inner = (int(place) for place in shared if 0 < place < entries)
    return (0, *inner, entries)


def _numbers(key: bytes) -> NDArray[Any]:
    return np.unique(np.frombuffer(key, np.int64))
