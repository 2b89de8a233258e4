"""Lower an expression to typed values. numpy itself says of which type each step is, by computing a sample of it.

What cannot be lowered is refused with the reason: `obstacle_in` says it of the text alone, here types count too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from cenote.analysis.compiled.sample_types import (
    CHOICES,
    COMBINED,
    LENGTHS,
    POSITIONS,
    REDUCTIONS,
    cast_to,
    checked,
    evaluated,
    function_of,
    is_one_element,
    names_of,
    obstacle_in,
    type_of,
)
from cenote.analysis.compiled.values import (
    BOOL,
    FLOAT64,
    INT64,
    Base,
    ChosenBy,
    Combined,
    Constant,
    Counted,
    Crossed,
    DType,
    Gathered,
    Instruction,
    IsThere,
    Joined,
    Lowered,
    Masked,
    MemberOf,
    NotCompiledError,
    Nth,
    Numpy,
    Ordinal,
    Reduced,
    Scalar,
    Smallest,
    Space,
    Taken,
    Value,
    Values,
)
from cenote.analysis.expressions.functions import PER_VALUE
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.expressions.tree import Binary, Call, Comparison, Mask, Name, Node, Number, Pick, Unary, children
from cenote.analysis.expressions.whole_numbers import as_type
from cenote.common.values import dataclass

_ARITHMETIC = frozenset("+-*/")
_BITS = {"&": "and", "|": "or", "^": "xor"}
_NATIVE = frozenset({"sqrt", "abs", "fabs", "floor", "ceil", "isnan", "isinf", "isfinite"})
"""Functions that are exact, so that everybody's last bit is the same."""
_DEEPEST = 200
"""Steps from a value to the columns that it comes from; no person writes more."""


