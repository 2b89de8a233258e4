"""Ask numpy and awkward what a part of an expression gives: its type by a sample, its values by arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from cenote.compiled.obstacles import walk
from cenote.compiled.problems import NotCompiledError
from cenote.compiled.values import TYPES, DType, Lowered, Scalar, Value
from cenote.expressions.arrays import leaf_type
from cenote.expressions.evaluate import evaluate
from cenote.expressions.tree import Name, Node
from cenote.expressions.whole_numbers import as_type
from cenote.jagged import ak, is_awkward


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
