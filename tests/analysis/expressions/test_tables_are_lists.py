"""Own code gives tables, which have the same number of values for each event: they count as lists like any others."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.expressions.parser import Expression

TABLE = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
"""As many events as each has values: a wrong axis is no error then."""
LISTS = ak.values_astype(ak.Array(TABLE.tolist()), np.float32)
ROWS = {"w": np.array([1.0, 10.0, 100.0]), "n": np.array([1, 2, 3])}
TEXTS = [
    *("x * w", "n * x", "x > n", "x ** n", "x % n", "x // n", "n < x < w", "(x > 2) & (n > 1)", "maximum(x, w)"),
    *("min(x, n)", "clip(x, n, 8)", "atan2(x, n)", "hypot(x, w)", "where(n > 1, x, 0.1)", "where(n > 1, x, w)"),
    *("where(x > 2, x, w)", "where(x > 2, w, n)", "sum(x * w)", "x[x > n]", "closest(x, n)", "px(x, w)"),
    *("deltar(x, x, w, w)", "mass(x, x, x, w)", "transverse_mass(x, x, w, w)", "argmax(x)", "nth(x, n)", "mean(x)"),
]


def value(text: str, table: Any) -> list[Any]:
    found = Expression(text).evaluate(lambda name: table if name == "x" else ROWS[name])
    return ak.to_list(found)  # type: ignore[no-any-return]  # awkward publishes no types


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("table", [TABLE, ak.Array(TABLE), ak.to_regular(LISTS)])
def test_a_value_per_event_is_joined_with_the_row_of_its_event(text: str, table: Any) -> None:
    assert value(text, table) == value(text, LISTS)


def test_a_table_of_one_column_has_one_value_per_event() -> None:
    assert value("sum(x * w)", TABLE[:, :1]) == [1.0, 40.0, 700.0]


def test_tables_of_tables_are_lists_of_lists() -> None:
    assert value("sum(sum(x * w))", np.ones((3, 2, 3))) == [6.0, 60.0, 600.0]
