"""Thousands of stages are checked, planned and run like five: nothing hangs, nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import cenote
from cenote.planning.picture.draw import svg
from cenote.planning.record import PlanRecord, as_json

from ..conftest import DEEP, Desk

STAGES = 5000 if DEEP else 1500
EVENTS = 200
HEAD = "data: {datasets: [{name: d, files: [a.root]}]}\nanalysis:\n  stages:\n"


def a_chain(desk: Desk) -> Path:
    """Each stage adds one to what the stage before defined; a histogram of the last."""
    lines = [
        f"    - {{id: D{n}, op: hep.define, params: {{variables: [{{name: x{n}, expr: '{before} + 1'}}]}}}}"
        for n in range(STAGES)
        for before in ("MET_pt * 0" if n == 0 else f"x{n - 1}",)
    ]
    bins = f"bins: {{nbins: 1, low: {STAGES - 0.5}, high: {STAGES + 0.5}}}"
    lines.append(
        f"    - {{id: H, op: hep.hist, render: [], params: {{axes: [{{name: x, source: x{STAGES - 1}, {bins}}}]}}}}"
    )
    return desk.write("chain.yaml", HEAD + "\n".join(lines) + "\n")


def many_histograms(desk: Desk) -> Path:
    lines = [
        f"    - {{id: H{n}, op: hep.hist, render: [], params: {{axes: [{axis}]}}}}"
        for n in range(STAGES)
        for axis in (f"{{name: x, source: MET_pt, bins: {{nbins: 2, low: 0, high: {n + 1}}}}}",)
    ]
    return desk.write("histograms.yaml", HEAD + "\n".join(lines) + "\n")


def test_a_chain_of_thousands_of_stages_is_one_task_per_partition(desk: Desk) -> None:
    desk.muons("a.root", events=EVENTS)
    analysis = cenote.load(a_chain(desk))
    assert analysis.check().ok
    plan = analysis.plan()
    assert len(plan.stages) == STAGES + 1
    assert len(plan.segments) == 1
    run = analysis.run(desk.folder / "out")
    assert run.status == "succeeded"
    assert run.product("H").values().tolist() == [EVENTS]


def test_thousands_of_histograms_are_filled_and_saved(desk: Desk) -> None:
    desk.muons("a.root", events=EVENTS)
    flow = many_histograms(desk)
    finished = desk.cenote("run", str(flow), "--out", "out", seconds=500)
    assert finished.returncode == 0, finished.stderr
    assert f"{STAGES - 12} more" in finished.stdout, "the list of products is cut"
    run = cenote.open_run(desk.folder / "out")
    assert len(run.products) == STAGES
    assert run.product(f"H{STAGES - 1}").sum(flow=True) == EVENTS


def test_a_slip_in_a_file_of_thousands_of_stages_is_found(desk: Desk) -> None:
    desk.muons("a.root", events=EVENTS)
    flow = a_chain(desk)
    flow.write_text(flow.read_text().replace("expr: 'x1249 + 1'", "expr: 'x12499 + 1'"))
    finished = desk.typed("check", str(flow), "--json")
    (problem,) = json.loads(finished.stdout)["problems"]
    assert problem["line"] == 1254
    assert "'x12499'" in problem["message"]
    assert "did you mean" in problem["hint"]
    assert finished.returncode == 11


def test_the_plan_of_thousands_of_stages_can_be_shown(desk: Desk) -> None:
    desk.muons("a.root", events=EVENTS)
    flow = many_histograms(desk)
    plan = cenote.load(flow).plan()
    assert len(as_json(PlanRecord.of(plan))["stages"]) == STAGES
    assert svg(plan).startswith("<svg")
