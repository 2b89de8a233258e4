"""Test the `diagnostics` modifier on columns of every structure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.modifiers.diagnostics import Diagnostics
from cenote.analysis.modifiers.support.column_facts import LONGEST_TYPE, facts_by_name, facts_of
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.events import Events

from .conftest import Around

NAN, INF = float("nan"), float("inf")
NUMBERS = ak.contents.NumpyArray(np.arange(3.0))
FACTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "numbers": (np.array([1.5, NAN, -INF]), {"values": 3, "nan": 1, "infinite": 1, "least": 1.5, "most": 1.5}),
    "flags": (np.array([True, False]), {"type": "bool", "values": 2, "least": 0, "most": 1}),
    "large whole numbers": (np.array([2**62 + 1]), {"least": 2**62 + 1}),
    "complex numbers": (np.array([1j, NAN]), {"values": 2, "nan": 1, "least": None}),
    "several dimensions": (np.ones((3, 2)), {"type": "2 * float64", "values": 6}),
    "objects": (np.array([None, "a"], dtype=object), {"values": 2, "missing": 1}),
    "texts of numpy": (np.array(["a", "b"]), {"values": 2, "least": None}),
    "dates": (np.array(["2026-01-01"], dtype="M8[D]"), {"values": 1, "least": None}),
    "fields of numpy": (np.zeros(2, dtype=[("a", "f4")]), {"values": 2}),
    "nothing": (np.zeros(0), {"values": 0, "least": None, "most": None}),
    "lists": (ak.Array([[1.0, NAN], [], [3.0]]), {"type": "var * float64", "values": 3, "empty": 1, "nan": 1}),
    "lists of lists": (ak.Array([[[1], []], []]), {"values": 1, "empty": 2, "most": 1}),
    "lists of equal length": (ak.to_regular(ak.Array([[1, 2], [3, 4]])), {"values": 4, "empty": 0}),
    "part of an array": (ak.Array([[1, 2], [3], [], [9]])[1:3], {"values": 1, "empty": 1, "least": 3, "most": 3}),
    "numbers that may be missing": (ak.Array([1, None, 3]), {"values": 2, "missing": 1, "most": 3}),
    "lists that may be missing": (ak.Array([[1], None, [2, None]]), {"values": 2, "missing": 2, "empty": 0}),
    "masked": (ak.mask(ak.Array([1.0, 2.0]), [True, False]), {"values": 1, "missing": 1}),
    "texts": (ak.Array(["a", "", "ccc"]), {"type": "string", "values": 3, "empty": 0, "least": None}),
    "categories": (ak.str.to_categorical(ak.Array(["a", "b", "a"])), {"values": 3}),
    "one or the other": (ak.Array([1, "a", [2.5]]), {"values": 3, "most": 2.5}),
    "in another order": (
        ak.Array(ak.contents.IndexedArray(ak.index.Index64(np.array([2, 0])), NUMBERS)),
        {"values": 2, "most": 2.0},
    ),
    "of unknown type": (ak.Array([]), {"type": "unknown", "values": 0}),
    "lists without events": (ak.Array([[1.0]])[:0], {"values": 0, "empty": 0}),
}


@pytest.mark.parametrize("case", FACTS)
def test_every_structure_is_understood(case: str) -> None:
    column, expected = FACTS[case]
    found = vars(facts_of(column))
    assert {name: found[name] for name in expected} == expected
    assert found["bytes"] >= 0


def test_columns_in_the_memory_of_a_gpu_are_fetched() -> None:
    class OnDevice:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            raise AssertionError("nobody computes there")

        def get(self) -> Any:
            return np.array([1.0, NAN])

    assert (facts_of(OnDevice()).values, facts_of(OnDevice()).nan) == (2, 1)


def test_fields_of_records_are_told_one_by_one() -> None:
    muons = ak.Array([[{"pt": 1.0, "where": {"eta": NAN}}], []])
    found = dict(facts_by_name("Muon", muons))
    assert set(found) == {"Muon.pt", "Muon.where.eta"}
    assert (found["Muon.pt"].most, found["Muon.where.eta"].nan) == (1.0, 1)


def test_a_long_type_is_cut() -> None:
    column = ak.Array([(0,) * 50])
    assert len(facts_of(column).type) == LONGEST_TYPE


def test_columns_that_the_stage_reads_and_adds_have_rows(around: Around) -> None:
    def half(events: Events) -> Result:
        kept = events.where(np.arange(events.size) % 2 == 0)
        return Result(kept.with_columns({"score": np.full(kept.size, NAN)}))

    call = around(Diagnostics(), half, reads=("Muon_pt", "not_here"), adds=("score",))
    assert call.measured.values == {"events_in": 60, "events_out": 30}
    assert set(call.measured.rows) == {"in Muon_pt", "out score"}
    assert call.measured.rows["in Muon_pt"]["type"] == "var * float32"
    assert call.measured.rows["out score"]["nan"] == 30
    assert list(call.warnings.messages) == []


@pytest.mark.parametrize(("reads", "warned"), [(("MET_pt",), True), (("spoilt",), False)], ids=["good", "spoilt"])
def test_on_request_nan_made_of_good_values_is_warned_of(around: Around, reads: tuple[str, ...], warned: bool) -> None:
    def logarithm(events: Events) -> Result:
        return Result(events.with_columns({"log": np.full(events.size, -INF)}))

    class Spoilt(Diagnostics):
        def around(self, run: Any, events: Events, call: Any) -> Result:
            shown = replace(events, columns={**events.columns, "spoilt": np.full(events.size, NAN)})
            return super().around(lambda _: run(events), shown, call)

    call = around(Spoilt(warn=True), logarithm, reads=reads, adds=("log",))
    assert [("makes some in log" in warning) for warning in call.warnings.messages] == [True] * warned
