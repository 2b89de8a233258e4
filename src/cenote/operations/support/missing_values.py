"""Refuse missing values where every event needs one, in words that help; or set them aside and put them back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.missing import may_be_missing
from cenote.expressions.problems import EvaluationError
from cenote.jagged import ak, is_awkward
from cenote.operations.support.events import Column


def missing_values(what: str, missing: int, total: int, unit: str = "events") -> EvaluationError:
    """The error; `what` begins it: `column 'run'`."""
    return EvaluationError(
        f"{what} is missing for {missing:,} of {total:,} {unit}: give it a value there, as in first(x, default=0) or "
        f"fill_none(x, 0), or drop these events before"
    )


def every_value(column: Column, what: str) -> NDArray[Any]:
    """A column of one value per event as numpy's. Raises EvaluationError where values are missing."""
    if not is_awkward(column):
        return np.asarray(column)
    if may_be_missing(column) and (missing := int(ak.sum(ak.is_none(column)))):
        raise missing_values(what, missing, len(column))
    found: NDArray[Any] = np.asarray(ak.to_numpy(ak.drop_none(column)))
    return found


def there_in_all(columns: Iterable[Column]) -> NDArray[np.bool_] | None:
    """Which entries are there in all of these flat columns; None where their types allow for no missing ones."""
    masks = [~ak.to_numpy(ak.is_none(column)) for column in columns if may_be_missing(column)]
    return reduce(np.logical_and, masks) if masks else None


def only_there(column: Column, there: NDArray[np.bool_] | None) -> NDArray[Any]:
    """The entries that are there, as numpy's."""
    if there is not None:
        column = column[there]
    found: NDArray[Any] = np.asarray(ak.drop_none(column) if may_be_missing(column) else column)
    return found


def with_missing(values: NDArray[Any], there: NDArray[np.bool_] | None) -> Column:
    """Values of the entries that are there, with missing ones between them."""
    if there is None:
        return values
    index = np.where(there, np.cumsum(there) - 1, -1)
    return ak.Array(ak.contents.IndexedOptionArray(ak.index.Index64(index), ak.contents.NumpyArray(values)))
