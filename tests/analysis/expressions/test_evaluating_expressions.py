"""Check that expressions give what numpy gives, event by event, on flat and on jagged columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.analysis.expressions.parser import Expression
from cenote.analysis.expressions.problems import EvaluationError

COLUMNS: dict[str, Any] = {
    "x": np.array([1.0, 2.0, 3.0]),
    "y": np.array([3.0, 2.0, 1.0]),
    "n": np.array([2, 0, 1]),
    "flags": np.array([4, 5, 8]),
    "ok": np.array([True, False, True]),
    "pt": ak.Array([[10.0, 20.0], [], [30.0]]),
    "eta": ak.Array([[0.5, -1.5], [], [2.5]]),
    "fixed": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "name": np.array(["a", "b", "a"]),
}


def value(text: str) -> Any:
    result = Expression(text).evaluate(COLUMNS.__getitem__)
    return result.tolist() if hasattr(result, "tolist") else result


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n >= 2 & ok", [True, False, False]),
        ("n >= 1 && !ok", [False, False, False]),
        ("1 < x <= 3", [False, True, True]),
        ("not ok or x == 1", [True, True, False]),
        ("~ok", [False, True, False]),
        ("(flags & 4) != 0", [True, True, False]),
        ("flags >> 2", [1, 1, 2]),
        ("ok ^ (x > 1)", [True, True, False]),
        ("n and x", [True, False, True]),
        ("n ** -1", [0.5, math.inf, 1.0]),
        ("name == 'a'", [True, False, True]),
        ("where(x > 1, x, 0)", [0.0, 2.0, 3.0]),
        ("min(x, y, 1.5)", [1.0, 1.5, 1.0]),
        ("clip(x, 1.5, 2.5)", [1.5, 2.0, 2.5]),
        ("sum(pt)", [30.0, 0.0, 30.0]),
        ("sum(pt, axis=1)", [30.0, 0.0, 30.0]),
        ("sum(fixed)", [3.0, 7.0, 11.0]),
        ("max(pt)", [20.0, None, 30.0]),
        ("max(pt) > 15", [True, None, True]),
        ("any(pt > 15) & ok", [True, False, True]),
        ("all(pt > 15)", [False, True, True]),
        ("num(pt)", [2, 0, 1]),
        ("len(pt) == n", [True, True, True]),
        ("count_nonzero(abs(eta) < 2)", [2, 0, 0]),
        ("first(pt)", [10.0, None, 30.0]),
        ("first(pt, default=-1)", [10.0, -1.0, 30.0]),
        ("last(pt)", [20.0, None, 30.0]),
        ("leading(pt)", [10.0, 0.0, 30.0]),
        ("subleading(pt, -1)", [20.0, -1.0, -1.0]),
        ("nth(pt, -2)", [10.0, 0.0, 0.0]),
        ("pt[abs(eta) < 1]", [[10.0], [], []]),
        ("pt[:, :1]", [[10.0], [], [30.0]]),
        ("fixed[:, 1]", [2.0, 4.0, 6.0]),
        ("pt * x", [[10.0, 20.0], [], [90.0]]),
        ("sort(pt, ascending=false)", [[20.0, 10.0], [], [30.0]]),
        ("fill_none(max(pt), 0)", [20.0, 0.0, 30.0]),
        ("is_none(max(pt))", [False, True, False]),
        ("count(pt)", [2, 0, 1]),
        ("argmax(pt)", [1, None, 0]),
        ("round(pt / 3, 1)", [[3.3, 6.7], [], [10.0]]),
        ("2 ** -1", 0.5),
        ("1e3 + 0x10", 1016.0),
    ],
)
def test_values(text: str, expected: Any) -> None:
    assert value(text) == expected


def test_flat_columns_stay_numpy() -> None:
    assert isinstance(Expression("sqrt(x) + sum(pt) > 2").evaluate(COLUMNS.__getitem__), np.ndarray)


def test_single_precision_stays_single() -> None:
    column = np.array([1.0, 2.0], dtype=np.float32)
    assert Expression("(1 / 3) * x + 2.0").evaluate(lambda _: column).dtype == np.float32


def test_numerical_accidents_are_numbers_and_not_warnings() -> None:
    assert value("log(x - 1)") == [-math.inf, 0.0, math.log(2.0)]
    assert value("1 / n") == [0.5, math.inf, 1.0]
    assert math.isnan(value("sqrt(-x)")[0])
    assert math.isnan(value("mean(pt)")[1])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("ok & n", "joins a condition with numbers"),
        ("sum(x)", "one value per event"),
        ("pt[:, 0]", "too few elements"),
        ("x[ok]", "dropped by a filter"),
        ("sum(pt, axis=2)", "axes 1 to 1"),
        ("1 / 0", "division by zero"),
        ("9 ** 9 ** 9", "out of range"),
        ("1 << 5000", "shift"),
        ("pt + fixed", "pt + fixed"),
    ],
)
def test_what_the_columns_do_not_allow_is_told_with_the_expression(text: str, part: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        value(text)
    assert part in str(caught.value)
    assert f"'{text}'" in str(caught.value)


numbers = st.floats(-100, 100, allow_nan=False, width=64)
arrays = st.lists(numbers, min_size=1, max_size=20)

SAME_AS_NUMPY: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("a + b * 2 - a / 3", lambda a, b: a + b * 2 - a / 3),
    ("sqrt(abs(a)) * exp(-abs(b))", lambda a, b: np.sqrt(np.abs(a)) * np.exp(-np.abs(b))),
    ("hypot(a, b) ** 2", lambda a, b: np.hypot(a, b) ** 2),
    ("a > b & a < 50 | b >= 99", lambda a, b: ((a > b) & (a < 50)) | (b >= 99)),
    ("where(a > 0, a, -b)", lambda a, b: np.where(a > 0, a, -b)),
    ("max(a, b) - min(a, b)", lambda a, b: np.maximum(a, b) - np.minimum(a, b)),
    ("arctan2(a, b) // 0.5 % 3", lambda a, b: np.arctan2(a, b) // 0.5 % 3),
    ("-90 < a <= b < 90", lambda a, b: (a > -90) & (a <= b) & (b < 90)),
]


@pytest.mark.parametrize(("text", "reference"), SAME_AS_NUMPY, ids=[text for text, _ in SAME_AS_NUMPY])
@settings(max_examples=25, deadline=None)
@given(values=arrays, seed=st.integers(0, 2**16))
def test_flat_and_jagged_columns_give_what_numpy_gives(
    text: str, reference: Callable[[Any, Any], Any], values: list[float], seed: int
) -> None:
    a = np.array(values)
    b = np.random.default_rng(seed).permutation(a)
    with np.errstate(all="ignore"):
        expected = reference(a, b)
    flat = Expression(text).evaluate({"a": a, "b": b}.__getitem__)
    np.testing.assert_array_equal(flat, expected)
    cuts = np.array([len(a) // 2, 0, len(a) - len(a) // 2])
    lists = {"a": ak.unflatten(a, cuts), "b": ak.unflatten(b, cuts)}
    jagged = Expression(text).evaluate(lists.__getitem__)
    np.testing.assert_array_equal(ak.to_numpy(ak.flatten(jagged)), expected)


def test_distances_and_masses() -> None:
    columns = {"p": np.array([3.0]), "q": np.array([-3.0]), "one": np.array([1.0]), "zero": np.array([0.0])}

    def of(text: str) -> float:
        return float(Expression(text).evaluate(columns.__getitem__)[0])

    assert of("deltaphi(p, q)") == pytest.approx(6 - 2 * math.pi)
    assert of("deltar(one, zero, zero, zero)") == pytest.approx(1.0)
    assert of("invariant_mass(one, zero, zero, one, zero, zero)") == pytest.approx(0.0, abs=1e-7)
    assert of("transverse_mass(one, zero, one, zero + 3.141592653589793)") == pytest.approx(2.0)


@pytest.mark.parametrize(
    "text", ["n == '2'", "n != '2'", "'2' == n", "n > '2'", "lists == '2'", "words == 2", "words == n"]
)
def test_numbers_are_not_compared_with_text(text: str) -> None:
    columns = {"n": np.array([1, 2]), "lists": ak.Array([[1], [2, 3]]), "words": ak.Array(["1", "2"])}
    with pytest.raises(EvaluationError, match="numbers are compared with text"):
        Expression(text).evaluate(columns.__getitem__)


MISSING: dict[str, Any] = {
    "maybe": ak.Array([True, False, None, None, True]),
    "other": ak.Array([None, None, None, True, False]),
    "sure": np.array([True, False, True, False, False]),
    "weight": ak.Array([1.0, 0.0, None, None, 2.0]),
    "pt": ak.Array([[10.0, 20.0], [], [30.0], [5.0], [50.0, 1.0]]),
    "mu": ak.Array([[10.0, 20.0], [], [30.0], [5.0, 6.0], [50.0]]),
    "deep": ak.Array([[[1.0, 2.0], [3.0]], [], [[]], [[4.0]], [[5.0], [6.0, 0.0]]]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("maybe | sure", [True, False, True, None, True]),
        ("maybe & sure", [True, False, None, False, False]),
        ("maybe or other", [True, None, None, True, True]),
        ("maybe and other", [None, False, None, None, False]),
        ("weight or sure", [True, False, True, None, True]),
        ("!maybe", [False, True, None, None, False]),
        ("0 < weight < 2", [True, False, None, None, False]),
        ("maybe | pt > 20", [[True, True], [], [True], [None], [True, True]]),
        ("pt[maybe & pt > 0]", [[10.0, 20.0], [], [], [], [50.0, 1.0]]),
        ("pt[pt > weight]", [[10.0, 20.0], [], [], [], [50.0]]),
        ("deep[deep > 1]", [[[2.0], [3.0]], [], [[]], [[4.0]], [[5.0], [6.0]]]),
    ],
)
def test_a_missing_condition_decides_nothing_and_is_not_fulfilled(text: str, expected: list[Any]) -> None:
    assert ak.to_list(Expression(text).evaluate(MISSING.__getitem__)) == expected


@pytest.mark.parametrize("text", ["pt[mu > 0]", "pt[mu > weight]", "deep[mu > 0]", "deep[deep[deep > 1] > 1]"])
def test_elements_are_picked_by_conditions_on_themselves_only(text: str) -> None:
    with pytest.raises(EvaluationError, match="different number"):
        Expression("pt + mu").evaluate(MISSING.__getitem__)
    with pytest.raises(EvaluationError, match="different number"):
        Expression(text).evaluate(MISSING.__getitem__)
