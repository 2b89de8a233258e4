"""Keep whole numbers from wrapping, and missing values missing.

Fractions need no care, and beside a fraction whole numbers become fractions: all of them pass through unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.expressions.arrays import Column, ListLengths, is_array, leaf_kind, leaf_type, lists_of
from cenote.analysis.expressions.problems import EvaluationError
from cenote.common.arrays import ak, is_awkward

_WHOLE = "biu"
"""numpy's letters for conditions, signed and unsigned whole numbers."""
_CONDITION, _SIGNED, _UNSIGNED = "b1", "i8", "u8"
_NOT_WHOLE = ""
_TOO_LARGE = 2**63
_ALL_BITS = 2**64 - 1
_NARROW = 2**31
_LONGEST = 2**31
"""Elements that no list of an event has more of."""
_FAR = 2.0**62
"""More than a fraction can be wrong, and less than a number is that wrapped."""


def wide(*operands: Column, signed: bool = False) -> tuple[Column, ...]:
    """The operands of arithmetic. `signed`: what comes out may be negative though no operand is (a difference)."""
    kinds = [_kind(operand) for operand in operands]
    if _NOT_WHOLE in kinds or not any(map(is_array, operands)):
        return operands
    unsigned = not signed and _UNSIGNED in kinds and all(map(_never_negative, operands, kinds))
    wanted = _UNSIGNED if unsigned else _SIGNED
    return tuple(_converted(operand, kind, wanted) for operand, kind in zip(operands, kinds, strict=True))


def exact(apply: Callable[..., Column], *operands: Column, signed: bool = False, narrow_fit: bool = True) -> Column:
    """What arithmetic gives for operands that are made wide. Raises EvaluationError where 64 bits cannot hold it.

    `narrow_fit`: the result is at most twice the product of the operands, so that small ones need no second look.
    """
    found = apply(*wide(*operands, signed=signed))
    if _kind(found) not in (_SIGNED, _UNSIGNED):
        return found
    if narrow_fit and (
        all(map(_is_narrow, operands)) or 2 * math.prod(max(1, size_of(one)) for one in operands) < _TOO_LARGE
    ):
        return found
    return fitting(found, lambda: apply(*map(in_double, operands)))


def fitting(found: Column, in_fractions: Callable[[], Column]) -> Column:
    """The same result. Raises EvaluationError where whole numbers wrapped: a fraction then is about 2**64 away."""
    if not is_array(found) or _kind(found) not in (_SIGNED, _UNSIGNED):
        return found
    if some(abs(in_fractions() - in_double(found)) > _FAR):
        raise EvaluationError(
            "a whole number does not fit into 64 bits; multiply by 1.0, or write 2.0 for 2, to compute with fractions"
        )
    return found


def as_type(value: Column, dtype: np.dtype[Any]) -> Column:
    """The values as another type, also within lists; whole numbers are cut off from fractions. Raises EvaluationError
    where a type of whole numbers cannot hold one of them: numpy would wrap it, and NaN is another one on each machine.
    """
    given = value if is_awkward(value) else np.asarray(value)
    held = leaf_type(given)
    if dtype.kind in "iu" and held is not None and held.kind in "iuf" and not np.can_cast(held, dtype):
        _demand_fit(ak.to_numpy(ak.flatten(given, axis=None)) if is_awkward(given) else given, dtype)
    with np.errstate(all="ignore"):
        return ak.values_astype(given, dtype) if is_awkward(given) else given.astype(dtype, copy=False)


def _demand_fit(numbers: Any, dtype: np.dtype[Any]) -> None:  # Any: an array
    limits = np.iinfo(dtype.name)
    if numbers.dtype.kind == "f":
        whole = np.trunc(numbers.astype("f8", copy=False))
        fits = (whole >= float(limits.min)) & (whole < float(limits.max + 1))
    else:
        low, high = np.iinfo(numbers.dtype.name).min, np.iinfo(numbers.dtype.name).max
        fits = (numbers >= max(low, limits.min)) & (numbers <= min(high, limits.max))
    if not fits.all():
        raise EvaluationError(f"{numbers[~fits].reshape(-1)[0]} does not fit into {dtype.name}")


def size_of(value: Column) -> int:
    """What whole numbers of it are at most, apart from their sign; those of narrow columns need not be looked at."""
    if not is_array(value):
        return abs(int(value))
    found = leaf_type(value)
    if found is not None and found.itemsize < np.dtype(_SIGNED).itemsize:
        return int(2 ** (8 * found.itemsize - (found.kind == "i")))
    numbers = ak.to_numpy(ak.flatten(value, axis=None)) if is_awkward(value) else value
    return max(int(numbers.max()), -int(numbers.min())) if numbers.size else 0


