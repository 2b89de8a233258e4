"""`gpu.preload` puts columns where the stage computes, and takes home what others read. A stand-in is the GPU here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote import operation
from cenote.analysis.modifiers.gpu.preload import DeviceMemoryError, Preload
from cenote.analysis.modifiers.interface import Following, StageCall
from cenote.analysis.modifiers.support.devices import NoDevice, using
from cenote.analysis.operations.define import Define
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.common.errors import CenoteError
from cenote.execution.worker.failure import ModifierFailure
from cenote.execution.worker.modified import run_modified
from cenote.testing.sample_events import same_column, sample_events
from cenote.testing.stand_in_device import DeviceArray, StandInDevice


@pytest.fixture
def device() -> Iterator[StandInDevice]:
    stand_in = StandInDevice()
    with using(stand_in):
        yield stand_in


def own(name: str, reads: list[str], adds: list[str], code: Callable[..., Any], **more: Any) -> Operation:
    decorated = operation(name, reads=reads, adds=adds, **more)(code)
    made: Operation = decorated.cenote_factory()  # type: ignore[attr-defined]
    return made.for_stage("Stage")


def double(events: Events) -> dict[str, Any]:
    return {"twice": 2 * events["MET_pt"], "hard": events["Muon_pt"] * 2}


DOUBLE = own("custom.double", ["MET_pt", "Muon_pt"], ["twice", "hard"], double)


def a_call(stage: Operation, **more: Any) -> StageCall:
    return StageCall(
        "gpu.preload",
        "Stage",
        stage,
        reads=tuple(stage.reads()),
        adds=tuple(stage.adds()),
        measures=Preload.measures,
        **more,
    )


def run(stage: Operation, call: StageCall, *, events: Events | None = None, **settings: Any) -> Result:
    return run_modified([(Preload(**settings), call)], stage.run, events or sample_events())


def test_the_stage_computes_there_and_the_next_one_here(device: StandInDevice) -> None:
    events, seen = sample_events(), []

    def looking(given: Events) -> dict[str, Any]:
        seen.extend([given["MET_pt"], given["Muon_pt"]])
        return double(given)

    call = a_call(DOUBLE)
    result = run(own("custom.looking", ["MET_pt", "Muon_pt"], ["twice", "hard"], looking), call)
    assert [device.holds(column) for column in seen] == [True, True]
    assert not any(device.holds(column) for column in result.events.columns.values())
    expected = DOUBLE.run(events)
    assert all(same_column(result.events[name], expected.events[name]) for name in expected.events.names)
    moved = events["MET_pt"].nbytes + events["Muon_pt"].nbytes
    assert call.measured.values["moved"] == moved == sum(device.moved_there)
    assert call.measured.values["returned"] == sum(device.moved_back)
    assert call.measured.values["ran"] == "a stand-in, simulated"


def test_only_what_the_stage_reads_is_moved(device: StandInDevice) -> None:
    run(DOUBLE, a_call(DOUBLE))
    assert len(device.moved_there) == 2


@pytest.mark.usefixtures("device")
def test_fields_may_be_named() -> None:
    kinds = []

    def looking(events: Events) -> dict[str, Any]:
        kinds.extend([type(events["MET_pt"]), type(events["MET_px"])])
        return {"twice": events["MET_pt"]}

    stage = own("custom.looking", ["MET_pt", "MET_px"], ["twice"], looking)
    run(stage, a_call(stage), fields=("MET_px",))
    assert kinds == [np.ndarray, DeviceArray]
    with pytest.raises(ModifierFailure, match="no column 'MET_py2'"):
        run(stage, a_call(stage), fields=("MET_py2",))


def test_columns_stay_for_the_next_stage_on_the_gpu(device: StandInDevice) -> None:
    kept: dict[str, Any] = {}
    first = run(DOUBLE, a_call(DOUBLE, kept=kept))
    there = len(device.moved_there)

    def add(events: Events) -> dict[str, Any]:
        return {"sum": events["twice"] + events["MET_pt"]}

    stage = own("custom.add", ["twice", "MET_pt"], ["sum"], add)
    call = a_call(stage, kept=kept)
    result = run(stage, call, events=first.events)
    assert len(device.moved_there) == there
    assert call.measured.values["moved"] == 0
    assert call.measured.values["stayed"] == 2 * sample_events()["MET_pt"].nbytes
    np.testing.assert_array_equal(result.events["sum"], 3 * sample_events()["MET_pt"])


def test_what_only_the_next_stage_on_the_gpu_reads_does_not_come_back(device: StandInDevice) -> None:
    kept: dict[str, Any] = {}
    stage = own("custom.add", ["twice"], ["sum"], lambda events: {"sum": events["twice"] + 1})
    following = Following(stage, ("twice",), ("sum", "hard"), {"gpu.preload": Preload()})
    first = run(DOUBLE, a_call(DOUBLE, kept=kept, following=following))
    assert device.holds(first.events["twice"])
    assert not device.holds(first.events["hard"])
    second = run(stage, a_call(stage, kept=kept), events=first.events)
    np.testing.assert_array_equal(second.events["sum"], 2 * sample_events()["MET_pt"] + 1)
    assert not any(device.holds(column) for column in second.events.columns.values())


@pytest.mark.usefixtures("device")
def test_a_column_that_was_replaced_meanwhile_is_moved_again() -> None:
    kept: dict[str, Any] = {}
    events = run(DOUBLE, a_call(DOUBLE, kept=kept)).events
    changed = events.with_columns({"MET_pt": events["MET_pt"] + 1})
    again = run(DOUBLE, a_call(DOUBLE, kept=kept), events=changed)
    np.testing.assert_array_equal(again.events["twice"], 2 * (sample_events()["MET_pt"] + 1))


@pytest.mark.usefixtures("device")
def test_a_selection_on_the_gpu_drops_events_here() -> None:
    stage = own("custom.cut", ["MET_pt"], [], lambda events: events["MET_pt"] > 40, filter=True)
    result = run(stage, a_call(stage))
    expected = stage.run(sample_events())
    assert 0 < result.events.size < sample_events().size
    assert all(same_column(result.events[name], expected.events[name]) for name in expected.events.names)


@pytest.mark.usefixtures("device")
def test_products_come_home() -> None:
    stage = own("custom.mean", ["MET_pt"], [], lambda events: {"met": events["MET_pt"]}, product="means", merge=max)
    assert isinstance(run(stage, a_call(stage)).product["met"], np.ndarray)  # type: ignore[index]


def test_built_in_operations_compute_on_the_cpu(device: StandInDevice) -> None:
    stage, call = Define(variables={"twice": "2 * MET_pt"}), a_call(DOUBLE)  # type: ignore[arg-type]
    call.operation = stage
    run(stage, call)
    assert device.moved_there == []
    assert "CPU" in str(call.measured.values["ran"])


def test_what_does_not_fit_runs_on_the_cpu_or_fails_for_want_of_memory() -> None:
    with using(StandInDevice(memory=1000)):
        call = a_call(DOUBLE)
        result = run(DOUBLE, call)
        np.testing.assert_array_equal(result.events["twice"], 2 * sample_events()["MET_pt"])
        assert list(call.warnings.messages) == [
            "modifier 'gpu.preload': some tasks compute on the CPU: their columns do not fit into the GPU's memory"
        ]
        with pytest.raises(ModifierFailure) as failure:
            run(DOUBLE, a_call(DOUBLE), on_unavailable="error")
        assert isinstance(failure.value.problem, DeviceMemoryError)


def test_the_budget_is_checked_before_anything_moves(device: StandInDevice) -> None:
    run(DOUBLE, a_call(DOUBLE), budget="100B")
    assert device.moved_there == []
    run(DOUBLE, a_call(DOUBLE), budget="1MB")
    assert device.moved_there != []


def test_without_a_gpu_the_stage_runs_on_the_cpu_with_one_warning() -> None:
    with using(NoDevice("it was sold")):
        call = a_call(DOUBLE)
        result = run(DOUBLE, call)
        assert same_column(result.events["hard"], sample_events()["Muon_pt"] * 2)
        assert list(call.warnings.messages) == [
            "modifier 'gpu.preload': no GPU is used, its stages compute on the CPU: it was sold"
        ]
        with pytest.raises(ModifierFailure) as failure:
            run(DOUBLE, a_call(DOUBLE), on_unavailable="error")
        assert isinstance(failure.value.problem, CenoteError)
        assert "it was sold" in str(failure.value.problem)


@pytest.mark.usefixtures("device")
def test_code_that_needs_numpy_is_told_where_its_columns_are() -> None:
    stage = own("custom.numpy", ["MET_pt"], ["x"], lambda events: {"x": np.asarray(events["MET_pt"])})
    with pytest.raises(TypeError) as problem:
        run(stage, a_call(stage))
    assert "gpu.preload: the columns of this stage lie on the GPU" in problem.value.__notes__


@pytest.mark.usefixtures("device")
def test_text_cannot_be_moved() -> None:
    stage = own("custom.text", ["name"], ["x"], lambda events: {"x": events["name"]})
    events = sample_events().with_columns({"name": np.array(["a"] * 60)})
    with pytest.raises(ModifierFailure, match="column 'name' cannot be moved"):
        run(stage, a_call(stage), events=events)


@pytest.mark.usefixtures("device")
def test_lists_lie_there_as_awkward_arrays() -> None:
    stage = own("custom.sum", ["Muon_pt"], ["sum"], lambda events: {"sum": ak.sum(events["Muon_pt"], axis=1)})
    result = run(stage, a_call(stage))
    assert ak.to_list(result.events["sum"]) == ak.to_list(ak.sum(sample_events()["Muon_pt"], axis=1))
