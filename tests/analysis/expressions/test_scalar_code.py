"""An expression as a function of single values gives what the expression gives for columns, to the last bit."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.problems import BadExpressionError, EvaluationError
from cenote.analysis.expressions.scalar_code import NotScalarError, scalar_code

TYPES = {"f": "float64", "g": "float32", "i": "int32", "j": "int64", "u": "uint16", "b": "bool", "s": "int8"}
CONSTANTS = {"k": 3, "h": 0.1}
ODD = [0, 1, -1, 2, 0.1, 1e-300, 1e300, float("nan"), float("inf"), -0.0, 127, 65535, 2**31 - 1, -(2**31)]

leaves = st.sampled_from([*TYPES, *CONSTANTS, "2", "0.5", "1e30", "300"])
texts = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from(["+", "-", "*", "/", "<", "<=", "==", "!=", "and", "or", "&", "|"]), inner
        ).map(lambda found: f"({found[0]} {found[1]} {found[2]})"),
        inner.map(lambda found: f"(-{found})"),
        inner.map(lambda found: f"(not {found})"),
        inner.map(lambda found: f"abs({found})"),
        inner.map(lambda found: f"sqrt({found})"),
        inner.map(lambda found: f"(({found})**2)"),
        st.tuples(inner, inner, inner).map(lambda found: f"where({found[0]}, {found[1]}, {found[2]})"),
    ),
    max_leaves=8,
)


def columns() -> dict[str, Any]:
    values = np.array(ODD, dtype=np.float64)
    with np.errstate(all="ignore"):
        return {
            name: np.nan_to_num(values).astype(kind) if kind[0] in "iub" else values.astype(kind)
            for name, kind in TYPES.items()
        }


@settings(max_examples=20_000 if os.environ.get("CENOTE_DEEP_TESTS") else 150, deadline=None)
@given(text=texts, shift=st.integers(0, len(ODD) - 1))
def test_single_values_give_what_columns_give(text: str, shift: int) -> None:
    data = {name: np.roll(column, shift * number) for number, (name, column) in enumerate(columns().items())}
    try:
        code = scalar_code(text, {name: column.dtype for name, column in data.items()}, CONSTANTS.__getitem__)
    except (NotScalarError, BadExpressionError):
        return
    try:
        expected = expression(text).evaluate(lambda name: data[name] if name in data else CONSTANTS[name])
    except EvaluationError:
        return
    function = code.function()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = zip(*(data[column] for column in code.parameters.values()), strict=True)
        found = np.array([function(*row) for row in rows], dtype=code.dtype)
    assert code.dtype == expected.dtype.name
    np.testing.assert_array_equal(found, expected)
    finite = expected == expected  # NaN has many patterns, which mean the same
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sum(f)", "sum"),
        ("f ** j", "powers"),
        ("i % 2", "'%'"),
        ("~i", "inverts bits"),
        ("i << 2", "'<<'"),
        ("f[:, 0]", "lists are taken apart"),
        ("k + h", "uses no column"),
        ("t == 'a'", "'t' has values of type <U3"),
        ("w + 1", "uint64"),
    ],
)
def test_what_has_no_such_function_is_refused_with_the_reason(text: str, why: str) -> None:
    types = {**{name: np.dtype(kind) for name, kind in TYPES.items()}, "w": np.dtype("uint64"), "t": np.dtype("U3")}
    with pytest.raises(NotScalarError, match=why):
        scalar_code(text, types, CONSTANTS.__getitem__)


def test_functions_that_are_rounded_elsewhere_are_named() -> None:
    code = scalar_code("exp(f) + cos(g) * exp(f)", {"f": np.dtype("f8"), "g": np.dtype("f4")}, CONSTANTS.__getitem__)
    assert code.inexact == ("exp", "cos")


def test_the_same_text_is_the_same_function() -> None:
    one, other = (scalar_code("f * 2", {"f": np.dtype("f8")}, CONSTANTS.__getitem__) for _ in range(2))
    assert one.function() is other.function()
