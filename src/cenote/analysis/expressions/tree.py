"""Define the syntax tree of an expression, and its normal text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from cenote.analysis.expressions.problems import NAME, WORD_SIGNS
from cenote.common.values import dataclass


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Text:
    """A quoted text, to compare columns of text with."""

    value: str


@dataclass(frozen=True, slots=True)
class Name:
    """A column, or a constant where no column has that name."""

    name: str
    column: int


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `+x`, `~x`, `!x` or `not x` (the last two are both `not`)."""

    sign: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """`left sign right`; `&&` and `||` are `and` and `or`."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Comparison:
    """`first < a <= b …`: every neighbouring pair must hold."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A known function; options are literal values (`axis=1`)."""

    function: str
    arguments: tuple[Node, ...]
    options: tuple[tuple[str, int | float | bool], ...]


@dataclass(frozen=True, slots=True)
class Pick:
    """`x[:, 0]`: by position within each event."""

    value: Node
    positions: tuple[int | slice, ...]


@dataclass(frozen=True, slots=True)
class Mask:
    """`x[condition]`: the elements of each event that fulfil a condition."""

    value: Node
    condition: Node


Node = Number | Text | Name | Unary | Binary | Comparison | Call | Pick | Mask


def names(tree: Node) -> Iterator[str]:
    """Every name in the tree from left to right, repetitions included."""
    waiting: list[Node] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name):
            yield node.name
        waiting.extend(reversed(children(node)))


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below this one, from left to right."""
    match node:
        case Number() | Text() | Name():
            return ()
        case Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Comparison():
            return (node.first, *(operand for _, operand in node.rest))
        case Call():
            return node.arguments
        case Pick():
            return (node.value,)
        case Mask():
            return (node.value, node.condition)


_ARITHMETIC = frozenset({"+", "-", "/", "//", "%", "**", "<<", ">>"})
"""Signs whose result is a number whatever they join; the product of two conditions is a condition."""


def is_never_a_condition(node: Node) -> bool:
    """Whether it gives numbers or text whatever its columns hold."""
    if isinstance(node, Binary) and node.sign == "*":
        return is_never_a_condition(node.left) or is_never_a_condition(node.right)
    return isinstance(node, Number | Text) or (isinstance(node, Binary | Unary) and node.sign in _ARITHMETIC)


# How tightly the signs of expressions bind: as physicists mean it, not as Python has it.


NOT = 25
COMPARISON = 30
SIGNED = 60
"""`-x`, `+x` and `~x`."""
POWER = "**"
"""The only sign whose right side goes first."""
BINARY = {
    **dict.fromkeys(("or", "||", "|"), 10),
    "^": 15,
    **dict.fromkeys(("and", "&&", "&"), 20),
    **dict.fromkeys(("<<", ">>"), 35),
    **dict.fromkeys(("+", "-"), 40),
    **dict.fromkeys(("*", "/", "//", "%"), 50),
    POWER: 70,
}
ALONE = 100
"""Names, calls and whatever else needs no parentheses."""


# Write an expression in one way: texts are equal where trees are, and reading one gives the same tree again.


_PLAIN_NAME = re.compile(rf"{NAME}(?:\.{NAME})*")


def normal_text(tree: Node, column: Callable[[str], str] = str) -> str:
    """An expression without needless spaces and parentheses; `column` says what is written for each name.

    Only what cannot change a bit goes: `1` stays apart from `1.0`, `a + b` from `b + a`, and `&` from `and`.
    """
    return _Writer(column).text(tree)


class _Writer:
    def __init__(self, column: Callable[[str], str]) -> None:
        self._column = column

    def text(self, node: Node) -> str:
        match node:
            case Number(value):
                return _number(value)
            case Text(value):
                return f'"{value}"' if "'" in value else f"'{value}'"
            case Name(name):
                return _name(self._column(name))
            case Unary("not", operand):
                return f"not {self._within(operand, NOT)}"
            case Unary(sign, operand):
                return f"{sign}{self._within(operand, SIGNED)}"
            case Binary():
                return self._chain(node)
            case Comparison(first, rest):
                rest_texts = (f" {sign} {self._within(operand, COMPARISON + 1)}" for sign, operand in rest)
                return self._within(first, COMPARISON + 1) + "".join(rest_texts)
            case Call(function, arguments, options):
                given = [self.text(argument) for argument in arguments]
                named = [f"{key}={_option(value)}" for key, value in sorted(options)]
                return f"{_name(function)}({', '.join([*given, *named])})"
            case Pick(value, positions):
                return f"{self._within(value, ALONE)}[{', '.join(map(_position, positions))}]"
            case Mask(value, condition):
                return f"{self._within(value, ALONE)}[{self.text(condition)}]"

    def _chain(self, node: Binary) -> str:
        """Goes down the left side in a loop: a sum may have a thousand terms."""
        parts: list[str] = []
        left: Node = node
        while isinstance(left, Binary) and (left is node or BINARY[left.sign] >= BINARY[node.sign] != BINARY[POWER]):
            node, strength = left, BINARY[left.sign]
            parts.append(f" {node.sign} {self._within(node.right, strength + (node.sign != POWER))}")
            left = node.left
        parts.append(self._within(left, BINARY[node.sign] + (node.sign == POWER)))
        return "".join(reversed(parts))

    def _within(self, node: Node, least: int) -> str:
        """In parentheses where it binds less tightly than this."""
        return self.text(node) if _tightness(node) >= least else f"({self.text(node)})"


def _tightness(node: Node) -> int:
    match node:
        case Binary():
            return BINARY[node.sign]
        case Comparison():
            return COMPARISON
        case Unary():
            return NOT if node.sign == "not" else SIGNED
        case Number(value):
            return SIGNED if math.copysign(1, value) < 0 else ALONE
        case _:
            return ALONE


def _number(value: float) -> str:
    return "1e999" if value == math.inf else "-1e999" if value == -math.inf else repr(value)


def _option(value: float) -> str:
    """A plain number, or a constant that is one."""
    return repr(value).lower()


def _position(place: int | slice) -> str:
    if isinstance(place, int):
        return str(place)
    return ":".join("" if end is None else str(end) for end in (place.start, place.stop))


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) and name not in WORD_SIGNS else f"`{name}`"