@dataclass
class Lowering:
    """Lowers expressions whose names `lookup` knows: columns as values, constants and facts as numbers."""

    values: Values
    lookup: Callable[[str], Lowered]

    def text(self, text: str) -> Lowered:
        """The value of an expression."""
        if (obstacle := obstacle_in(text)) is not None:
            raise NotCompiledError(obstacle)
        try:
            return self.tree(expression(text).tree)
        except EvaluationError as problem:
            raise NotCompiledError(str(problem)) from None

    def tree(self, node: Node, depth: int = 0) -> Lowered:
        """The value of a part of an expression."""
        if depth > _DEEPEST:
            raise NotCompiledError("an expression is nested too deeply")
        parts = [self.tree(child, depth + 1) for child in children(node)]
        match node:
            case Number():
                return node.value
            case Name():
                return self.lookup(node.name)
            case Unary():
                return self._unary(node.sign, parts[0])
            case Binary():
                return self.binary(node.sign, *parts)
            case Comparison():
                signs = [sign for sign, _ in node.rest]
                pairs = zip(signs, parts, parts[1:], strict=False)
                return self._all([self._compared(sign, left, right) for sign, left, right in pairs])
            case Call():
                return self.call(node.function, parts, dict(node.options))
            case Pick():
                return self._nth(parts[0], _position(node), None)
            case Mask():
                return self._masked(*parts)
        raise NotCompiledError("text is compared")

    def _of_numbers(self, tree: Node, *numbers: Lowered) -> Lowered:
        """What numbers give: one of numpy's has a type, which one of Python's takes from what stands beside it."""
        found = evaluated(tree, names_of(tree), *numbers)
        if isinstance(found, np.float64):  # which is a float too
            return self.values.constant(found.item(), FLOAT64)
        if not isinstance(found, bool | int | float):  # single numbers of other types have rules of their own
            raise NotCompiledError("a constant is of an unusual type")
        return found

    # value by value

    def _unary(self, sign: str, operand: Lowered) -> Lowered:
        if isinstance(operand, bool | int | float):
            return self._of_numbers(Unary(sign, Name("a", 0)), operand)
        found = type_of(Unary(sign, Name("a", 0)), operand)
        if sign == "not" or found == BOOL:
            return self._applied("not", [self.values.truth(operand)], BOOL)
        value = self.values.cast(operand, found)
        return value if sign == "+" else self._applied({"-": "negative", "~": "invert"}[sign], [value], found)

    def binary(self, sign: str, left: Lowered, right: Lowered) -> Lowered:
        """Two values joined by a sign."""
        tree = Binary(sign, Name("a", 0), Name("b", 0))
        if not isinstance(left, Value) and not isinstance(right, Value):
            return self._of_numbers(tree, left, right)
        found = type_of(tree, left, right)
        if sign in ("and", "or"):
            return self._applied(sign, [self.values.truth(left), self.values.truth(right)], BOOL)
        if sign in _BITS or (sign == "*" and found == BOOL):
            both = [self.values.cast(left, found), self.values.cast(right, found)]
            return self._applied(_BITS.get(sign, "and"), both, found)
        if sign in _ARITHMETIC:
            return self._applied(sign, [self.values.cast(left, found), self.values.cast(right, found)], found)
        if sign == "**" and not isinstance(right, Value) and right == 2:
            value = self.values.cast(left, found)
            return self._applied("*", [value, value], found)
        return self.by_numpy(function_of(tree), [left, right], found)

    def _compared(self, sign: str, left: Lowered, right: Lowered) -> Lowered:
        tree = Comparison(Name("a", 0), ((sign, Name("b", 0)),))
        if not isinstance(left, Value) and not isinstance(right, Value):
            return self._of_numbers(tree, left, right)
        type_of(tree, left, right)  # refuses what cannot be compared
        common = np.result_type(*(side.dtype if isinstance(side, Value) else side for side in (left, right)))
        if common.kind in "iu":  # numbers that the column's own type cannot hold are compared exactly too
            common = INT64
        return self._applied(sign, [self.values.cast(left, common), self.values.cast(right, common)], BOOL)

    def _all(self, conditions: list[Lowered]) -> Lowered:
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.binary("and", result, condition)
        return result

    def call(self, function: str, arguments: Sequence[Lowered], options: dict[str, Any]) -> Lowered:
        """A function of the table. Any: options are what the function says."""
        if function in REDUCTIONS:
            return self.reduced(function, arguments[0])
        if function in LENGTHS:
            return self.values.make(Reduced, "count", _elements_of(arguments[0], function), None, INT64)
        if function in ("nth", *POSITIONS):
            return self._element(function, list(arguments), options)
        if function in COMBINED:
            return self._member(function, *arguments)
        if function == "cross":
            return self._crossed(*arguments)
        if function == "concat":
            return self._joined(arguments)
        if function == "nearest_deltar":
            return self._nearest(arguments)
        if function == "position":
            return self.values.make(Ordinal, _elements_of(arguments[0], function))
        if function in CHOICES:
            return self._chosen(function, *arguments, default=options.get("default"))
        if function not in PER_VALUE or (function in ("min", "max") and len(arguments) == 1):
            raise NotCompiledError(f"{function}(…) is used")
        tree = Call(function, tuple(Name(f"{n:03}", 0) for n in range(len(arguments))), tuple(options.items()))
        if not any(isinstance(argument, Value) for argument in arguments):
            return self._of_numbers(tree, *arguments)
        if function == "where":
            self._demand_choice(arguments)
        if (written := self._written_out(function, arguments)) is not None:
            return written
        found = type_of(tree, *arguments, lists=function in ("where", "round"))  # which awkward has its own of
        if function == "where":
            condition, chosen, other = arguments
            both = [self.values.cast(chosen, found), self.values.cast(other, found)]
            return self._applied("where", [self.values.truth(condition), *both], found)
        if function in _NATIVE and isinstance(arguments[0], Value) and arguments[0].dtype.kind == "f":
            return self._applied("abs" if function == "fabs" else function, [arguments[0]], found)
        return self.by_numpy(function_of(tree), arguments, found)

    def _demand_choice(self, arguments: Sequence[Lowered]) -> None:
        """Where events choose, awkward takes whole lists: of single values beside lists it makes something odd."""
        lists = [isinstance(one, Value) and one.space is not None for one in arguments]
        if (
            not isinstance(arguments[0], Value)
            or isinstance(arguments[0], Constant)
            or (not lists[0] and lists[1] != lists[2])
        ):
            raise NotCompiledError("where(…) chooses between lists and single values")

    def _written_out(self, function: str, arguments: Sequence[Lowered]) -> Lowered | None:
        """Functions that are a few exact steps, so that no array of every pair or triple is needed for numpy."""
        if any(isinstance(one, Value) and one.dtype.kind != "f" for one in arguments):
            return None
        if function in ("min", "max", "minimum", "maximum"):
            sign = "maximum" if function.startswith("max") else "minimum"
            return reduce(lambda one, other: self._larger(sign, one, other), arguments)
        doubles = [self.values.cast(one, FLOAT64) for one in arguments]
        if function in ("deltaphi", "deltar"):
            return self._delta_phi(*doubles) if function == "deltaphi" else self._delta_r(*doubles)
        if function == "mass":
            x, y, z, energy = doubles
            momentum = self.call("sqrt", [self._sum([self.binary("**", one, 2) for one in (x, y, z)])], {})
            square = self.binary("*", self.binary("-", energy, momentum), self.binary("+", energy, momentum))
            return self.call("sqrt", [self._larger("maximum", square, 0)], {})
        return None

    def _delta_phi(self, phi: Lowered, other: Lowered) -> Lowered:
        difference = self.binary("-", phi, other)
        turns = self.call("floor", [self.binary("/", self.binary("+", difference, math.pi), 2 * math.pi)], {})
        return self._larger("maximum", self.binary("-", difference, self.binary("*", turns, 2 * math.pi)), -math.pi)

    def _delta_r(self, eta: Lowered, phi: Lowered, other_eta: Lowered, other_phi: Lowered) -> Lowered:
        parts = [self.binary("-", eta, other_eta), self._delta_phi(phi, other_phi)]
        return self.call("sqrt", [self._sum([self.binary("**", part, 2) for part in parts])], {})

    def _sum(self, values: Sequence[Lowered]) -> Lowered:
        return reduce(lambda one, other: self.binary("+", one, other), values)

    def _larger(self, sign: str, one: Lowered, other: Lowered) -> Lowered:
        """Of fractions; of two zeros the second, as numpy's instructions do on every length of array."""
        tree = Call(sign, (Name("a", 0), Name("b", 0)), ())
        if not isinstance(one, Value) and not isinstance(other, Value):
            return self._of_numbers(tree, one, other)
        found = type_of(tree, one, other)
        return self._applied(sign, [self.values.cast(one, found), self.values.cast(other, found)], found)

    def by_numpy(self, apply: Callable[..., Any], arguments: Sequence[Lowered], found: DType) -> Value:
        """What numpy computes, value by value: `apply` takes arrays. Any: arrays."""
        space = self._common([argument for argument in arguments if isinstance(argument, Value)])
        return self.values.make(Numpy, apply, tuple(arguments), found, space)

    def as_type(self, value: Lowered, dtype: DType) -> Lowered:
        """Cast as settings ask for; where values may not fit into whole numbers, numpy's code looks."""
        if not isinstance(value, Value):
            return self._constant_as(value, checked(dtype))
        if dtype.kind in "iu" and not np.can_cast(value.dtype, dtype):
            return self.by_numpy(cast_to(dtype), [value], checked(dtype))
        return self.values.cast(value, checked(dtype))

    def _constant_as(self, number: Scalar, dtype: DType) -> Value:
        try:
            return self.values.constant(as_type(number, dtype).item(), dtype)
        except EvaluationError:
            raise NotCompiledError(f"{number} is not a number of type {dtype}") from None

    def _applied(self, sign: str, arguments: Sequence[Value], found: DType) -> Value:
        return self.values.make(Instruction, sign, tuple(arguments), found, self._common(arguments))

    def _common(self, arguments: Sequence[Value]) -> Space | None:
        """The space of several values: one per event stands for all elements of the event."""
        spaces = [argument.space for argument in arguments if argument.space is not None]
        for space in spaces[1:]:
            self.unite(spaces[0], space)
        return spaces[0] if spaces else None

    def unite(self, one: Space, other: Space) -> None:
        """Both have to have the same elements in every event."""
        if isinstance(one, Base) and isinstance(other, Base):
            self.values.unite(one, other)
            return
        match one, other:
            case (Masked(), Masked()) if one.condition is other.condition:
                self.unite(one.parent, other.parent)
            case (Combined(), Combined()) if one.size == other.size:
                self.unite(one.parent, other.parent)
            case (Crossed(), Crossed()):
                self.unite(one.first, other.first)
                self.unite(one.second, other.second)
            case (Joined(), Joined()) if len(one.parents) == len(other.parents):
                for parent, another in zip(one.parents, other.parents, strict=True):
                    self.unite(parent, another)
            case _ if one is not other:
                raise NotCompiledError("lists of different selections are joined")

    # over elements

    def reduced(self, kind: str, value: Lowered) -> Value:
        """One value per event out of its elements."""
        space = _elements_of(value, kind)
        assert isinstance(value, Value), "numbers have no elements"
        found = type_of(Call(kind, (Name("a", 0),), ()), value, lists=True)
        return self.values.make(Reduced, kind, space, None if kind == "count" else value, found)

    def _element(self, function: str, arguments: list[Lowered], options: dict[str, Any]) -> Value:
        value = arguments.pop(0)
        position = arguments.pop(0) if function == "nth" else POSITIONS[function]
        default = options.get("default", arguments[0] if arguments else 0.0)
        if not isinstance(position, int) or isinstance(default, Value):
            raise NotCompiledError(f"{function}(…) has a position or a default that varies")
        return self._nth(value, position, default)

    def _nth(self, value: Lowered, position: int, default: Lowered | None) -> Value:
        space = _elements_of(value, "x[:, i]")
        assert isinstance(value, Value), "numbers have no elements"
        if not isinstance(space.parent if isinstance(space, Masked) else space, Counted):
            raise NotCompiledError("one of the pairs is picked, or of elements that were selected twice")
        if isinstance(space, Masked) and position < 0:
            raise NotCompiledError("elements are counted from the end of a selection")
        if default is None:
            return self.values.make(Nth, value, position, None, value.dtype)
        found = type_of(_nth_tree(position), value, default, lists=True)
        return self.values.make(Nth, self.values.cast(value, found), position, self.values.cast(default, found), found)

    def _member(self, function: str, value: Lowered, number: Lowered) -> Value:
        """Of every pair or triple, the member with a number."""
        space, size = _elements_of(value, function), COMBINED[function]
        if not isinstance(space, Counted) or not isinstance(value, Value):
            raise NotCompiledError(f"{function}(…) of elements that were selected")
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < size:
            raise NotCompiledError(f"{function}(…) needs the number of a member")
        return self.values.make(MemberOf, value, self.values.make(Combined, space, size), number, value.dtype)

    def _crossed(self, value: Lowered, other: Lowered, number: Lowered) -> Value:
        """Of every element with every element of another list, the first or the second."""
        first, second = _elements_of(value, "cross"), _elements_of(other, "cross")
        if not isinstance(first, Counted) or not isinstance(second, Counted):
            raise NotCompiledError("cross(…) of elements that were selected")
        if not isinstance(number, int) or isinstance(number, bool) or number not in (0, 1):
            raise NotCompiledError("cross(…) needs the number of a member")
        chosen = (value, other)[number]
        assert isinstance(chosen, Value), "numbers have no elements"
        return self.values.make(MemberOf, chosen, self.values.make(Crossed, first, second), number, chosen.dtype)

    def _joined(self, arguments: Sequence[Lowered]) -> Value:
        """The elements of several lists, one list after the other."""
        spaces = tuple(_elements_of(argument, "concat") for argument in arguments)
        tree = Call("concat", tuple(Name(f"{n:03}", 0) for n in range(len(arguments))), ())
        found = type_of(tree, *arguments, lists=True)
        parts = tuple(self.values.cast(argument, found) for argument in arguments)
        return self.values.make(Gathered, parts, self.values.make(Joined, spaces), found)

    def _nearest(self, arguments: Sequence[Lowered]) -> Value:
        """For each object the distance to the nearest one of another list."""
        eta, phi, other_eta, other_phi = (self.values.cast(argument, FLOAT64) for argument in arguments)
        for one, other in ((eta, phi), (other_eta, other_phi)):
            self.unite(_elements_of(one, "nearest_deltar"), _elements_of(other, "nearest_deltar"))
        first = [self._crossed(one, other_eta, 0) for one in (eta, phi)]
        second = [self._crossed(eta, one, 1) for one in (other_eta, other_phi)]
        apart = self._delta_r(*first, *second)
        assert isinstance(apart, Value), "lists give lists"
        assert isinstance(apart.space, Crossed), "of every pair"
        return self.values.make(Smallest, apart, apart.space, apart.space.first)

    def _chosen(self, function: str, value: Lowered, key: Lowered, *, default: Scalar | None) -> Value:
        """The element whose key is the smallest or the largest."""
        if function == "closest":
            if any(isinstance(one, Value) and one.dtype.kind != "f" for one in (value, key)):
                raise NotCompiledError("closest(…) of whole numbers")
            key = self.call("abs", [self.binary("-", value, key)], {})
        self.unite(_elements_of(value, function), _elements_of(key, function))
        if default is None or not isinstance(value, Value) or not isinstance(key, Value) or key.dtype == BOOL:
            raise NotCompiledError(f"{function}(…) may be missing, or its keys are not numbers")
        tree = Call("min_by", (Name("a", 0), Name("b", 0)), (("default", default),))
        found = type_of(tree, value, key, lists=True)
        both = self.values.cast(value, found), key, self.values.cast(default, found)
        return self.values.make(ChosenBy, *both, function == "max_by", found)

    def is_there(self, space: Space, position: int) -> Value:
        """Whether an event has that many elements."""
        return self.values.make(IsThere, space, position)

    def _masked(self, value: Lowered, condition: Lowered) -> Value:
        self.unite(_elements_of(value, "x[…]"), _elements_of(condition, "x[…]"))
        assert isinstance(value, Value), "numbers have no elements"
        assert isinstance(condition, Value), "numbers have no elements"
        if condition.dtype != BOOL:
            raise NotCompiledError("elements are picked by numbers")
        return self.taken(value, self.values.make(Masked, condition.space, condition))

    def taken(self, value: Value, space: Any) -> Value:
        """A value of the elements that a space has. Any: of Masked and Picked."""
        return self.values.make(Taken, value, space, value.dtype)


def _position(node: Pick) -> int:
    if not is_one_element(node) or not isinstance(node.positions[1], int):
        raise NotCompiledError("elements are picked by a range")
    return node.positions[1]


def _nth_tree(position: int) -> Node:
    return Call("nth", (Name("a", 0), Number(position), Name("b", 0)), ())


def _elements_of(value: Lowered, function: str) -> Space:
    if not isinstance(value, Value) or value.space is None:
        raise NotCompiledError(f"{function} needs a list per event")
    return value.space
