"""The operations of this benchmark: the first leaves events for the second, which runs in another pool."""

import time
from collections.abc import Mapping

import numpy as np

from cenote import Events, operation

Columns = Mapping[str, np.ndarray]


@operation("custom.first", reads=["x"], adds=["y"])
def first(events: Events, *, seconds: float = 0.0) -> Columns:
    """A column that has to travel."""
    time.sleep(seconds)
    return {"y": np.sqrt(np.asarray(events["x"], dtype="f8")) * 0.1}


@operation("custom.second", reads=["y"], adds=["z"])
def second(events: Events, *, seconds: float = 0.0) -> Columns:
    """A column that only this pool can make."""
    time.sleep(seconds)
    return {"z": np.sin(events["y"])}
