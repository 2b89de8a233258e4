"""Say from its text alone why an expression has no compiled form; importing this costs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cenote.expressions.expression import expression
from cenote.expressions.functions import PER_VALUE
from cenote.expressions.tree import Call, Node, Pick, Text, children

REDUCTIONS = frozenset({"sum", "prod", "any", "all", "count", "count_nonzero"})
LENGTHS = frozenset({"num", "len"})
POSITIONS = {"first": 0, "last": -1, "leading": 0, "subleading": 1}
"""Functions that take one element of each event → which."""
COMBINED = {"pairs": 2, "triples": 3}
"""Functions of combinations of elements → how many are combined."""
CHOICES = frozenset({"min_by", "max_by", "closest"})
COMPILED = (
    frozenset({"nth", "position", "concat", "cross", "nearest_deltar"})
    | COMBINED.keys()
    | CHOICES
    | PER_VALUE
    | REDUCTIONS
    | LENGTHS
    | POSITIONS.keys()
)
"""Functions that have a compiled form."""


def obstacle_in_any(texts: Iterable[str | None]) -> str | None:
    """The first obstacle in several expressions; None where all may have a compiled form."""
    return next(filter(None, (obstacle_in(text) for text in texts if text is not None)), None)


def obstacle_in(text: str) -> str | None:
    """Why an expression has no compiled form, whatever its columns hold; None where it may have one."""
    return next(filter(None, map(_obstacle, walk(expression(text).tree))), None)


def walk(tree: Node) -> Iterator[Node]:
    """A part of an expression with all that it is made of."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(children(node))


def _obstacle(node: Node) -> str | None:
    match node:
        case Text():
            return "text is compared"
        case Pick() if not is_one_element(node):
            return "elements are picked by a range"
        case Call() if node.function not in COMPILED:
            return f"{node.function}(…) is used"
        case Call() if node.function in ("min", "max") and len(node.arguments) == 1:
            return f"{node.function}(…) of no elements is missing"
        case Call() if node.function in ("first", "last", *CHOICES) and not node.options:
            return f"{node.function}(…) without a default may be missing"
        case Call() if dict(node.options).get("axis", 1) not in (1, -1):
            return "lists of lists are reduced"
    return None


def is_one_element(node: Pick) -> bool:
    """Whether it is `x[:, i]`."""
    return len(node.positions) == 2 and node.positions[0] == slice(None) and isinstance(node.positions[1], int)
