"""Write an expression in one way: texts are equal where trees are, and reading one gives the same tree again."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from cenote.expressions.tightness import ALONE, BINARY, COMPARISON, NOT, POWER, SIGNED
from cenote.expressions.tokens import NAME, WORD_SIGNS
from cenote.expressions.tree import Binary, Call, Comparison, Mask, Name, Node, Number, Pick, Text, Unary

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
