"""This file keeps whole numbers from wrapping: what it gives computes with 64 bits, and signed where that matters.

Fractions need no care, and beside a fraction whole numbers become fractions: all of them pass through unchanged.
"""

from __future__ import annotations

import awkward as ak
import numpy as np
from numpy.typing import DTypeLike

from cenote.expressions.arrays import Column, is_array, leaf_type
from cenote.expressions.problems import EvaluationError

_WHOLE = "biu"
"""numpy's letters for conditions, signed and unsigned whole numbers."""
_UNSIGNED = np.dtype(np.uint64)
_TOO_LARGE = 2**63
_ALL_BITS = 2**64 - 1


def wide(*operands: Column, signed: bool = False) -> tuple[Column, ...]:
    """The operands of arithmetic. `signed`: what comes out may be negative though no operand is (a difference)."""
    types = [_whole_type(operand) for operand in operands]
    if None in types or not any(map(is_array, operands)):
        return operands
    unsigned = not signed and _UNSIGNED in types and all(map(_never_negative, operands))
    return tuple(_converted(operand, np.uint64 if unsigned else np.int64) for operand in operands)


def alike(*choices: Column) -> tuple[Column, ...]:
    """Values of which some will be chosen: conditions stay conditions, anything mixed gets the type of arithmetic."""
    types = {_whole_type(choice) for choice in choices}
    return choices if len(types) == 1 else wide(*choices)


def comparable(*sides: Column) -> tuple[Column, ...]:
    """What can be compared exactly: awkward refuses a Python number that the type of the column cannot hold."""
    if not any(isinstance(side, ak.Array) for side in sides) or None in map(_whole_type, sides):
        return sides
    return tuple(side if is_array(side) else _typed(int(side)) for side in sides)


def bits(*operands: Column) -> tuple[Column, ...]:
    """Patterns of 64 bits; conditions stay what they are."""
    types = [_whole_type(operand) for operand in operands]
    if None in types or not any(map(is_array, operands)) or all(kind == np.bool_ for kind in types):
        return operands
    if _UNSIGNED not in types:
        return tuple(_converted(operand, np.int64) for operand in operands)
    return tuple(_cast(o, np.uint64) if is_array(o) else np.uint64(int(o) & _ALL_BITS) for o in operands)


def are_conditions(*operands: Column) -> bool:
    """Whether all of them are true or false."""
    return all(_whole_type(operand) == np.bool_ for operand in operands)


def _whole_type(value: Column) -> np.dtype[np.generic] | None:
    """None for what is no whole number and no condition."""
    kind = np.dtype(type(value)) if isinstance(value, bool | int) else leaf_type(value)
    return kind if kind is not None and kind.kind in _WHOLE else None


def _never_negative(value: Column) -> bool:
    if isinstance(value, int):
        return value >= 0
    kind = leaf_type(value)
    return kind is not None and kind.kind in "bu"


def _typed(number: int) -> np.int64 | np.uint64:
    return np.int64(number) if number < _TOO_LARGE else np.uint64(number)


def _converted(value: Column, kind: type[np.int64 | np.uint64]) -> Column:
    """Python's numbers take the type of what stands beside them."""
    if not is_array(value):
        return int(value)
    if kind is np.int64 and leaf_type(value) == _UNSIGNED and _largest(value) >= _TOO_LARGE:
        raise EvaluationError(
            "a column holds whole numbers of 2**63 and more, which have no signed number of 64 bits; "
            "multiply it by 1.0 to compute with fractions"
        )
    return _cast(value, kind)


def _cast(value: Column, kind: DTypeLike) -> Column:
    if leaf_type(value) == kind:
        return value
    return ak.values_astype(value, kind) if isinstance(value, ak.Array) else value.astype(kind)


def _largest(value: Column) -> int:
    largest = ak.max(value, axis=None) if isinstance(value, ak.Array) else value.max(initial=0)
    return 0 if largest is None else int(largest)
