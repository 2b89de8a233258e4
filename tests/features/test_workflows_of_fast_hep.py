"""Workflows written for FAST-HEP run unchanged: observers, hooks, pictures per dataset, data without an analysis."""

from __future__ import annotations

import json

import cenote

from .conftest import Desk

FLOW = """
version: 4.0
use: {profiles: [hep_debug, "fasthep_workshop:registry"]}
data:
  datasets:
    - {name: dy, nevents: "30", files: [dy.root]}
    - {name: qcd, files: [qcd.root]}
observers:
  - {kind: hep.schema_snapshot, at: [read.events, stage.Vars, write.Vars.0], out: schema}
execution_hooks: [{kind: hep.error_report, events: [on_node_error]}]
styles:
  base: {op: hep.render.hist1d, figure: {dpi: 30}, formats: [png], style: {experiment: FAST-HEP}}
analysis:
  stages:
    - id: Vars
      op: hep.define
      inspect: {kind: hep.branches}
      params: {variables: [{name: leading_pt, expr: "leading(Muon_pt)"}]}
      write: {kind: parquet, path: skim, keep: [leading_pt]}
    - id: Pt
      op: hep.hist
      params: {dataset_axis: true, axes: [{name: pt, source: leading_pt, bins: {low: 0, high: 100, nbins: 4}}]}
      render:
        - {style: base, when: dataset}
        - {style: {use: base, with: {select: {dataset: qcd}}}, out: only_qcd}
"""


def test_observers_hooks_and_pictures_per_dataset(desk: Desk) -> None:
    desk.muons("dy.root", events=50)
    desk.muons("qcd.root", events=40)
    run = cenote.load(desk.write("flow.yaml", FLOW)).run(desk.folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert not [warning for warning in run.summary["warnings"] if "not supported" in warning]
    out = desk.folder / "out"
    pictures = {str(path.relative_to(out / "plots")) for path in (out / "plots").rglob("*.png")}
    assert pictures == {"Pt/dy.png", "Pt/qcd.png", "only_qcd.png"}
    read, stage, written = (
        json.loads((out / f"products/schema/{at}.json").read_text())["groups"][0]
        for at in ("read.events", "stage.Vars", "write.Vars.0")
    )
    assert read["datasets"] == ["dy", "qcd"]
    assert {"name": "Muon_pt", "type": "float[]"} in read["columns"]
    assert {"name": "leading_pt", "stage": "Vars"} in stage["columns"]
    assert written["columns"] == [{"name": "leading_pt", "stage": "Vars"}]
    assert "leading_pt" in json.loads((out / "products/branches/stage.Vars.json").read_text())["fields"]


def test_a_place_that_is_not_there_cannot_be_observed(desk: Desk) -> None:
    desk.muons("dy.root", events=5)
    desk.muons("qcd.root", events=5)
    desk.write("flow.yaml", FLOW.replace("stage.Vars, write", "stage.Vers, write"))
    checked = desk.typed("check", "flow.yaml")
    assert checked.returncode == 11, checked.stderr
    assert "there is no 'stage.Vers' to observe" in checked.stdout + checked.stderr
    assert "did you mean 'stage.Vars'?" in checked.stdout + checked.stderr
