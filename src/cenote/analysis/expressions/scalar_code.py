"""Write an expression as a Python function of one value of each column, which a compiler can take over.

Every step is cast to the type that numpy computes it in, so that the results are those of the expression to the last
bit. What cannot be written so is refused with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from cenote.analysis.expressions.arrays import Column
from cenote.analysis.expressions.evaluate import evaluate
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.expressions.tree import Binary, Call, Comparison, Mask, Name, Node, Number, Pick, Text, Unary
from cenote.common.values import dataclass

ROUNDED_ELSEWHERE = {
    "exp": "math.exp", "expm1": "math.expm1", "log": "np.log", "log10": "np.log10", "log1p": "math.log1p",
    "sin": "np.sin", "cos": "np.cos", "tan": "np.tan", "arcsin": "np.arcsin", "asin": "np.arcsin",
    "arccos": "np.arccos", "acos": "np.arccos", "arctan": "np.arctan", "atan": "np.arctan", "sinh": "np.sinh",
    "cosh": "np.cosh", "tanh": "np.tanh", "arctan2": "np.arctan2", "atan2": "np.arctan2", "hypot": "np.hypot",
}  # fmt: skip
"""Functions whose last bit depends on who computes them → as Numba (0.68) takes them for a GPU."""


class NotScalarError(Exception):
    """An expression has no such function; the words say why."""


@dataclass(frozen=True)
class ScalarCode:
    """An expression as a function."""

    source: str
    """Its text: `def function(a, b): …`."""
    parameters: Mapping[str, str]
    """Parameter → column."""
    dtype: str
    """numpy's name for the type of what it returns."""
    inexact: tuple[str, ...] = ()
    """Functions in it whose last bit depends on who computes them."""

    def function(self) -> Callable[..., Any]:
        """The function; the same object for the same text."""
        return _function(self.source)


@cache
def _function(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"math": math, "np": np}
    exec(compile(source, "<expression>", "exec"), names)  # written below, from a tree of known nodes
    made: Callable[..., Any] = names["function"]
    return made


def scalar_code(text: str, types: Mapping[str, np.dtype[Any]], constants: Callable[[str], Any]) -> ScalarCode:
    """An expression over columns of these types; `constants` has the value of every other name."""
    writer = _Writer(types, constants)
    try:
        body, dtype = writer.write(expression(text).tree)
    except EvaluationError as problem:
        raise NotScalarError(str(problem)) from None
    if dtype is None or not writer.parameters:
        raise NotScalarError(f"'{text}' uses no column")
    source = f"def function({', '.join(writer.parameters.values())}):\n    return {body}\n"
    parameters = {parameter: column for column, parameter in writer.parameters.items()}
    return ScalarCode(source, parameters, dtype.name, tuple(dict.fromkeys(writer.inexact)))


Written = tuple[str, "np.dtype[Any] | None"]
"""The text of a value, and its type; None for a number of Python's, which takes the type of what stands beside it."""


