"""Weights of events as numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions
from cenote.jagged import ak, is_awkward
from cenote.operations.support.evaluation import event_column
from cenote.operations.support.events import Column, Events
from cenote.text import plural


def weights_of(text: str, value: Column, events: Events) -> NDArray[np.float64]:
    """What an expression gave, as one number per event. Raises where there are lists, or none for some."""
    column = event_column(value, events, f"'{text}'")
    if dimensions(column) != 1:
        raise ValueError(f"'{text}' has a list per event: a weight is one number")
    if is_awkward(column):
        if missing := int(ak.sum(ak.is_none(column))):
            raise ValueError(
                f"'{text}' is missing for {plural(missing, 'event')}: `first(x, default=1)` would give them one"
            )
        column = ak.to_numpy(column)
    found: NDArray[np.float64] = np.asarray(column, np.float64)
    return found
