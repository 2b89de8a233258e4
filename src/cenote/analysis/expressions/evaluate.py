"""Compute an expression's tree on columns: numpy for flat columns, awkward where there are lists."""

from __future__ import annotations

import operator
from collections.abc import Callable
from ctypes import ArgumentError
from typing import Any

import numpy as np

from cenote.analysis.expressions.arrays import (
    DIFFERENT_LENGTHS,
    Column,
    Lists,
    aligned,
    common_counts,
    dimensions,
    is_array,
    leaf_kind,
    lists_of,
    plain,
)
from cenote.analysis.expressions.combinations import elements_at, kept_combinations
from cenote.analysis.expressions.functions import JOINED, function_named, power
from cenote.analysis.expressions.problems import EvaluationError, UnfitTypesError
from cenote.analysis.expressions.tree import Binary, Call, Comparison, Mask, Name, Node, Number, Pick, Text, Unary
from cenote.analysis.expressions.whole_numbers import (
    are_conditions,
    bits,
    both,
    comparable,
    either,
    exact,
    fitting,
    fulfilled_by_elements,
    may_be_missing,
    size_of,
    some,
    wide,
)
from cenote.common.arrays import ak

Lookup = Callable[[str], Column]
"""Gives the column (or constant) of a name."""
_REFUSALS = (
    *(ValueError, TypeError, IndexError, ArithmeticError, RuntimeError, AssertionError, AttributeError),
    ArgumentError,
)
"""What numpy and awkward (2.9) raise for values that do not go together: no class of their own tells it."""
_TEXTS = frozenset("USTO")
"""numpy's letters for what may be text."""


def _arithmetic(apply: Callable[[Any, Any], Any], *, signed: bool = False) -> Callable[[Column, Column], Column]:
    """Of numbers; conditions count as 0 and 1. `signed`: of unsigned numbers too the result may be negative."""
    return lambda left, right: exact(apply, left, right, signed=signed)


