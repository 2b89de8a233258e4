"""Ask numpy what a part of an expression gives, by samples, and what keeps a stage from being compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cenote.analysis.compiled.values import TYPES, DType, Lowered, NotCompiledError, Scalar, Value
from cenote.analysis.expressions.arrays import leaf_type
from cenote.analysis.expressions.evaluate import evaluate
from cenote.analysis.expressions.functions import PER_VALUE
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.tree import Call, Name, Node, Pick, Text, children
from cenote.analysis.expressions.whole_numbers import as_type
from cenote.common.arrays import ak, is_awkward

# Say from its text alone why an expression has no compiled form; importing this costs nothing.


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


def names_of(tree: Node) -> list[str]:
    """The names in a part of an expression, which say the order of its operands."""
    return sorted(node.name for node in walk(tree) if isinstance(node, Name))


@lru_cache(maxsize=4096)
def function_of(tree: Node) -> Callable[..., Any]:
    """What a part of an expression does with arrays: the same object for the same part."""
    return partial(evaluated, tree, names_of(tree))


def evaluated(tree: Node, names: list[str], *columns: Any) -> Any:  # Any: numpy, awkward and numbers
    """What a part of an expression gives for its operands."""
    return evaluate(tree, dict(zip(names, columns, strict=True)).__getitem__)


@lru_cache(maxsize=64)
def cast_to(dtype: DType) -> Callable[..., Any]:
    """A function that casts arrays, if they fit: the same object for the same type."""

    def cast(column: Any) -> Any:
        return as_type(np.asarray(column), dtype)

    return cast


def type_of(tree: Node, *operands: Lowered, lists: bool = False) -> DType:
    """The type that numpy computes a part of an expression in, for operands of these types; `lists`: that awkward does,
    for operands that are lists."""
    if any(isinstance(operand, int) and not -(2**63) <= operand < 2**63 for operand in operands):
        raise NotCompiledError("a whole number is too large for 64 bits")  # awkward takes none, numpy some
    jagged = tuple(lists and isinstance(operand, Value) and operand.space is not None for operand in operands)
    kinds = tuple(operand.dtype if isinstance(operand, Value) else (type(operand), operand) for operand in operands)
    return _type_of(tree, kinds, jagged)


@lru_cache(maxsize=4096)
def _type_of(tree: Node, kinds: tuple[DType | tuple[type, Scalar], ...], jagged: tuple[bool, ...]) -> DType:
    samples = [
        _sample(kind, lists=lists) if isinstance(kind, np.dtype) else kind[1]
        for kind, lists in zip(kinds, jagged, strict=True)
    ]
    found = evaluated(tree, names_of(tree), *samples)
    dtype = leaf_type(found)
    if dtype is None or (is_awkward(found) and found.layout.is_option):
        raise NotCompiledError("values may be missing")
    return checked(dtype)


def _sample(dtype: DType, *, lists: bool) -> Any:
    one = np.ones(1, dtype)
    if not lists:
        return one
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64([0, 1]), ak.contents.NumpyArray(one)))


def checked(dtype: DType) -> DType:
    """A type that can be computed with."""
    if dtype not in TYPES:
        raise NotCompiledError(f"values are of type {dtype}")
    return dtype