@dataclass
class _Writer:
    types: Mapping[str, np.dtype[Any]]
    constants: Callable[[str], Any]
    parameters: dict[str, str] = field(default_factory=dict)
    """Column → parameter."""
    inexact: list[str] = field(default_factory=list)

    def write(self, node: Node) -> Written:
        if isinstance(node, Pick | Mask | Text):
            raise NotScalarError("lists are taken apart in it, or texts compared")
        value = self.sample(node)
        if not isinstance(value, np.ndarray):
            return _number(value), None
        match node:
            case Name():
                return self._name(node.name)
            case Unary():
                return self._unary(node)
            case Binary():
                return self._binary(node)
            case Comparison():
                return self._comparison(node)
            case Call():
                return self._call(node)
        raise AssertionError(f"a value of {node} that is not a number")

    def _name(self, name: str) -> Written:
        if self.types[name].kind not in "biuf" or self.types[name].str[1:] in ("u8", "f2"):
            raise NotScalarError(f"column '{name}' has values of type {self.types[name]}")
        return self.parameters.setdefault(name, f"x{len(self.parameters)}"), self.types[name]

    def sample(self, node: Node) -> Column:
        """What numpy gives for it: an array of one value, or a number of Python's where it uses no column."""
        return evaluate(node, lambda name: np.ones(1, self.types[name]) if name in self.types else self.constants(name))

    def type_of(self, node: Node) -> np.dtype[Any]:
        """What numpy computes it in."""
        found: np.dtype[Any] = self.sample(node).dtype
        return found

    def _unary(self, node: Unary) -> Written:
        operand, dtype = self.write(node.operand)
        if node.sign == "not" or (node.sign == "~" and dtype == np.bool_):
            return f"(not {_truth(operand, dtype)})", np.dtype(np.bool_)
        if node.sign == "~":
            raise NotScalarError("it inverts bits")
        found = self.type_of(node)
        return f"({node.sign}{_as(operand, found)})", found

    def _binary(self, node: Binary) -> Written:
        (left, left_type), (right, right_type) = self.write(node.left), self.write(node.right)
        found = self.type_of(node)
        sign = {"&&": "and", "||": "or"}.get(node.sign, node.sign)
        conditions = left_type == right_type == np.bool_
        if sign in ("and", "or"):
            return f"({_truth(left, left_type)} {sign} {_truth(right, right_type)})", np.dtype(np.bool_)
        if conditions and sign in "&|^*":
            joint = {"&": "and", "*": "and", "|": "or", "^": "!="}[sign]
            return f"({left} {joint} {right})", np.dtype(np.bool_)
        if sign == "**":
            return self._power(node, left, found)
        if sign not in ("+", "-", "*", "/"):
            raise NotScalarError(f"it uses '{sign}'")
        return f"({_as(left, found)} {sign} {_as(right, found)})", found

    def _power(self, node: Binary, base: str, found: np.dtype[Any]) -> Written:
        if not isinstance(node.right, Number) or node.right.value != 2:
            raise NotScalarError("it raises to other powers than 2")
        return f"({_as(base, found)} * {_as(base, found)})", found

    def _comparison(self, node: Comparison) -> Written:
        parts, left = [], node.first
        for sign, right in node.rest:
            parts.append(self._compared(left, sign, right))
            left = right
        return f"({' and '.join(parts)})", np.dtype(np.bool_)

    def _compared(self, left: Node, sign: str, right: Node) -> str:
        (one, _), (other, _) = self.write(left), self.write(right)
        samples = [self.sample(left), self.sample(right)]
        common = np.result_type(*(side.dtype if isinstance(side, np.ndarray) else side for side in samples))
        if common.kind in "iu":  # numbers that the column's own type cannot hold are compared exactly too
            common = np.dtype(np.int64)
            if any(isinstance(side, int) and not -(2**63) <= side < 2**63 for side in samples):
                raise NotScalarError("a whole number in it is too large for 64 bits")
        return f"({_as(one, common)} {sign} {_as(other, common)})"

    def _call(self, node: Call) -> Written:
        if node.options or node.function not in {"sqrt", "abs", "fabs", "where", *ROUNDED_ELSEWHERE}:
            raise NotScalarError(f"it uses {node.function}(…)")
        found = self.type_of(node)
        written = [self.write(argument) for argument in node.arguments]
        if node.function == "where":
            condition, (chosen, _), (other, _) = _truth(*written[0]), written[1], written[2]
            return f"({_as(chosen, found)} if {condition} else {_as(other, found)})", found
        values = [_as(text, found) for text, _ in written]
        if node.function in ROUNDED_ELSEWHERE:
            self.inexact.append(node.function)
            return _as(f"{ROUNDED_ELSEWHERE[node.function]}({', '.join(values)})", found), found
        if node.function == "sqrt":
            root = f"math.sqrt({values[0]}) if {values[0]} >= 0 else math.nan"
            return _as(f"({root})", found), found
        return _as(f"abs({values[0]})", found), found


def _as(text: str, dtype: np.dtype[Any]) -> str:
    """Cast; conditions that are counted become 0 and 1."""
    return text if dtype == np.bool_ else f"np.{dtype.name}({text})"


def _truth(text: str, dtype: np.dtype[Any] | None) -> str:
    return text if dtype == np.bool_ else f"({text} != 0)"


def _number(value: Any) -> str:  # Any: what names may stand for
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise NotScalarError(f"{value!r} is not a number")
    if isinstance(value, float) and not math.isfinite(value):
        return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "(-math.inf)"
    return f"({value!r})" if value < 0 else repr(int(value) if isinstance(value, bool) else value)
