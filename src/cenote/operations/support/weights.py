"""Weights of events as numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions
from cenote.operations.support.evaluation import evaluate, event_column
from cenote.operations.support.events import Events
from cenote.operations.support.missing_values import every_value


def weights_of(text: str, events: Events) -> NDArray[np.float64]:
    """What an expression gives, as one number per event. Raises where there are lists, or none for some."""
    column = event_column(evaluate(text, events), events, f"'{text}'")
    if dimensions(column) != 1:
        raise ValueError(f"'{text}' has a list per event: a weight is one number")
    return every_value(column, f"the weight '{text}'").astype(np.float64)
