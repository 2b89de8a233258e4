"""Kernels compute what their operations compute, to the last bit. Run in a process of its own, where Numba simulates a
GPU: `test_cuda_jit.py` starts it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote import kernel, operation
from cenote.analysis.modifiers.cuda.jit import Jit
from cenote.analysis.modifiers.interface import StageCall
from cenote.analysis.operations.define import Define
from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.events import Events
from cenote.execution.worker.modified import run_modified
from cenote.testing.sample_events import same_column, sample_events


def own(code: Callable[..., Any], *, reads: list[str], kernels: dict[str, Any], **params: Any) -> Operation:
    decorated = operation("custom.own", reads=reads, adds=list(kernels), kernels=kernels)(code)
    made: Operation = decorated.cenote_factory(**params)  # type: ignore[attr-defined]
    return made.for_stage("Stage")


def both_ways(stage: Operation, events: Events, **settings: Any) -> tuple[Events, Events, StageCall]:
    call = StageCall("cuda.jit", "Stage", stage, tuple(stage.reads()), tuple(stage.adds()), measures=Jit.measures)
    modified = run_modified([(Jit(**settings), call)], stage.run, events)
    return modified.events, stage.run(events).events, call


def same(one: Events, other: Events) -> bool:
    return one.names == other.names and all(
        same_column(one[name], other[name]) if isinstance(one[name], ak.Array) else _same_bits(one[name], other[name])
        for name in one.names
    )


def _same_bits(one: Any, other: Any) -> bool:
    numbers = other == other  # NaN has many patterns, which mean the same
    same_kind = one.dtype == other.dtype and np.array_equal(one, other, equal_nan=other.dtype.kind == "f")
    return bool(same_kind and np.array_equal(np.signbit(one[numbers]), np.signbit(other[numbers])))


EXPRESSIONS = {
    "of events": {"met": "sqrt(MET_px**2 + MET_py**2)"},
    "of elements": {"p": "sqrt(Cart_Px * Cart_Px + Cart_Py * Cart_Py)"},
    "of elements and events": {"share": "Muon_pt / MET_pt"},
    "conditions": {"good": "Muon_pt > 20 and abs(Muon_eta) < 2.4"},
    "conditions that count": {"n": "(MET_pt > 20) + (weight > 1) * 2"},
    "choices": {"clipped": "where(MET_pt > 50, 50, MET_pt)"},
    "one after the other": {"a": "2 * MET_pt", "b": "a - MET_px", "c": "-b / a"},
    "whole numbers": {"n": "nMuon - nJet", "half": "nJet / 2"},
    "constants": {"scaled": "weight * LUMI"},
    "facts": {"scaled": "weight * dataset_xs"},
    "nothing from nothing": {"bad": "(MET_pt - MET_pt) / (MET_pt - MET_pt)", "root": "sqrt(MET_px)"},
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the simulator divides by zero in threads of its own
@pytest.mark.parametrize("size", [60, 1, 0])
@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_expressions(kind: str, size: int) -> None:
    events = sample_events(60)
    events = events if size == 60 else events.where(np.arange(60) < size)
    found, expected, call = both_ways(Define(variables=EXPRESSIONS[kind]), events)
    assert same(found, expected)
    assert call.measured.values["ran"] == "Numba's simulator"
    assert list(call.warnings.messages) == ["modifier 'cuda.jit': kernels run in Numba's simulator, not on a GPU"]


def test_own_kernels_of_values_with_params() -> None:
    def scaled(Muon_pt, MET_pt, factor):  # noqa: N803  # columns
        return factor * Muon_pt / math.sqrt(MET_pt)

    def code(events: Events, *, factor: float = 2.0) -> dict[str, Any]:
        return {"scaled": factor * ak.values_astype(events["Muon_pt"], np.float64) / np.sqrt(events["MET_pt"])}

    stage = own(code, reads=["Muon_pt", "MET_pt"], kernels={"scaled": kernel(scaled, "float64")}, factor=1.5)
    found, expected, _ = both_ways(stage, sample_events())
    assert same(found, expected)


def test_own_kernels_of_events() -> None:
    def hardest(pt, floor):
        best = floor
        for value in pt:
            best = max(best, value)
        return best

    def code(events: Events, *, floor: float = 5.0) -> dict[str, Any]:
        found = np.maximum(ak.fill_none(ak.max(events["Muon_pt"], axis=1), floor), floor)
        return {"hardest": ak.to_numpy(found).astype(np.float64)}

    of_events = kernel(hardest, "float64", per="event", columns={"pt": "Muon_pt"})
    stage = own(code, reads=["Muon_pt"], kernels={"hardest": of_events})
    found, expected, _ = both_ways(stage, sample_events())
    assert same(found, expected)


def test_lists_of_fixed_length_and_slices_of_lists() -> None:
    whole = ak.Array([[1.0, 2.0], [3.0], [], [4.0, 5.0, 6.0]])
    events = Events({"a": whole[1:], "b": np.arange(3.0)}, 3, sample_events().dataset)
    found, expected, _ = both_ways(Define(variables={"c": "a * b + 1"}), events)
    assert same(found, expected)
    fixed = Events({"a": np.arange(6.0).reshape(3, 2), "b": np.arange(3.0)}, 3, sample_events().dataset)
    found, expected, call = both_ways(Define(variables={"c": "a * 2"}), fixed)
    assert same(found, expected)
    assert "of any length" in call.warnings.messages[0]


def test_a_kernel_is_compiled_once() -> None:
    stage = Define(variables={"only_here": "MET_pt * 1.25 + 7"})
    compiled = [both_ways(stage, sample_events())[2].measured.values["compiled"] for _ in range(3)]
    assert compiled == [1, 0, 0]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("sum(Muon_pt)", "sum"),
        ("exp(MET_pt)", "exp may be rounded otherwise"),
        ("MET_pt ** 3", "powers"),
        ("nMuon // 2", "//"),
        ("Muon_pt[:, 0:1]", "lists are taken apart"),
    ],
)
def test_what_cannot_be_compiled_runs_as_usual_and_says_why(expression: str, why: str) -> None:
    found, expected, call = both_ways(Define(variables={"x": expression}), sample_events())
    assert same(found, expected)
    assert why in call.warnings.messages[0]


def test_functions_that_round_otherwise_are_allowed_on_request() -> None:
    found, expected, call = both_ways(Define(variables={"x": "cosh(MET_px / 100)"}), sample_events(), exact=False)
    assert call.measured.values["ran"] == "Numba's simulator"
    np.testing.assert_array_max_ulp(found["x"], expected["x"], maxulp=4)


def test_lists_of_other_lengths_are_left_to_the_operation() -> None:
    def code(events: Events) -> dict[str, Any]:
        return {"x": events["Muon_pt"]}

    both = kernel(lambda one, other: one + other, "float32", columns={"one": "Muon_pt", "other": "Jet_pt"})
    stage = own(code, reads=["Muon_pt", "Jet_pt"], kernels={"x": both})
    found, expected, call = both_ways(stage, sample_events())
    assert same(found, expected)
    assert "'Muon_pt' and 'Jet_pt' have different numbers of elements" in call.warnings.messages[0]