def sum_fits(value: Column) -> bool:
    """Whether 64 bits hold the sum of any list of these whole numbers."""
    return size_of(value) * _LONGEST <= _TOO_LARGE


def some(conditions: Column) -> bool:
    """Whether any of all values, in whatever lists, is true."""
    return bool(ak.any(conditions, axis=None) if is_awkward(conditions) else conditions.any())


def _is_narrow(value: Column) -> bool:
    if isinstance(value, int):
        return abs(value) < _NARROW
    found = leaf_type(value)
    return found is not None and np.can_cast(found, np.int32)


def in_double(value: Column) -> Column:
    """As fractions."""
    return _cast(value, "f8") if is_array(value) else float(value)


def alike(*choices: Column) -> tuple[Column, ...]:
    """Values of which some will be chosen: conditions stay conditions, anything mixed gets the type of arithmetic."""
    return choices if len(set(map(_kind, choices))) == 1 else wide(*choices)


def comparable(*sides: Column) -> tuple[Column, ...]:
    """What can be compared exactly: awkward refuses a Python number that the type of the column cannot hold."""
    if not any(is_awkward(side) for side in sides) or _NOT_WHOLE in map(_kind, sides):
        return sides
    return tuple(side if is_array(side) else _typed(int(side)) for side in sides)


def bits(*operands: Column) -> tuple[Column, ...]:
    """Patterns of bits that fit each other; they cannot wrap, and so need not be wide."""
    kinds = [_kind(operand) for operand in operands]
    stored = {kind for kind, operand in zip(kinds, operands, strict=True) if is_array(operand)}
    if _NOT_WHOLE in kinds or not stored or (len(stored) == 1 and _fit(operands, *stored)):
        return operands
    if _UNSIGNED not in kinds:
        return wide(*operands)
    return tuple(_cast(o, _UNSIGNED) if is_array(o) else np.uint64(int(o) & _ALL_BITS) for o in operands)


def are_conditions(*operands: Column) -> bool:
    """Whether all of them are true or false."""
    return all(_kind(operand) == _CONDITION for operand in operands)


def _kind(value: Column) -> str:
    """`b1` for a condition, `u4` for an unsigned number of four bytes, …; empty for what is not a whole number."""
    if isinstance(value, bool):
        return _CONDITION
    if isinstance(value, int):
        return _SIGNED
    found = leaf_type(value)
    return f"{found.kind}{found.itemsize}" if found is not None and found.kind in _WHOLE else _NOT_WHOLE


def _never_negative(value: Column, kind: str) -> bool:
    return value >= 0 if isinstance(value, int) else kind[0] in "bu"


def _fit(operands: tuple[Column, ...], kind: str) -> bool:
    """Whether the numbers among the operands are within the limits of a type."""
    if kind == _CONDITION:
        return all(is_array(operand) or isinstance(operand, bool) for operand in operands)
    limits = np.iinfo(kind)
    return all(is_array(operand) or limits.min <= operand <= limits.max for operand in operands)


def _typed(number: int) -> np.int64 | np.uint64:
    return np.int64(number) if number < _TOO_LARGE else np.uint64(number)


def _converted(value: Column, kind: str, wanted: str) -> Column:
    """Python's numbers take the type of what stands beside them."""
    if not is_array(value):
        return int(value)
    if kind == wanted:
        return value
    if kind == _UNSIGNED and _largest(value) >= _TOO_LARGE:
        raise EvaluationError(
            "a column holds whole numbers of 2**63 and more, which have no signed number of 64 bits; "
            "multiply it by 1.0 to compute with fractions"
        )
    return _cast(value, wanted)


def _cast(value: Column, kind: str) -> Column:
    if is_awkward(value):
        return ak.values_astype(value, np.dtype(kind))
    return value.astype(kind, copy=False)


def _largest(value: Column) -> int:
    largest = ak.max(value, axis=None) if is_awkward(value) else value.max(initial=0)
    return 0 if largest is None else int(largest)


# Join and apply conditions that may be missing: neither true nor false, as SQL has it.
#
# A missing one decides nothing that the other decides alone, and is not fulfilled where it is applied.


def may_be_missing(value: Column) -> bool:
    """Whether its type allows for missing values, or missing lists."""
    layout = value.layout if is_awkward(value) else None
    while layout is not None and not layout.is_option:
        layout = None if layout.is_record or layout.is_union else getattr(layout, "content", None)
    return layout is not None


def nan_as_missing(values: Column) -> Column:
    """What is not a number has no size: nothing is smaller or larger than it."""
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
