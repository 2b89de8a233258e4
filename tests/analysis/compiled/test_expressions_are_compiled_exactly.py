"""Compiled expressions give what numpy and awkward give: the same types, lengths and bits."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.compiled_stages import Stage, assert_same, compiled, events_of, ordinary
from cenote.analysis.expressions.problems import EvaluationError
from cenote.language.plugins.registry import BadSettingsError

TYPES = {"f": "f8", "g": "f4", "i": "i4", "j": "i8", "u": "u2", "s": "i1", "b": "?", "w": "u1", "v": "u4"}
LISTS = {"F": "f8", "G": "f4", "I": "i4", "J": "i8", "U": "u2", "S": "i1", "B": "?"}
ODD = [0, 1, -1, 2, 0.1, 1e-300, 1e300, float("nan"), float("inf"), -0.0, 127, 65535, 2**31 - 1, -(2**31), 40.5, -7]
COUNTS = [0, 3, 1, 0, 2, 5, 0, 0, 1, 1, 4, 2, 0, 3, 6, 0]
EXAMPLES = 2_000 if os.environ.get("CENOTE_DEEP_TESTS") else 40
BINARY = ["+", "-", "*", "/", "<", "<=", ">", "==", "!=", "and", "or", "&", "|", "^", "//", "%", "**", "<<"]
FUNCTIONS = [
    "abs",
    "sqrt",
    "exp",
    "sin",
    "floor",
    "ceil",
    "isnan",
    "isfinite",
    "isinf",
    "round",
    "sign",
    "not ",
    "-",
    "~",
]
PAIRS = ["minimum", "maximum", "arctan2", "hypot", "min", "max", "deltaphi"]


def texts(names: list[str]) -> st.SearchStrategy[str]:
    """Expressions value by value."""
    leaves = st.sampled_from([*names, "k", "h", "2", "0.5", "1e30", "300", "dataset_xsec", "pi"])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(BINARY), inner).map(lambda found: f"({found[0]} {found[1]} {found[2]})"),
            st.tuples(st.sampled_from(FUNCTIONS), inner).map(lambda found: f"({found[0]}({found[1]}))"),
            st.tuples(st.sampled_from(PAIRS), inner, inner).map(lambda found: f"{found[0]}({found[1]}, {found[2]})"),
            inner.map(lambda found: f"(({found})**2)"),
            st.tuples(inner, inner, inner).map(lambda found: f"where({found[0]}, {found[1]}, {found[2]})"),
            st.tuples(inner, inner, inner).map(lambda found: f"({found[0]} < {found[1]} <= {found[2]})"),
        ),
        max_leaves=6,
    )


jagged = st.one_of(
    texts([*LISTS, "f", "i", "b"]),
    st.tuples(
        st.sampled_from(["sum", "count_nonzero", "any", "all", "num", "prod", "count"]), texts([*LISTS, "g"])
    ).map(lambda found: f"{found[0]}({found[1]})"),
    st.tuples(st.sampled_from([*LISTS]), texts(["F", "G", "I"])).map(lambda found: f"{found[0]}[({found[1]}) > 1]"),
    st.tuples(st.sampled_from([*LISTS]), st.integers(-3, 3), st.sampled_from(["0", "-1.5", "7"])).map(
        lambda found: f"nth({found[0]}, {found[1]}, {found[2]})"
    ),
    st.sampled_from(
        ["sum(F[F > 1])", "num(G[B])", "nth(F[G > 0], 1, 0.0)", "first(I, default=3)", "last(F, default=-1)"]
    ),
    st.sampled_from(["sum(pairs(F, 0) * pairs(G, 1))", "pairs(F, 0)[pairs(G, 0) < pairs(G, 1)]", "position(F)"]),
    st.tuples(st.sampled_from(["pairs", "triples"]), texts(["F", "G", "f"]), st.integers(0, 1)).map(
        lambda found: f"{found[0]}({found[1]} + F, {found[2]})"
    ),
    st.tuples(st.sampled_from(["min_by", "max_by"]), texts(["F", "G", "I"]), texts(["F", "G", "J"])).map(
        lambda found: f"{found[0]}({found[1]} + F, {found[2]} + 0 * G, default=-1)"
    ),
    st.tuples(texts(["F", "G"]), texts(["E", "f"])).map(
        lambda found: f"nearest_deltar({found[0]} + F, G, concat(E, {found[0]} + F), concat({found[1]} + E, F))"
    ),
    st.tuples(texts(["F", "B"]), texts(["E", "f"])).map(
        lambda found: f"concat({found[0]} + F, ({found[1]} + E)[E > 0])"
    ),
    st.sampled_from(["leading(F)", "subleading(I, 2)", "F / sum(F)", "sum(F[(G > 0) & B] * I[(G > 0) & B])"]),
)


def columns(shift: int = 0, *, rows: slice = slice(None)) -> dict[str, Any]:
    """Odd values of every type, flat and in lists with empty ones among them."""
    values = np.array(ODD, dtype=np.float64)
    content = np.resize(values, sum(COUNTS))

    def cast(array: Any, kind: str) -> Any:
        return np.nan_to_num(array).astype(kind) if kind[0] in "iu?" else array.astype(kind)

    with np.errstate(all="ignore"):
        flat = {name: np.roll(cast(values, kind), n * shift)[rows] for n, (name, kind) in enumerate(TYPES.items())}
        lists = {
            name: ak.unflatten(np.roll(cast(content, kind), n * shift), COUNTS)[rows]
            for n, (name, kind) in enumerate(LISTS.items())
        }
    others = ak.unflatten(np.roll(content, 7 + shift), COUNTS[::-1])[rows]
    return {**flat, **lists, "E": others}


def check(written: list[str], data: dict[str, Any]) -> bool:
    """Whether expressions have a compiled form for these columns; it gives the same as the ordinary way."""
    params = {"variables": [{"name": f"new{n}", "expr": text} for n, text in enumerate(written)]}
    stages, events = [Stage("new", "define", params)], events_of(data)
    try:
        expected = ordinary(stages, events)
    except EvaluationError:
        assert compiled(stages, events) is None
        return False
    found = compiled(stages, events)
    if found is not None:
        assert_same(found, expected)
    return found is not None


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=texts([*TYPES]), shift=st.integers(0, 15))
def test_one_value_per_event(text: str, shift: int) -> None:
    with suppress(BadSettingsError):
        check([text], columns(shift))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=jagged, shift=st.integers(0, 15))
def test_lists(text: str, shift: int) -> None:
    with suppress(BadSettingsError):
        check([text], columns(shift))


COMPILED = [
    *(
        "f + i",
        "g * 2",
        "i - u",
        "f / j",
        "i // 2",
        "f % 0.3",
        "g ** 2",
        "f ** 3",
        "exp(g) + sin(f)",
        "exp(sin(f)) > 0.5",
    ),
    *("i & 7", "(f > 1) & b", "b | (i == 3)", "~b", "-s", "abs(g) < 2.4", "sqrt(f)", "round(f, 1)", "-1 < g <= 2"),
    *("where(b, f, 0)", "where(i > 2, i, g)", "max(f, g, 3)", "isnan(f)", "floor(g)", "b + b", "b * b", "i * k + h"),
    *("dataset_xsec * f", "2 * pi", "F + G", "G > 20", "F * f", "sum(F)", "sum(G)", "sum(I)", "sum(B)", "any(G > 1)"),
    *("all(F > 0)", "count_nonzero(I)", "num(F)", "count(F)", "prod(G)", "F[F > 1]", "sum(F[G > 1])", "exp(F)"),
    *("nth(F, 1, 0.0)", "nth(I, -1, 9)", "first(F, default=0)", "last(G, default=-1)", "leading(F)", "F / sum(F)"),
    *("pairs(F, 0)", "triples(G, 2)", "sum(pairs(F, 0) * pairs(F, 1))", "count_nonzero(pairs(B, 0) & pairs(B, 1))"),
    *(
        "num(pairs(F, 0))",
        "pairs(F, 1)[pairs(F, 0) > 1]",
        "sum(pairs(exp(F), 0) - exp(pairs(G, 1)))",
        "pairs(F * f, 1)",
    ),
    *(
        "min_by(F, G, default=nan)",
        "max_by(I, F, default=7)",
        "min_by(F[F < 3], abs(F[F < 3]), default=0)",
        "position(F)",
    ),
    *(
        "closest(F, 2.5, default=-1)",
        "min_by(pairs(F, 0), abs(pairs(F, 0) + pairs(F, 1)), default=nan)",
        "position(pairs(F, 0))",
    ),
    *(
        "mass(F, G, F, G)",
        "max(F, G, 0)",
        "minimum(f, g)",
        "min_by(mass(triples(F, 0), triples(G, 1), 0, 5.5), triples(F, 2), default=0)",
    ),
    *(
        "any(pairs(I, 0) != pairs(I, 1))",
        "max(triples(F, 0), triples(G, 1), 1)",
        "num(F) * min_by(F, f * F, default=1)",
    ),
    *("concat(F, G)", "concat(F[F > 1], E)", "num(concat(F, E))", "sum(concat(I, F))", "pairs(concat(F, E), 1)"),
    *("sum(pairs(concat(F, E), 0) * pairs(concat(G, E), 1))", "nth(concat(F, E), 3, 0.5)", "cross(F, E, 1)"),
    *(
        "sum(cross(F, E, 0) - cross(G, E, 1))",
        "nearest_deltar(F, G, E, E)",
        "nearest_deltar(F, G, F, G)",
        "deltar(F, G, f, g)",
    ),
    *("sum(F[nearest_deltar(F, G, concat(E, F[F > 1]), concat(E, G[F > 1])) > 0.4])", "position(concat(E, F))"),
    *(
        "max_by(concat(F, E), exp(concat(G, E)), default=-1)",
        "sum(concat(exp(F), sin(E)))",
        "concat(F, E)[concat(F, E) > 1]",
    ),
    *("sum(exp(F[F < 3]))", "deltaphi(F, f)", "nth(exp(F), 0, 1.5)", "G ** 2 + F ** 2", "F[(G > 0) & B] * 2"),
]


@pytest.mark.parametrize("text", COMPILED)
def test_what_is_common_has_a_compiled_form(text: str) -> None:
    assert check([text], columns(3))


def test_many_at_once_and_of_each_other() -> None:
    chain = ["sum(F) + new0 * 0", "exp(g)"]
    params = {
        "variables": [{"name": "new0", "expr": "sqrt(f) + num(F)"}]
        + [{"name": f"new{n + 1}", "expr": text} for n, text in enumerate(chain)]
    }
    stages, events = [Stage("new", "define", params)], events_of(columns(1))
    found = compiled(stages, events)
    assert found is not None
    assert_same(found, ordinary(stages, events))


@pytest.mark.parametrize("rows", [slice(0, 0), slice(3, 4), slice(2, 9)])
def test_parts_of_lists_and_no_events_at_all(rows: slice) -> None:
    assert check(["sum(F) + f", "G * 2", "nth(I, 1, 0)", "F[F > 1]"], columns(2, rows=rows))


@pytest.mark.parametrize("text", ["F[:, 0]", "I[:, -2]"])
def test_too_few_elements_are_an_error_the_ordinary_way_explains(text: str) -> None:
    long = columns(rows=slice(4, 6))
    assert check([text], long)
    assert not check([text], columns())


@pytest.mark.parametrize("text", ["F[E > 1]", "sum(F[E > 1])", "i % j", "I // I", "nth(F, i)", "nth(F, s, default=7)"])
def test_conditions_of_others_and_what_may_be_missing_are_left_to_the_ordinary_way(text: str) -> None:
    assert not check([text], columns())
