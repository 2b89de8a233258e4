"""Turn conditions on objects into one boolean per element of a collection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions
from cenote.expressions.lists import ListLengths, lists_of
from cenote.expressions.problems import EvaluationError
from cenote.jagged import ak, is_awkward
from cenote.operations.support.events import Column


def element_mask(value: Column, counts: ListLengths, text: str) -> NDArray[np.bool_]:
    """A condition as one boolean per element; one per event is repeated, a missing one fulfils nothing."""
    if isinstance(value, bool | np.bool_):
        return np.full(int(counts.sum()), bool(value))
    if dimensions(value) < 2:
        return np.repeat(_booleans(value, text), counts)
    lists = lists_of(value)
    if not np.array_equal(lists.counts, counts):
        raise EvaluationError(f"'{text}' has a different number of elements than the collection")
    return _booleans(lists.content, text)


def _booleans(value: Column, text: str) -> NDArray[np.bool_]:
    plain = ak.to_numpy(ak.fill_none(value, value=False)) if is_awkward(value) else value
    if plain.dtype != np.bool_ and plain.size:
        raise EvaluationError(f"'{text}' gives numbers ({plain.dtype}), a selection needs true or false")
    return np.asarray(plain, dtype=np.bool_)
