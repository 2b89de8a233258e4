"""The same file gives the same numbers: with any number of workers, any chunk size for counts, after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cenote
from cenote.common.machine import this_machine

from ..conftest import Desk

FLOW = """
    data:
      datasets:
        - {name: data, files: [data-*.root], eventtype: data}
        - {name: zmumu, files: [zmumu.root], eventtype: mc}
    analysis:
      stages:
        - id: Trigger
          op: hep.select
          params: {selection: "HLT & (nMuon >= 1)"}
        - id: Leading
          op: hep.define
          params: {variables: [{name: lead_pt, expr: "max(Muon_pt)"}]}
          execution: {require: big}
        - id: Cuts
          op: hep.selection.cutflow
          params:
            weight_expr: EventWeight
            selection: {All: ["lead_pt > 20", "MET_pt > 10"]}
        - id: LeadPt
          op: hep.hist
          render: []
          params:
            dataset_axis: true
            weight_expr: EventWeight
            axes: [{name: pt, type: regular, source: lead_pt, bins: {nbins: 30, low: 0, high: 150}}]
        - id: AllPt
          op: hep.hist
          render: []
          params:
            axes: [{name: pt, type: regular, source: Muon_pt, bins: {nbins: 30, low: 0, high: 150}}]
    execution:
      pools:
        default: {workers: 4}
        big: {workers: 2}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    for number in range(3):
        desk.muons(f"data-{number}.root", events=3000, seed=number)
    desk.muons("zmumu.root", events=4000, seed=9, weighted=True)
    return desk.write("flow.yaml", FLOW)


def numbers(run: cenote.Run) -> dict[str, Any]:
    assert run.status == "succeeded", str(run.failures)
    found: dict[str, Any] = {name: run.product(name) for name in ("LeadPt", "AllPt")}
    return {
        "LeadPt": found["LeadPt"].view(flow=True).tobytes(),
        "AllPt": found["AllPt"].view(flow=True).tobytes(),
        "Cuts": run.product("Cuts").to_rows(),
    }


@pytest.mark.parametrize("workers", [2, 8])
def test_one_worker_or_many_give_the_same_bits(flow: Path, tmp_path: Path, workers: int) -> None:
    chunks = "sources={events: {kind: root_tree, chunk_size: 700}}"
    alone = cenote.load(flow, sets=[chunks]).run(tmp_path / "one", workers=1)
    many = cenote.load(flow, sets=[chunks]).run(tmp_path / "many", workers=workers)
    assert numbers(alone) == numbers(many)


def test_counts_do_not_depend_on_the_chunk_size(flow: Path, tmp_path: Path) -> None:
    runs = [
        cenote.load(flow, sets=[f"sources={{events: {{kind: root_tree, chunk_size: {size}}}}}"]).run(
            tmp_path / f"out-{size}", workers=1
        )
        for size in (100, 999, 100_000)
    ]
    first, *others = [run.product("AllPt").view(flow=True) for run in runs]
    assert all(np.array_equal(first, other) for other in others)
    assert first.sum() > 0


def test_each_stage_ran_on_its_own_pool(flow: Path, tmp_path: Path) -> None:
    run = cenote.load(flow).run(tmp_path / "out")
    pools = {stage["id"]: list(stage["pools"]) for stage in run.summary["stages"]}
    assert pools == {
        "Trigger": ["default"],
        "Leading": ["big"],
        "Cuts": ["default"],
        "LeadPt": ["default"],
        "AllPt": ["default"],
    }


def test_a_hand_written_loop_gives_the_same_histogram(flow: Path, desk: Desk, tmp_path: Path) -> None:
    import awkward as ak
    import uproot

    expected = np.zeros(30)
    for name in ("data-0.root", "data-1.root", "data-2.root", "zmumu.root"):
        arrays = uproot.open(desk.folder / name)["events"].arrays(["Muon_pt", "nMuon", "HLT", "MET_pt"])
        arrays = arrays[arrays.HLT & (arrays.nMuon >= 1)]
        lead = ak.max(arrays.Muon_pt, axis=1)
        arrays = arrays[(lead > 20) & (arrays.MET_pt > 10)]
        expected += np.histogram(ak.to_numpy(ak.flatten(arrays.Muon_pt)), bins=30, range=(0, 150))[0]
    run = cenote.load(flow).run(tmp_path / "out")
    assert run.product("AllPt").values().tolist() == expected.tolist()


@pytest.mark.skipif(this_machine().cpus < 2, reason="needs a second core")
def test_work_that_turns_out_to_be_long_is_handed_over_and_stays_the_same(desk: Desk) -> None:
    desk.muons("data.root", events=2000)
    desk.write(
        "ops.py",
        """
        import time
        from cenote import operation

        @operation("custom.slow", reads=["MET_pt"], adds=["met"])
        def slow(events):
            time.sleep(0.2)
            return {"met": events["MET_pt"]}
        """,
    )
    flow = desk.write(
        "slow.yaml",
        """
        plugins: [ops.py]
        data: {datasets: [{name: data, files: [data.root]}]}
        sources: {events: {kind: root_tree, chunk_size: 100}}
        analysis:
          stages:
            - {id: Slow, op: custom.slow}
            - {id: Met, op: hep.hist, render: [], params: {axes: [{name: met, source: met, type: regular,
                bins: {nbins: 30, low: 0, high: 150}}]}}
        execution: {pools: {default: {workers: 2}}}
        """,
    )
    alone = cenote.load(flow).run(desk.folder / "alone", workers=1)
    shared = cenote.load(flow).run(desk.folder / "shared")
    logs = desk.folder / "shared" / "debug" / "distributed" / "err"
    assert {"local-1", "local-2"} <= {path.name for path in logs.iterdir()}
    assert shared.product("Met").view(flow=True).tobytes() == alone.product("Met").view(flow=True).tobytes()
