"""Operations of this benchmark: they sleep, and hand on a column of a given size."""

import time
from functools import lru_cache
from typing import Any

import awkward as ak
import numpy as np

from cenote import Events, operation


def _load(events: Events, megabytes: float) -> Any:
    """A column of so many bytes in all."""
    return _made(len(events), max(1, int(megabytes * 1_000_000 / 8 / max(1, len(events)))))


@lru_cache(maxsize=1)
def _made(events: int, size: int) -> Any:
    """Made once per worker: moving it is what is measured, not making it."""
    values = np.arange(size * events, dtype=np.float64)
    return values if size == 1 else ak.Array(ak.contents.RegularArray(ak.contents.NumpyArray(values), size))


@operation("custom.first", reads=["x"], adds=["one"])
def first(events: Events, *, seconds: float, megabytes: float = 0.0) -> dict[str, Any]:
    """Sleep and make a column."""
    time.sleep(seconds)
    return {"one": _load(events, megabytes)}


@operation("custom.second", reads=["one"], adds=["two"])
def second(events: Events, *, seconds: float, megabytes: float = 0.0) -> dict[str, Any]:
    """Sleep and make another."""
    time.sleep(seconds)
    return {"two": _load(events, megabytes)}


@operation("custom.third", reads=["two"], product="count", merge=sum)
def third(events: Events, *, seconds: float) -> int:
    """Sleep and count."""
    time.sleep(seconds)
    return len(events["two"])
