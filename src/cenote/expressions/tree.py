"""Define the syntax tree of an expression: a few frozen kinds of nodes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.values import dataclass


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
