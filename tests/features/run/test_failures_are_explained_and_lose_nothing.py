"""A stage that raises, a file that is cut in half, a task that takes too long: the rest is not lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from cenote.common.errors import CenoteError

from ..conftest import Desk

OPS = """
    import os, time
    from cenote import operation

    @operation("custom.picky", reads=["MET_pt"], adds=["ok"])
    def picky(events, *, fail_on: str, marker: str = ""):
        if events.dataset.name == fail_on and not (marker and os.path.exists(marker)):
            if marker:
                open(marker, "w").close()
            raise ValueError("this detector was off")
        return {"ok": events["MET_pt"]}

    @operation("custom.sleepy", reads=["MET_pt"], adds=["ok"])
    def sleepy(events):
        time.sleep(60)
        return {"ok": events["MET_pt"]}
"""

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: good, files: [good.root]}, {name: odd, files: [odd.root]}]}
    analysis:
      stages:
        - {id: Picky, op: custom.picky, params: {fail_on: odd}}
        - id: H
          op: hep.hist
          render: []
          params:
            dataset_axis: true
            axes: [{name: x, type: regular, source: ok, bins: {nbins: 5, low: 0, high: 100}}]
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("good.root", events=800)
    desk.muons("odd.root", events=600, seed=2)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def test_a_stage_that_raises_is_told_with_stage_dataset_file_and_the_users_own_line(desk: Desk, flow: Path) -> None:
    finished = desk.typed("run", str(flow), "--out", "out")
    told = finished.stdout + finished.stderr
    assert finished.returncode == 20
    assert "Picky" in told
    assert "odd.root" in told
    assert "this detector was off" in told
    (failure,) = cenote.open_run(desk.folder / "out").failures
    assert 'raise ValueError("this detector was off")' in failure["traceback"]
    assert "cenote/worker" not in failure["traceback"]


def test_a_message_of_megabytes_is_told_by_its_beginning_and_its_end(desk: Desk, flow: Path) -> None:
    desk.write("ops.py", OPS.replace('"this detector was off"', '"first words " + "x" * 3_000_000 + " last words"'))
    told = desk.typed("run", str(flow), "--out", "out")
    assert told.returncode == 20
    for text in (told.stdout + told.stderr, (desk.folder / "out/summary.json").read_text()):
        assert "first words" in text
        assert "last words" in text
        assert "characters left out" in text
    written = [file for file in (desk.folder / "out").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in written) < 1_000_000


def test_keep_going_finishes_the_rest_and_resume_repairs_it(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    run = cenote.load(flow).run(out, keep_going=True)
    assert run.status == "partial"
    assert run.exit_code == 1
    assert run.product("H")[{"dataset": "good"}].sum(flow=True) == 800
    assert run.product("H")[{"dataset": "odd"}].sum(flow=True) == 0
    assert [product["partial"] for product in run.summary["products"]] == [True]

    repaired = cenote.load(flow, sets=["analysis.stages.Picky.params.fail_on=nobody"]).run(out, resume=True)
    assert repaired.status == "succeeded"
    assert repaired.product("H").sum(flow=True) == 1400


def test_resuming_after_the_cause_is_gone_runs_only_what_failed(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    marker = desk.folder / "repaired"
    sets = [f"analysis.stages.Picky.params.marker={marker}"]
    first = cenote.load(flow, sets=sets).run(out, keep_going=True)
    assert first.status == "partial"
    second = cenote.load(flow, sets=sets).run(out, resume=True)
    assert second.status == "succeeded"
    assert second.product("H").sum(flow=True) == 1400
    picky = next(stage for stage in second.summary["stages"] if stage["id"] == "Picky")
    assert sum(picky["pools"].values()) == 1, "only the failed task ran again"


def test_retries_try_again(desk: Desk, flow: Path) -> None:
    marker = desk.folder / "tried"
    sets = [f"analysis.stages.Picky.params.marker={marker}", "analysis.stages.Picky.execution={retries: 1}"]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert run.status == "succeeded"


def test_a_task_past_its_timeout_is_stopped(desk: Desk, flow: Path) -> None:
    stages = "analysis.stages=[{id: Sleepy, op: custom.sleepy, execution: {timeout: 1s}}]"
    finished = desk.cenote("run", str(flow), "--out", "out", "--set", stages, seconds=60)
    assert finished.returncode == 20, finished.stdout + finished.stderr
    assert "timeout of 1 s" in finished.stdout + finished.stderr


def test_a_file_cut_in_half_is_named_before_anything_runs(desk: Desk, flow: Path) -> None:
    odd = desk.folder / "odd.root"
    odd.write_bytes(odd.read_bytes()[: odd.stat().st_size // 2])
    finished = desk.typed("run", str(flow), "--out", "out")
    assert finished.returncode == 11
    assert "odd.root" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_keep_going_passes_over_a_broken_file_and_says_so(desk: Desk, flow: Path) -> None:
    odd = desk.folder / "odd.root"
    whole = odd.read_bytes()
    odd.write_bytes(whole[: len(whole) // 2])
    sets = ["analysis.stages.Picky.params.fail_on=nobody"]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out", keep_going=True)
    assert run.status == "partial"
    assert run.product("H")[{"dataset": "good"}].sum(flow=True) == 800
    assert any("odd.root" in failure["file"] for failure in run.failures)
    odd.write_bytes(whole)
    repaired = cenote.load(flow, sets=sets).run(desk.folder / "out", resume=True)
    assert repaired.status == "succeeded"
    assert repaired.product("H").sum(flow=True) == 1400


def test_a_branch_that_one_file_lacks_is_named_with_that_file(desk: Desk) -> None:
    import numpy as np
    import uproot

    for name, columns in {"a.root": ["x", "y"], "b.root": ["x"]}.items():
        with uproot.recreate(desk.folder / name) as file:
            file.mktree("events", dict.fromkeys(columns, "f4"))
            file["events"].extend({column: np.ones(10, "f4") for column in columns})
    flow = desk.write(
        "flow.yaml",
        """
        data: {datasets: [{name: d, files: ["*.root"]}]}
        analysis: {stages: [{id: H, op: hep.hist, render: [], params: {axes: [
          {name: y, type: regular, source: y, bins: {nbins: 2, low: 0, high: 2}}]}}]}
        """,
    )
    with pytest.raises(CenoteError) as caught:
        cenote.load(flow).plan()
    assert caught.value.exit_code == 11
    assert "b.root" in str(caught.value)
    assert "'y'" in str(caught.value)


def test_no_events_after_a_selection_still_gives_all_products(desk: Desk, flow: Path) -> None:
    sets = [
        (
            "analysis.stages=[{id: None_, op: hep.select, params: {selection: 'MET_pt < 0'}},"
            "{id: H, op: hep.hist, params: {axes: [{name: x, type: regular, source: Muon_pt, bins:"
            " {nbins: 5, low: 0, high: 100}}]}}]"
        )
    ]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert run.status == "succeeded"
    assert run.product("H").sum(flow=True) == 0
    assert run.plots


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_that_is_removed_meanwhile_is_told_of_and_can_be_used_again(
    desk: Desk, flow: Path, workers: int
) -> None:
    removing = OPS.replace('raise ValueError("this detector was off")', 'shutil.rmtree("out", ignore_errors=True)')
    desk.write("ops.py", removing.replace("import os,", "import shutil, os,"))
    told = desk.typed("run", str(flow), "--out", "out", "--workers", str(workers))
    assert told.returncode == 35, told.stdout + told.stderr
    assert "out was removed while the run was going on" in told.stderr
    assert "succeeded" not in told.stdout + told.stderr
    desk.write("ops.py", OPS.replace("raise ValueError", "str"))
    assert desk.typed("run", str(flow), "--out", "out").returncode == 0