def _divided(apply: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    """Whole numbers have no infinity and no NaN: what is divided by zero is missing, where numpy says 0."""

    def divided(left: Column, right: Column) -> Column:
        left, right = wide(left, right)
        if leaf_kind(left) not in "iu" or leaf_kind(right) not in "iu":
            return apply(left, right)
        if not is_array(right):
            if right == 0:
                raise EvaluationError("whole numbers are divided by zero")
            return exact(apply, left, right)
        safe = right + (right == 0)
        found = exact(apply, left, safe)
        there = (safe == right) & (found == found)  # repeated for every element
        return ak.mask(found, ak.fill_none(there, False, axis=-1))

    return divided


def _times(left: Column, right: Column) -> Column:
    """The product of two conditions is 1 where both hold: a condition again, which a selection may be."""
    return operator.mul(left, right) if are_conditions(left, right) else exact(operator.mul, left, right)


def _bitwise(
    sign: str, apply: Callable[[Any, Any], Any], of_conditions: Callable[[Any, Any], Any]
) -> Callable[[Column, Column], Column]:
    """Of two conditions or of two whole numbers; a mixture is nearly always a forgotten pair of parentheses."""

    def joined(left: Column, right: Column) -> Column:
        kinds = {leaf_kind(left), leaf_kind(right)} - {"?"}
        if len(kinds) > 1 and "b" in kinds:
            raise UnfitTypesError(
                f"'{sign}' joins a condition with numbers; write (flags {sign} 4) != 0 for a bit test, "
                f"x != 0 for a flag stored as a number"
            )
        _demand_whole(kinds, sign)
        if kinds != {"b"}:
            return apply(*bits(left, right))
        return (of_conditions if may_be_missing(left) or may_be_missing(right) else apply)(left, right)

    return joined


def _demand_whole(kinds: set[str], sign: str) -> None:
    if "f" in kinds:
        raise UnfitTypesError(f"'{sign}' takes conditions or the bits of whole numbers, and here are fractions")


def _shift(sign: str, apply: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    def shifted(left: Column, right: Column) -> Column:
        _demand_whole({leaf_kind(left), leaf_kind(right)}, sign)
        if isinstance(right, int) and not 0 <= right < 64:
            raise EvaluationError(f"cannot shift by {right} bits")
        if is_array(right) and some(right < 0):
            raise EvaluationError("cannot shift by a negative number of bits")
        found = apply(*wide(left, right))
        if apply is operator.rshift or (isinstance(right, int) and size_of(left) << right < 2**63):
            return found
        return fitting(found, lambda: left * 2.0**right)

    return shifted


def _inverted(value: Column) -> Column:
    if leaf_kind(value) in "b?":
        return np.logical_not(value)
    (number,) = wide(value)
    return ~number


def _negative(value: Column) -> Column:
    return exact(operator.neg, value, signed=True)


def _positive(value: Column) -> Column:
    (number,) = wide(value)
    return +number


def _comparison(apply: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    """Of numbers with numbers, or of texts with texts: a number and a text are never equal, which nobody asks for."""

    def compared(left: Column, right: Column) -> Column:
        kinds = {leaf_kind(left), leaf_kind(right)} - {"?"}
        if len(kinds) > 1 and not kinds.isdisjoint(_TEXTS):
            raise UnfitTypesError("numbers are compared with text: leave the quotes out where a number is meant")
        return apply(*comparable(left, right))

    return compared


_BINARY: dict[str, Callable[[Column, Column], Column]] = {
    "+": _arithmetic(operator.add),
    "-": _arithmetic(operator.sub, signed=True),
    "*": _times,
    "/": operator.truediv,
    "//": _divided(operator.floordiv),
    "%": _divided(operator.mod),
    "**": power,
    "&": _bitwise("&", operator.and_, both),
    "|": _bitwise("|", operator.or_, either),
    "^": _bitwise("^", operator.xor, operator.xor),
    "<<": _shift("<<", operator.lshift),
    ">>": _shift(">>", operator.rshift),
    "and": both,
    "or": either,
}
_UNARY: dict[str, Callable[[Column], Column]] = {
    "-": _negative,
    "+": _positive,
    "~": _inverted,
    "not": np.logical_not,
}
_COMPARISONS: dict[str, Callable[[Column, Column], Column]] = {
    "<": _comparison(operator.lt),
    "<=": _comparison(operator.le),
    ">": _comparison(operator.gt),
    ">=": _comparison(operator.ge),
    "==": _comparison(operator.eq),
    "!=": _comparison(operator.ne),
}


def evaluate(tree: Node, lookup: Lookup) -> Column:
    """The value of a tree. Raises EvaluationError where the columns do not allow it."""
    with (
        kept_combinations(),
        np.errstate(all="ignore"),
    ):  # a logarithm of zero is -inf, on every worker alike, and not a warning
        try:
            return _value(tree, lookup)
        except _REFUSALS as problem:
            if isinstance(problem, EvaluationError):
                raise
            raise _refusal(problem) from problem


def _value(node: Node, lookup: Lookup) -> Column:
    match node:
        case Number() | Text():
            return node.value
        case Name():
            return plain(lookup(node.name))
        case Binary():
            return _chain(node, lookup)
        case Comparison():
            return _compared(node, lookup)
        case Unary():
            return plain(_UNARY[node.sign](_value(node.operand, lookup)))
        case Call():
            arguments = tuple(_value(argument, lookup) for argument in node.arguments)
            function = function_named(node.function)
            if function is None:
                raise EvaluationError(f"there is no function '{node.function}'")
            arguments = aligned(*arguments) if node.function in JOINED else arguments
            return plain(function.apply(*arguments, **dict(node.options)))
        case Pick():
            return _picked(_value(node.value, lookup), node.positions)
        case Mask():
            return _masked(_value(node.value, lookup), _value(node.condition, lookup))


def _chain(node: Binary, lookup: Lookup) -> Column:
    """Goes down the left side in a loop, so that a sum of a thousand terms needs no deep recursion."""
    steps: list[Binary] = []
    leftmost: Node = node
    while isinstance(leftmost, Binary):
        steps.append(leftmost)
        leftmost = leftmost.left
    value = _value(leftmost, lookup)
    for step in reversed(steps):
        value = plain(_BINARY[step.sign](*aligned(value, _value(step.right, lookup))))
    return value


def _compared(node: Comparison, lookup: Lookup) -> Column:
    left = _value(node.first, lookup)
    result: Column = None
    for sign, operand in node.rest:
        right = _value(operand, lookup)
        holds = plain(_COMPARISONS[sign](*aligned(left, right)))
        result = holds if result is None else plain(both(*aligned(result, holds)))
        left = right
    return result


def _picked(value: Column, positions: tuple[int | slice, ...]) -> Column:
    if dimensions(value) < len(positions):
        raise UnfitTypesError(f"the value has {dimensions(value)} axes, not {len(positions)}")
    try:
        return plain(value[positions])
    except IndexError as problem:
        raise EvaluationError(
            "some events have too few elements; first(x), last(x) and nth(x, i, default) allow for that"
        ) from problem


def _masked(value: Column, condition: Column) -> Column:
    numbers = leaf_kind(condition) not in "b?"
    if numbers and dimensions(condition) == 1 < dimensions(value):
        raise UnfitTypesError("x[i] takes lists of positions i; nth(x, i) gives the element at one position per event")
    if dimensions(condition) < 2 or dimensions(value) < 2:
        raise UnfitTypesError("x[condition] picks elements within events; whole events are dropped by a filter")
    if numbers:
        return elements_at(value, condition)
    there = lists_of(value)
    if dimensions(condition) == 2:
        return there.where(fulfilled_by_elements(condition, there.counts)).column()
    chosen = lists_of(condition)
    counts = common_counts([("the lists", there), ("the condition", chosen)])
    assert counts is not None, "there are lists"
    return Lists(_masked(there.content, chosen.content), counts).column()


def _refusal(problem: Exception) -> EvaluationError:
    text = str(problem)
    if "exceeds the depth of this array" in text:
        return UnfitTypesError("a function of lists stands over one value per event")
    if isinstance(problem, TypeError) and text.startswith("ufunc "):
        return UnfitTypesError("these values do not go together: text stands where numbers are needed")
    return EvaluationError(_in_words(problem))


def _in_words(problem: Exception) -> str:
    if isinstance(problem, RuntimeError) and "Unable to cast" in str(problem):
        return "a whole number is too large for 64 bits: write it with a point, as in 1e20"
    if isinstance(problem, AssertionError | AttributeError):
        return "these values do not go together: text or lists stand where numbers are needed"
    text = str(problem).strip() or type(problem).__name__
    if "cannot broadcast nested list" in text:
        return DIFFERENT_LENGTHS
    return text.splitlines()[0].partition(" (in compiled code:")[0]
