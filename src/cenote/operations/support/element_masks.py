"""Turn conditions on objects into one boolean per element of a collection."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions
from cenote.expressions.lists import ListLengths
from cenote.expressions.missing import fulfilled, fulfilled_by_elements
from cenote.expressions.problems import EvaluationError
from cenote.operations.support.events import Column


def element_mask(value: Column, counts: ListLengths, text: str) -> NDArray[np.bool_]:
    """A condition as one boolean per element; one per event is repeated, a missing one fulfils nothing."""
    if isinstance(value, bool | np.bool_):
        return np.full(int(counts.sum()), bool(value))
    if dimensions(value) < 2:
        return np.repeat(_booleans(fulfilled(value), text), counts)
    try:
        return _booleans(fulfilled_by_elements(value, counts), text)
    except EvaluationError as problem:
        raise EvaluationError(f"'{text}' cannot choose elements: {problem}") from None


def _booleans(found: NDArray[Any], text: str) -> NDArray[np.bool_]:
    if found.dtype != np.bool_ and found.size:
        raise EvaluationError(f"'{text}' gives numbers ({found.dtype}), a selection needs true or false")
    return np.asarray(found, dtype=np.bool_)
