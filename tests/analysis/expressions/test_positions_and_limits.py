"""Positions that come from data, what is not a number, precision of defaults, and the limits of whole numbers."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

from builders.compiled_stages import Stage, compiled, events_of
from cenote.analysis.expressions.arrays import leaf_type
from cenote.analysis.expressions.parser import Expression
from cenote.analysis.expressions.problems import EvaluationError

NAN = float("nan")
COLUMNS: dict[str, Any] = {
    "Jet_pt": ak.values_astype(ak.Array([[120.0, 30.0], [50.0], []]), np.float32),
    "Muon_jetIdx": ak.values_astype(ak.Array([[-1, 1, 0], [1], [0]]), np.int32),
    "one": np.array([-1, 0, 5]),
    "odd": ak.Array([[NAN, 2.0, 1.0], [NAN, NAN], []]),
    "u8": np.array([1, 70, 255], np.uint8),
    "u32": np.array([1, 2, 2**32 - 1], np.uint32),
    "u64": np.array([1, 2, 2**64 - 1], np.uint64),
    "i64": np.array([1, 2**62, -(2**63)]),
    "lists": ak.Array([[2**62, 2**62], [1], []]),
    "ids": ak.unflatten(np.array([2**63 + 1], np.uint64), [1, 0, 0]),
}


def value(text: str) -> Any:
    return Expression(text).evaluate(COLUMNS.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Jet_pt[Muon_jetIdx]", [[None, 30.0, 120.0], [None], [None]]),
        ("sum(Jet_pt[Muon_jetIdx])", [150.0, 0.0, 0.0]),
        ("nth(Jet_pt, one)", [None, 50.0, None]),
        ("nth(Jet_pt, -1)", [30.0, 50.0, 0.0]),
        ("argmax(odd)", [1, None, None]),
        ("argmin(odd)", [2, None, None]),
        ("max(odd)", [2.0, None, None]),
        ("fill_none(first(Jet_pt), one)", [120.0, 50.0, 5.0]),
    ],
)
def test_positions(text: str, expected: list[Any]) -> None:
    assert ak.to_list(value(text)) == expected


def test_what_is_no_number_is_sorted_last() -> None:
    np.testing.assert_array_equal(ak.flatten(value("sort(odd)")), [1.0, 2.0, NAN, NAN, NAN])


@pytest.mark.parametrize("text", ["first(Jet_pt, default=0)", "leading(Jet_pt)", "max_by(Jet_pt, Jet_pt, default=0.5)"])
def test_a_default_takes_the_precision_of_the_column(text: str) -> None:
    assert value(text).dtype == np.float32


@pytest.mark.parametrize("text", ["where({} > 40, {}, 0.1)", "where({} > 40, 0, {})"])
@pytest.mark.parametrize("column", ["Jet_pt", "first(Jet_pt)", "Jet_pt[Muon_jetIdx]", "fill_none(first(Jet_pt), 0)"])
def test_a_number_to_choose_takes_the_precision_of_the_column_beside_it(text: str, column: str) -> None:
    assert leaf_type(value(text.format(column, column))) == np.float32


def test_a_number_to_choose_leaves_large_whole_numbers_exact() -> None:
    assert value("where(ids > 7, ids, 0)").tolist() == [[2**63 + 1], [], []]


@pytest.mark.parametrize("text", ["fill_none(first(ids), 7)", "first(ids, default=7)", "max_by(ids, ids, default=7)"])
def test_a_default_leaves_large_whole_numbers_exact(text: str) -> None:
    assert value(text).tolist() == [2**63 + 1, 7, 7]


def test_a_default_below_zero_gives_signed_numbers() -> None:
    assert value("first(Muon_jetIdx[Muon_jetIdx > 0], default=-1)").tolist() == [1, 1, -1]


@pytest.mark.parametrize(
    "text",
    [
        "2 ** u8",
        "u8 << 60",
        "u64 + 1",
        "u64 * 2",
        "i64 - 1",
        "i64 + i64",
        "-i64",
        "abs(i64)",
        "i64 * 4",
        "u32 * u32",
        "u32 ** 2",
        "i64 // -1",
        "sum(lists)",
        "prod(lists)",
    ],
)
def test_whole_numbers_that_do_not_fit_are_refused_in_both_ways(text: str) -> None:
    with pytest.raises(EvaluationError, match="64 bits"):
        value(text)
    stage = Stage("new", "define", {"variables": [{"name": "new", "expr": text}]})
    assert compiled([stage], events_of(COLUMNS)) is None
