"""Check that combinations of elements are those that awkward gives, for lists of all lengths."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.analysis.expressions.parser import Expression
from cenote.analysis.expressions.problems import EvaluationError

COLUMNS: dict[str, Any] = {
    "pt": ak.Array([[30.0, 20.0, 10.0], [], [5.0]]),
    "eta": ak.Array([[0.0, 1.0, 2.0], [], [-1.0]]),
    "other": ak.Array([[0.1], [0.2], []]),
    "flags": ak.Array([[True, False, True], [], [False]]),
    "names": ak.Array([["a", "b", "c"], [], ["d"]]),
    "fixed": np.array([[1, 2], [3, 4], [5, 6]]),
    "odd": ak.Array([[np.nan, 2.0, 1.0], [], [np.nan]]),
    "x": np.array([1.0, 2.0, 3.0]),
    "maybe": ak.Array([[None, 2.0, 1.0], [], [None]]),
    "sometimes": ak.Array([[1.0, 3.0, 2.0], [], None]),
}


def evaluated(text: str, columns: dict[str, Any] = COLUMNS) -> Any:
    return Expression(text).evaluate(columns.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_by(pt, maybe)", [20.0, None, None]),
        ("nth(pt, argmax(eta))", [10.0, None, 5.0]),
        ("nth(names, argmin(pt))", ["c", None, "d"]),
        ("nth(pt, where(x > 1, -1, 1), default=7)", [20.0, 7.0, 7.0]),
        ("nth(fixed, num(other))", [2, 4, 5]),
        ("min_by(pt, maybe, default=0)", [10.0, 0.0, 0.0]),
        ("max_by(pt, sometimes)", [20.0, None, None]),
        ("max_by(sometimes, pt)", [1.0, None, None]),
        ("closest(pt, first(other) * 200)", [20.0, None, None]),
        ("pairs(pt, 0)", [[30.0, 30.0, 20.0], [], []]),
        ("pairs(pt, 1)", [[20.0, 10.0, 10.0], [], []]),
        ("pairs(fixed, 1)", [[2], [4], [6]]),
        ("pairs(names, 0)", [["a", "a", "b"], [], []]),
        ("triples(pt, 2)", [[10.0], [], []]),
        ("cross(pt, other, 0)", [[30.0, 20.0, 10.0], [], []]),
        ("cross(pt, other, 1)", [[0.1, 0.1, 0.1], [], []]),
        ("concat(other, pt)", [[0.1, 30.0, 20.0, 10.0], [0.2], [5.0]]),
        ("concat(flags, flags)", [[True, False, True] * 2, [], [False] * 2]),
        ("concat(names, names)", [["a", "b", "c"] * 2, [], ["d"] * 2]),
        ("concat(fixed, pt)", [[1, 2, 30.0, 20.0, 10.0], [3, 4], [5, 6, 5.0]]),
        ("position(pt)", [[0, 1, 2], [], [0]]),
        ("min_by(pt, abs(eta - 1))", [20.0, None, 5.0]),
        ("max_by(pt, eta)", [10.0, None, 5.0]),
        ("max_by(names, eta)", ["c", None, "d"]),
        ("min_by(pt, eta, default=-1)", [30.0, -1.0, 5.0]),
        ("min_by(pt, eta, default=-inf)", [30.0, -np.inf, 5.0]),
        ("min_by(pt, 0 * eta)", [30.0, None, 5.0]),  # of equal ones the first
        ("min_by(pt, odd)", [10.0, None, None]),  # NaN is never the smallest
        ("max_by(pt, odd)", [20.0, None, None]),
        ("closest(pt, 18)", [20.0, None, 5.0]),
        ("closest(pt, 18, default=0)", [20.0, 0.0, 5.0]),
        ("any(pairs(pt, 0) - pairs(pt, 1) > 15)", [True, False, False]),
        ("nearest_deltar(eta, 0 * eta, other, 0 * other)", [[0.1, 0.9, 1.9], [], [np.inf]]),
    ],
)
def test_elements_are_combined_within_events(text: str, expected: list[Any]) -> None:
    found = evaluated(text)
    assert len(found) == len(expected)
    for one, wanted in zip(found.tolist(), expected, strict=True):
        assert one == (pytest.approx(wanted) if "deltar" in text else wanted)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pairs(x, 0)", "one value per event"),
        ("pairs(pt, 2)", "a number from 0 or 1"),
        ("triples(pt, 3)", "a number from 0 to 2"),
        ("pairs(pt, x)", "a number from 0 or 1"),
        ("concat(pt, x)", "one value per event"),
        ("min_by(pt, other)", "different numbers of elements"),
        ("min_by(pt, names)", "keys that are numbers"),
        ("nearest_deltar(eta, other, eta, eta)", "different numbers of elements"),
    ],
)
def test_what_cannot_be_combined_is_said(text: str, words: str) -> None:
    with pytest.raises(EvaluationError, match=words):
        evaluated(text)


LISTS = st.lists(st.lists(st.floats(-5, 5, width=32), max_size=6), min_size=1, max_size=8)


@given(LISTS, st.data())
def test_combinations_are_those_of_awkward(values: list[list[float]], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.lists(st.floats(-5, 5), max_size=3), min_size=len(values), max_size=len(values)))
    x, y = _column(values, np.float32), _column(others, np.float64)
    columns = {"x": x, "y": y}
    for size, name in ((2, "pairs"), (3, "triples")):
        for number, wanted in enumerate(ak.unzip(ak.combinations(x, size))):
            assert evaluated(f"{name}(x, {number})", columns).tolist() == wanted.tolist()
    for number, wanted in enumerate(ak.unzip(ak.cartesian([x, y]))):
        assert evaluated(f"cross(x, y, {number})", columns).tolist() == wanted.tolist()
    joined = evaluated("concat(x, y)", columns)
    assert joined.tolist() == ak.concatenate([x, y], axis=1).tolist()
    nearest = ak.firsts(x[ak.argmin(np.abs(x), axis=1, keepdims=True)])
    assert evaluated("min_by(x, abs(x))", columns).tolist() == nearest.tolist()


def _column(values: list[list[float]], dtype: Any) -> ak.Array:
    flat = np.array([number for event in values for number in event], dtype)
    return ak.unflatten(flat, [len(event) for event in values])


def test_the_sum_of_four_vectors_has_the_mass_of_the_pair() -> None:
    rng = np.random.default_rng(7)
    fields = {"pt": rng.uniform(5, 200, 400), "eta": rng.normal(size=400), "phi": rng.uniform(-3, 3, 400)}
    columns = {name: ak.unflatten(values, np.full(100, 4)) for name, values in fields.items()}
    columns["m"] = 0 * columns["pt"] + 0.105
    parts = {
        "px": "px(pt, phi)",
        "py": "py(pt, phi)",
        "pz": "pz(pt, eta)",
        "e": "energy(pt, eta, m)",
    }
    columns |= {name: evaluated(text, columns) for name, text in parts.items()}
    summed = [f"pairs({name}, 0) + pairs({name}, 1)" for name in parts]
    both = [", ".join(f"pairs({name}, {i})" for name in ("pt", "eta", "phi", "m")) for i in (0, 1)]
    of_sum, of_pair = (
        evaluated(f"mass({', '.join(summed)})", columns),
        evaluated(f"invariant_mass({', '.join(both)})", columns),
    )
    assert np.allclose(ak.flatten(of_sum), ak.flatten(of_pair), rtol=1e-9)
    assert np.allclose(ak.flatten(evaluated("pseudorapidity(px, py, pz)", columns)), fields["eta"])
