"""Parse an expression: a small operator-precedence parser that knows the column of every mistake.

Precedence follows what physicists mean, not Python: `&` and `|` bind looser than comparisons, like `and` and `or`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from sys import float_info
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from cenote.analysis.expressions import evaluate, tree
from cenote.analysis.expressions.arrays import Column
from cenote.analysis.expressions.functions import CONSTANTS, Function, function_named, function_names
from cenote.analysis.expressions.problems import BadExpressionError, EvaluationError, Token, tokens
from cenote.analysis.expressions.tree import (
    BINARY,
    COMPARISON,
    NOT,
    POWER,
    SIGNED,
    Binary,
    Call,
    Comparison,
    Mask,
    Name,
    Node,
    Number,
    Pick,
    Text,
    Unary,
    normal_text,
)
from cenote.common.text import did_you_mean
from cenote.common.values import dataclass
from cenote.language.plugins import own_functions
from cenote.language.plugins.quantities import Normal

_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_ABOUT_POWERS = "powers are written **"
_NUMBER = "leave the quotes out where a number or a column is meant"
_SAME = {"||": "or", "&&": "and", "!": "not"}
_DEEPEST = 60
_MOST_DIGITS = 20
_LARGEST = int(float_info.max)
_RESERVED = {
    "if": "write where(condition, a, b)",
    "else": "write where(condition, a, b)",
    "lambda": "functions cannot be defined here",
    "for": "columns are computed as a whole, without loops",
    "in": "compare with == and join with |",
    "is": "compare with ==, or use is_none(x)",
}


def parse(text: str) -> Node:
    """The tree of an expression. Raises BadExpressionError with the column of the first mistake."""
    parser = _Parser(text)
    tree = parser.expression(0)
    if parser.next.kind != "end":
        raise parser.unexpected()
    return tree


class _Parser:
    """Walks the tokens once, from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.position = 0
        self.depth = 0

    @property
    def next(self) -> Token:
        return self.tokens[self.position]

    def take(self) -> Token:
        token = self.next
        self.position += 1
        return token

    def sees(self, *signs: str) -> bool:
        return self.next.kind == "sign" and self.next.text in signs

    def mistake(self, token: Token, message: str, hint: str | None = None) -> BadExpressionError:
        return BadExpressionError(self.text, token.column, message, hint)

    def unexpected(self) -> BadExpressionError:
        token = self.next
        if token.kind == "end":
            what = "the expression is empty" if len(self.tokens) == 1 else "the expression ends too early"
            return self.mistake(token, what)
        hint = "compare with ==" if token.text == "=" else _RESERVED.get(token.text)
        return self.mistake(token, f"'{token.text}' is not expected here", hint)

    def expect(self, sign: str) -> Token:
        if not self.sees(sign):
            problem = self.unexpected()
            hint = problem.hint or f"a '{sign}' is missing"
            raise BadExpressionError(self.text, problem.column, problem.message, hint)
        return self.take()

    def expression(self, tightness: int) -> Node:
        """What binds tighter than the sign before it."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.mistake(
                self.next, "the expression is nested too deeply", "define parts of it as columns of their own"
            )
        left = self.operand()
        while True:
            if self.sees(*_COMPARISONS) and tightness < COMPARISON:
                left = self.comparison(left)
            elif self.next.kind == "sign" and BINARY.get(self.next.text, 0) > tightness:
                left = self.binary(left)
            else:
                self.depth -= 1
                return left

    def comparison(self, first: Node) -> Node:
        rest: list[tuple[str, Node]] = []
        token, before = self.next, self.tokens[self.position - 2].text
        while self.sees(*_COMPARISONS):
            sign = self.take().text
            rest.append((sign, self.expression(COMPARISON)))
        if all(isinstance(node, Number) for node in (first, *(operand for _, operand in rest))):
            hint = "'&' and '|' bind looser than comparisons: a bit test is written (flags & 4) == 4"
            raise self.mistake(token, "two numbers are compared", _ABOUT_POWERS if before == "^" else hint)
        return Comparison(first, tuple(rest))

    def binary(self, left: Node) -> Node:
        token = self.take()
        strength = BINARY[token.text]
        # The exponent takes everything that binds as tightly, so that 2**3**2 is 2**(3**2).
        right = self.expression(strength - 1 if token.text == POWER else strength)
        if strength > COMPARISON and (isinstance(left, Text) or isinstance(right, Text)):
            raise self.mistake(token, f"'{token.text}' computes with numbers, this is text", _NUMBER)
        if token.text == "^" and (isinstance(left, Number) or isinstance(right, Number)):
            raise self.mistake(token, "'^' means 'exclusive or'", _ABOUT_POWERS)
        return Binary(_SAME.get(token.text, token.text), left, right)

    def operand(self) -> Node:
        token = self.next
        if self.sees("not"):
            self.take()
            return Unary("not", self.expression(NOT))
        if self.sees("-", "+", "~", "!"):
            self.take()
            inner = self.expression(SIGNED)
            if token.text == "-" and isinstance(inner, Number):
                return Number(-inner.value)
            return Unary(_SAME.get(token.text, token.text), inner)
        node = self.simple()
        while self.sees("["):
            node = self.subscript(node)
        return node

    def simple(self) -> Node:
        token = self.next
        if token.kind == "number":
            self.take()
            return Number(_number(token.text))
        if token.kind == "text":
            self.take()
            return Text(token.text)
        if token.kind == "name" and token.text not in _RESERVED:
            self.take()
            return self.call(token) if self.sees("(") else Name(token.text, token.column)
        if self.sees("("):
            self.take()
            inner = self.expression(0)
            if self.sees(","):
                raise self.mistake(self.next, "a list of values is not allowed here")
            self.expect(")")
            return inner
        raise self.unexpected()

    def call(self, name: Token) -> Node:
        function = function_named(name.text)
        if function is None:
            last, known = name.text.rpartition(".")[2], function_names()
            hint = f"write {last}(…)" if last in known else did_you_mean(name.text, known)
            raise self.mistake(name, f"there is no function '{name.text}'", hint)
        self.expect("(")
        arguments: list[Node] = []
        options: dict[str, int | float | bool] = {}
        while not self.sees(")"):
            if self.next.kind == "name" and self.tokens[self.position + 1].text == "=":
                self.option(name.text, function, options)
            elif options:
                raise self.mistake(self.next, "values come before options")
            else:
                arguments.append(self.expression(0))
            if not self.sees(")"):
                self.expect(")" if self.next.kind == "end" else ",")
        self.expect(")")
        if not function.takes(len(arguments)):
            raise self.mistake(name, f"{name.text} takes {function.wants}, not {len(arguments)}", function.usage)
        return Call(name.text, tuple(arguments), tuple(options.items()))

    def option(self, name: str, function: Function, options: dict[str, int | float | bool]) -> None:
        key = self.take()
        self.expect("=")
        allowed = function.options
        if key.text not in allowed:
            hint = did_you_mean(key.text, allowed) or (f"it has {', '.join(sorted(allowed))}" if allowed else None)
            raise self.mistake(key, f"{name} has no option '{key.text}'", hint)
        start = self.next
        value = self.expression(0)
        plain = _plain_value(value)
        if plain is None:
            raise self.mistake(start, f"the option '{key.text}' needs a plain number, true or false")
        options[key.text] = plain
        if key.text == "axis" and (not isinstance(options["axis"], int) or options["axis"] == 0):
            raise self.mistake(start, "this axis would mix events", "axis=1 goes over the elements of each event")

    def subscript(self, value: Node) -> Node:
        bracket = self.expect("[")
        if not self.sees(":"):
            condition = self.expression(0)
            if isinstance(condition, Number):
                hint = "x[:, 0] or first(x) is the first element of each event"
                raise self.mistake(bracket, "this picks one event, not one element of each", hint)
            self.expect("]")
            return Mask(value, condition)
        self.take()
        positions: list[int | slice] = [slice(None)]
        while self.sees(","):
            self.take()
            positions.append(self.place())
        self.expect("]")
        return Pick(value, tuple(positions))

    def place(self) -> int | slice:
        """One position after the events: `0`, `-1`, `:2`, `1:`."""
        start = self.whole()
        if not self.sees(":"):
            if start is None:
                raise self.unexpected()
            return start
        self.take()
        return slice(start, self.whole())

    def whole(self) -> int | None:
        if self.sees(":", ",", "]"):
            return None
        token = self.next
        node = self.expression(SIGNED - 1)
        if isinstance(node, Number) and isinstance(node.value, int):
            return node.value
        raise self.mistake(token, "a position is a whole number", "x[condition] picks elements by a condition")


def _number(text: str) -> int | float:
    if text[:2].lower() == "0x":
        return _narrow(int(text, 16))
    plain = text.replace("_", "")
    return _narrow(int(plain)) if plain.isdigit() and len(plain) <= _MOST_DIGITS else float(plain)


def _narrow(number: int) -> int | float:
    """Whole numbers have 64 bits at most; larger ones are fractions, as in columns."""
    return number if number < 2**64 else float(min(number, _LARGEST))


def _plain_value(node: Node) -> int | float | bool | None:
    """What stands for itself: a number, or a constant such as `nan`, `true` or `-inf`."""
    match node:
        case Number():
            return node.value
        case Name() if node.name in CONSTANTS:
            return CONSTANTS[node.name]
        case Unary(sign="-", operand=Name(name)) if name in CONSTANTS:
            return -CONSTANTS[name]
        case _:
            return None


# Define Expression: a text that was parsed, knows its names and can be evaluated; and its settings type.


@dataclass(frozen=True)
class Expression:
    """An expression over columns. Two of the same text are equal; pickling keeps the text only."""

    text: str

    def __post_init__(self) -> None:
        _ = self.tree  # a bad text fails here, where it is written, and not where it is used

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return type(self), (self.text,)

    @cached_property
    def tree(self) -> tree.Node:
        """The syntax tree."""
        return _parsed(self.text, own_functions.generation())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names it uses as written, each once, in order of appearance; constants such as `pi` are among them."""
        return tuple(dict.fromkeys(tree.names(self.tree)))

    def normal(self, column: Callable[[str], str] = str) -> str:
        """The text in the one way in which all of the same tree are written; see `normal_text`."""
        return normal_text(self.tree, column)

    def evaluate(self, lookup: evaluate.Lookup) -> Column:
        """Its value, with columns and constants given by `lookup`: an array, or a scalar without columns."""
        try:
            return evaluate.evaluate(self.tree, lookup)
        except EvaluationError as problem:
            raise type(problem)(f"'{self.text}' cannot be evaluated: {problem}") from problem.__cause__


