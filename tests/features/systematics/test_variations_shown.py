"""What variations add to a workflow is one row for people, wherever they read, and complete in JSON."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..conftest import Desk

FLOW = """
datasets: [{name: a, files: a.parquet}]
sources: {events: {kind: parquet}}
analysis:
  stages:
    - {id: Twice, op: define, params: {x2: 2 * x}}
    - {id: Cut, op: hep.selection.cutflow, params: {selection: {all: [x2 > 1]}}}
    - {id: First, op: hep.hist, params: {axes: [x2]}, render: [], execution: {require: big}}
    - {id: Last, op: hep.hist, params: {axes: [x2]}, render: []}
execution: {pools: {default: {workers: 1}, big: {workers: 1}}}
systematics:
  cutflows: true
  variations: [{name: "v{n}", matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9]}, replace: {x: y}}]
"""


def said(desk: Desk, *words: str) -> str:
    result = desk.typed(*words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_stage_stands_for_its_variations(desk: Desk) -> None:
    pq.write_table(pa.table({"x": np.arange(10.0), "y": np.arange(10.0) + 1}), desk.folder / "a.parquet")
    desk.write("flow.yaml", FLOW)
    plan = said(desk, "plan", "flow.yaml")
    assert "Twice × 9 variations" in plan
    assert "Cut × 9 variations (cutflow)" in plan
    ended = said(desk, "run", "flow.yaml", "--out", "out")
    assert "Cut × 9 variations (cutflow" in ended
    status = said(desk, "status", "out")
    assert "Last × 9 variations" in status, "they run in other tasks than the nominal one"
    report, picture = ((desk.folder / "out" / name).read_text() for name in ("report.html", "plan.svg"))
    assert "Last × 9 variations" in report
    assert "Last × 9 variations" in picture
    for text in (plan, ended, status, picture):
        assert "@v9" not in text
    stages = json.loads((desk.folder / "out/summary.json").read_text())["stages"]
    assert [(one["variation_of"], one["variation"]) for one in stages if one["id"] == "Last@v9"] == [("Last", "v9")]
