"""Check the rules of numbers: what an expression gives is what exact arithmetic gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.analysis.expressions.functions import CONSTANTS
from cenote.analysis.expressions.parser import Expression
from cenote.analysis.expressions.problems import EvaluationError

WHOLE_TYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
FLAT, LISTS, WITH_MISSING = "flat", "lists", "with missing values"
FORMS = (FLAT, LISTS, WITH_MISSING)


def formed(values: Any, form: str) -> Any:
    """The values as a flat column, in lists (some of them empty), or with one missing value at the end."""
    if form == FLAT:
        return values
    if form == LISTS:
        return ak.unflatten(values, [0, len(values) // 2, 0, len(values) - len(values) // 2])
    return ak.concatenate([ak.Array(values), ak.Array([None])])


def value(text: str, form: str = FLAT, **columns: Any) -> list[Any]:
    """All values of an expression in a row, missing ones left out."""
    known = CONSTANTS | {name: formed(column, form) for name, column in columns.items()}
    found = Expression(text).evaluate(known.__getitem__)
    flattened: list[Any] = ak.to_list(ak.drop_none(ak.flatten(found, axis=None)))
    return flattened


A, B = np.array([1.0, -1.0, 2.0, -2.0]), np.array([3.0, 3.0, -3.0, -3.0])
COUNTS = np.array([0, 1, 2, 3])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(a > 0) + (b > 0) >= 2", [True, False, False, False]),
        ("(a > 0) + (b > 0)", [2, 1, 1, 0]),
        ("(a > 0) - (b > 0)", [0, -1, 1, 0]),
        ("-(a > 0)", [-1, 0, -1, 0]),
        ("+(a > 0)", [1, 0, 1, 0]),
        ("(a > 0) * 300", [300, 0, 300, 0]),
        ("(a > 0) * 0.5", [0.5, 0.0, 0.5, 0.0]),
        ("(a > 0) * (b > 0)", [True, False, False, False]),
        ("(a > 0) * (b > 0) + (a > 0)", [2, 0, 1, 0]),
        ("(a > 0) ** 2 + 1", [2, 1, 2, 1]),
        ("where(a > 0, b > 0, -1)", [1, -1, 0, -1]),
        ("where(a > 0, b > 0, false)", [True, False, False, False]),
        ("sqrt(a > 0) + 0.1", [1.1, 0.1, 1.1, 0.1]),
        ("True * (a > 0) + True", [2, 1, 2, 1]),
    ],
)
def test_conditions_count_as_0_and_1(text: str, expected: list[Any], form: str) -> None:
    assert value(text, form, a=A, b=B) == expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n - 2 >= 0", [False, False, True, True]),
        ("n - n - 1", [-1, -1, -1, -1]),
        ("2 - n", [2, 1, 0, -1]),
        ("-n", [0, -1, -2, -3]),
        ("abs(n - 2)", [2, 1, 0, 1]),
        ("where(n > 1, n, -1)", [-1, -1, 2, 3]),
        ("min(n, -1)", [-1, -1, -1, -1]),
        ("maximum(n, -1)", [0, 1, 2, 3]),
        ("clip(n, -1, 2)", [0, 1, 2, 2]),
        ("n > -1", [True, True, True, True]),
        ("n != 300", [True, True, True, True]),
        ("-1 < n < 1000", [True, True, True, True]),
        ("n * 300", [0, 300, 600, 900]),
        ("n + 5000000000", [5000000000, 5000000001, 5000000002, 5000000003]),
        ("n * -1", [0, -1, -2, -3]),
        ("(n + 20) ** 5", [20**5, 21**5, 22**5, 23**5]),
        ("(n + 1) ** -1", [1.0, 1 / 2, 1 / 3, 1 / 4]),
        ("n // -2", [0, -1, -1, -2]),
        ("n % -2", [0, -1, 0, -1]),
        ("n << 20", [0, 1 << 20, 2 << 20, 3 << 20]),
        ("1 << (n + 30)", [1 << 30, 1 << 31, 1 << 32, 1 << 33]),
        ("n & 257", [0, 1, 0, 1]),
        ("n & ~1", [0, 0, 2, 2]),
        ("(~n & 1) != 0", [True, False, True, False]),
        ("sqrt(n + 2)", [math.sqrt(k + 2) for k in range(4)]),
        ("arctan2(n, 3)", [math.atan2(k, 3) for k in range(4)]),
        ("hypot(n, n)", [math.hypot(k, k) for k in range(4)]),
        ("n / 3", [0.0, 1 / 3, 2 / 3, 1.0]),
        ("low - n", [-7, -8, -9, -10]),
    ],
)
def test_unsigned_columns_do_not_wrap(text: str, expected: list[Any], kind: str, form: str) -> None:
    low = np.full(4, -7, dtype=np.int16)
    assert value(text, form, n=COUNTS.astype(kind), low=low) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", WHOLE_TYPES[1:])
def test_whole_numbers_that_zero_divides_are_missing(kind: str, form: str) -> None:
    columns = {"n": COUNTS.astype(kind), "by": np.array([0, 2, 0, 2], kind)}
    assert value("n % by", form, **columns) == [1, 1]
    assert value("n // by", form, **columns) == [0, 1]
    assert value("fill_none(n // by, 9)", form, **columns)[:4] == [9, 0, 9, 1]
    assert value("n % 2.0", form, **columns) == [0, 1, 0, 1]
    with pytest.raises(EvaluationError, match="divided by zero"):
        value("n % 0", form, **columns)


def test_elements_of_events_do_not_wrap() -> None:
    lists = {
        "n": ak.values_astype(ak.Array([[200, 100], [], [50]]), np.uint8),
        "ok": ak.Array([[True, True], [], [False]]),
    }
    of = lambda text: Expression(text).evaluate(lists.__getitem__).tolist()  # noqa: E731  # reads as a word below
    assert of("sum(n) - 301") == [-1, -301, -251]
    assert of("prod(n)") == [20000, 1, 50]
    assert of("sum(ok) - 1") == [1, -1, -1]
    assert of("first(n, default=-1)") == [200, -1, 50]
    assert of("nth(n, 1, -1)") == [100, -1, -1]
    assert of("fill_none(max(n), -1)") == [200, -1, 50]
    assert of("leading(ok) + 1") == [2.0, 1.0, 1.0]
    assert of("max(n) - min(n) - 200") == [-100, None, -200]
    assert of("n - 201") == [[-1, -101], [], [-151]]


def test_large_unsigned_numbers_are_exact_or_refused() -> None:
    large = np.array([2**63 + 5, 2**64 - 1, 3], dtype=np.uint64)
    assert value("n % 10", n=large) == [(2**63 + 5) % 10, (2**64 - 1) % 10, 3]
    assert value("n > -1", n=large) == [True, True, True]
    assert value("n > -1", LISTS, n=large) == [True, True, True]
    assert value("(n & 1) + (n >> 1)", n=large) == [1 + 2**62 + 2, 1 + 2**63 - 1, 2]
    for text in ("n - 1", "-n", "where(n > 4, n, -1)", "n + low"):
        with pytest.raises(EvaluationError, match="whole numbers of 2\\*\\*63 and more"):
            value(text, n=large, low=np.array([-1, -1, -1]))


def whole_columns() -> st.SearchStrategy[tuple[str, list[int]]]:
    def of(kind: str) -> st.SearchStrategy[tuple[str, list[int]]]:
        limits = (0, 1) if kind == "?" else (np.iinfo(kind).min, np.iinfo(kind).max)
        small = st.integers(max(int(limits[0]), -(2**31)), min(int(limits[1]), 2**31))
        return st.tuples(st.just(kind), st.lists(small, min_size=3, max_size=3))

    return st.sampled_from(WHOLE_TYPES).flatmap(of)


EXACT: dict[str, Callable[[int, int], Any]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a // (b * b + 1)": lambda a, b: a // (b * b + 1),
    "a % (b * b + 1)": lambda a, b: a % (b * b + 1),
    "-a - -b": lambda a, b: b - a,
    "a < b": lambda a, b: a < b,
    "a == b": lambda a, b: a == b,
    "min(a, b)": min,
    "max(a, b, -3)": lambda a, b: max(a, b, -3),
    "where(a > b, a, b)": max,
    "where(a > 5, a, -2147483648)": lambda a, b: a if a > 5 else -(2**31),  # noqa: ARG005
    "clip(a, b, 4294967296)": lambda a, b: max(a, b),
    "abs(a) + abs(b)": lambda a, b: abs(a) + abs(b),
    "a ** 2 - b ** 2": lambda a, b: a**2 - b**2,
    "a * weight": lambda a, b: a * -3,  # noqa: ARG005
    "a - flag": lambda a, b: a - True,  # noqa: ARG005
}


@pytest.mark.parametrize("text", EXACT)
@settings(max_examples=30, deadline=None)
@given(a=whole_columns(), b=whole_columns(), form=st.sampled_from(FORMS))
def test_whole_numbers_of_all_types_compute_as_in_the_mind(
    text: str, a: tuple[str, list[int]], b: tuple[str, list[int]], form: str
) -> None:
    columns = {"a": formed(np.array(a[1]).astype(a[0]), form), "b": formed(np.array(b[1]).astype(b[0]), form)}
    found = Expression(text).evaluate({**columns, "weight": -3, "flag": True}.__getitem__)
    expected = [EXACT[text](one, other) for one, other in zip(a[1], b[1], strict=True)]
    assert ak.to_list(ak.drop_none(ak.flatten(found, axis=None))) == expected


# --- kinematics -----------------------------------------------------------------------------------------------------


def cosine(x: Decimal) -> Decimal:
    """By its series, in the precision of the context."""
    term, total, n = Decimal(1), Decimal(1), 0
    while abs(term) > Decimal(10) ** -75:
        n += 2
        term *= -x * x / (n * (n - 1))
        total += term
    return total


def exact_mass(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """`sqrt((E₁+E₂)² - (p₁+p₂)²)` with 80 digits, where nothing is lost by subtracting."""
    with localcontext(prec=80):
        (pt_1, eta_1, phi_1, m_1), (pt_2, eta_2, phi_2, m_2) = (map(Decimal, p) for p in (one, other))
        sinh_1, sinh_2 = ((x.exp() - (-x).exp()) / 2 for x in (eta_1, eta_2))
        energy_1 = (pt_1**2 * (1 + sinh_1**2) + m_1**2).sqrt()
        energy_2 = (pt_2**2 * (1 + sinh_2**2) + m_2**2).sqrt()
        product = energy_1 * energy_2 - pt_1 * pt_2 * (cosine(phi_1 - phi_2) + sinh_1 * sinh_2)
        return float((m_1**2 + m_2**2 + 2 * product).sqrt())


def close_pairs(distance: float, mass: float, kind: str) -> list[Any]:
    random = np.random.default_rng(5)
    angle = random.uniform(0, 2 * math.pi, 40)
    pt_1, pt_2 = random.uniform(150, 250, (2, 40))
    eta, phi = random.uniform(-2.5, 2.5, 40), random.uniform(-3, 3, 40)
    masses = np.full(40, mass)
    found = [pt_1, eta, phi, masses, pt_2, eta + distance * np.cos(angle), phi + distance * np.sin(angle), masses]
    return [column.astype(kind) for column in found]


@pytest.mark.parametrize("form", [FLAT, LISTS])
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("mass", [0.0, 0.000511, 0.10566, 80.4])
@pytest.mark.parametrize("distance", [1.0, 0.05, 1e-3, 1e-6])
def test_masses_of_close_pairs_are_exact(distance: float, mass: float, kind: str, form: str) -> None:
    columns = close_pairs(distance, mass, kind)
    expected = [exact_mass(row[:4], row[4:]) for row in zip(*(c.tolist() for c in columns), strict=True)]
    named = dict(zip("abcdefgh", columns, strict=True))
    assert value("invariant_mass(a, b, c, d, e, f, g, h)", form, **named) == pytest.approx(expected, rel=1e-12)
    if mass == 0:
        assert value("invariant_mass(a, b, c, e, f, g)", form, **named) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("form", [FLAT, LISTS])
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("distance", [1.0, 0.05, 1e-3, 1e-6])
def test_small_angles_are_not_lost(distance: float, kind: str, form: str) -> None:
    _, eta_1, phi_1, _, _, eta_2, phi_2, _ = close_pairs(distance, 0.0, kind)
    angles = [a - b for a, b in zip(phi_1.tolist(), phi_2.tolist(), strict=True)]
    distances = [math.hypot(a - b, d) for a, b, d in zip(eta_1.tolist(), eta_2.tolist(), angles, strict=True)]
    columns = {"a": eta_1, "b": phi_1, "c": eta_2, "d": phi_2}
    assert value("deltaphi(b, d)", form, **columns) == angles
    assert value("deltar(a, b, c, d)", form, **columns) == pytest.approx(distances, rel=1e-15)
    expected = [2 * 100 * abs(math.sin(angle / 2)) for angle in angles]
    assert value("transverse_mass(100, b, 100, d)", form, **columns) == pytest.approx(expected, rel=1e-14)


def test_objects_without_momentum_have_their_masses() -> None:
    nothing, one = np.zeros(2), np.array([0.0, 1.5])
    found = value("invariant_mass(p, p, p, m, p, p, p, m)", p=nothing, m=one)
    assert found == [0.0, 3.0]


@given(turns=st.integers(-3, 3), angle=st.floats(-math.pi, math.pi, exclude_max=True))
def test_differences_of_azimuths_are_within_half_a_turn(turns: int, angle: float) -> None:
    (found,) = value("deltaphi(a, 0)", a=np.array([angle + turns * 2 * math.pi]))
    assert -math.pi <= found < math.pi
    assert math.cos(found) == pytest.approx(math.cos(angle), abs=1e-14)