@lru_cache(maxsize=4096)
def _parsed(text: str, generation: int) -> tree.Node:  # noqa: ARG001  # own functions may have changed
    return parse(text)


def expression(text: str) -> Expression:
    """The expression of a text, parsed once per process."""
    return _expression(text, own_functions.generation())


@lru_cache(maxsize=4096)
def _expression(text: str, generation: int) -> Expression:  # noqa: ARG001  # as above
    return Expression(text)


def _checked(value: Any) -> str:  # Any: whatever the YAML holds
    if isinstance(value, bool | int | float):
        value = repr(value)
    if not isinstance(value, str):
        raise PydanticCustomError("bad_expression", "an expression must be text, such as 'Muon_pt > 20'", {"column": 1})
    text = " ".join(value.split("\n")).strip()
    try:
        expression(text)
    except BadExpressionError as problem:
        raise PydanticCustomError(
            "bad_expression", "{message}", {"message": str(problem), "column": problem.column, "hint": problem.hint}
        ) from None
    return text


def _checked_condition(value: Any) -> str:  # Any: whatever the YAML holds
    text = _checked(value)
    if tree.is_never_a_condition(expression(text).tree):
        raise PydanticCustomError(
            "bad_expression", "'{text}' is not true or false: compare it, as in ({text}) > 0", {"text": text}
        )
    return text


EXPRESSION = {"type": ["string", "number", "boolean"], "examples": ["Muon_pt > 20", "sqrt(px**2 + py**2)"]}
"""How an expression may be written, as JSON Schema."""
ExpressionText = Annotated[str, BeforeValidator(_checked), Normal("expression"), WithJsonSchema(EXPRESSION)]
"""The text of an expression, checked when settings are read; plain numbers count as expressions."""
ConditionText = Annotated[str, BeforeValidator(_checked_condition), Normal("expression"), WithJsonSchema(EXPRESSION)]
"""The same for an expression that must be true or false: arithmetic is refused, whatever its columns hold."""
