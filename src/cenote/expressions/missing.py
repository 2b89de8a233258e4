"""Join and apply conditions that may be missing: neither true nor false, as SQL has it.

A missing one decides nothing that the other decides alone, and is not fulfilled where it is applied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import Column, leaf_kind
from cenote.expressions.lists import ListLengths, lists_of
from cenote.expressions.problems import EvaluationError
from cenote.expressions.whole_numbers import some
from cenote.jagged import ak, is_awkward


def may_be_missing(value: Column) -> bool:
    """Whether its type allows for missing values, or missing lists."""
    layout = value.layout if is_awkward(value) else None
    while layout is not None and not layout.is_option:
        layout = None if layout.is_record or layout.is_union else getattr(layout, "content", None)
    return layout is not None


def nan_as_missing(values: Column) -> Column:
    """What is no number has no size: nothing is smaller or larger than it."""
    if leaf_kind(values) != "f" or not some(none := np.isnan(values)):
        return values
    return ak.mask(values, ~none)


def both(left: Column, right: Column) -> Column:
    """Where both hold: false where one is false, even if the other is missing."""
    return _joined(np.logical_and, left, right, decisive=False)


def either(left: Column, right: Column) -> Column:
    """Where one of them holds: true where one is true, even if the other is missing."""
    return _joined(np.logical_or, left, right, decisive=True)


def _joined(apply: Any, left: Column, right: Column, *, decisive: bool) -> Column:  # Any: a numpy ufunc
    if not may_be_missing(left) and not may_be_missing(right):
        return apply(left, right)
    one, other = _truth(left), _truth(right)
    holds = apply(_filled(one, not decisive), _filled(other, not decisive))
    return ak.mask(holds, (holds == decisive) | (_is_there(one) & _is_there(other)))


def _truth(value: Column) -> Column:
    return value if leaf_kind(value) in "b?" else value != 0


def _filled(value: Column, fill: bool) -> Column:
    return ak.fill_none(value, fill, axis=-1) if is_awkward(value) else value


def _is_there(value: Column) -> Column:
    return ~ak.is_none(value, axis=-1) if is_awkward(value) else True


def fulfilled(condition: Column) -> NDArray[Any]:
    """A flat column with false where it is missing. Any: they may be no booleans, which who asks refuses."""
    found: NDArray[Any] = ak.to_numpy(ak.fill_none(condition, value=False)) if is_awkward(condition) else condition
    return found


def fulfilled_by_elements(condition: Column, counts: ListLengths) -> NDArray[Any]:
    """One value for each element of lists of these lengths; where the whole list is missing, none fulfils it.

    Raises EvaluationError where the condition is about other lists.
    """
    lists, absent = lists_of(condition), absent_lists(condition)
    if not np.array_equal(lists.counts, counts if absent is None else np.where(absent, 0, counts)):
        raise EvaluationError("the condition has a different number of elements than the lists that it picks from")
    chosen = fulfilled(lists.content)
    if absent is None:
        return chosen
    whole = np.zeros(int(counts.sum()), np.bool_)
    whole[np.repeat(~absent, counts)] = chosen
    return whole


def absent_lists(column: Column) -> NDArray[np.bool_] | None:
    """Where the whole list of an event is missing; None where it nowhere is."""
    found: NDArray[np.bool_] | None = ak.to_numpy(ak.is_none(column, axis=0)) if may_be_missing(column) else None
    return found if found is not None and found.any() else None
