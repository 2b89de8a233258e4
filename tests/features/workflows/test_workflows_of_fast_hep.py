"""Workflows written for FAST-HEP run unchanged: observers, hooks, pictures per dataset, data without an analysis."""

from __future__ import annotations

import json

import awkward as ak
import numpy as np
import pytest

import cenote
from cenote.analysis.sources.toy import ToySource
from cenote.analysis.sources.workshop.toy_source import WorkshopToySource
from cenote.common import errors

from ..conftest import Desk

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


TOY = """
sources: {events: {kind: workshop.toy_source, nevents: 25000, seed: 42, dataset: smoke, chunk_size: CHUNK}}
analysis:
  stages:
    - {id: Vars, op: hep.define, params: {variables: [{name: pt, expr: "leading(sqrt(Muon_Px**2 + Muon_Py**2))"}]}}
    - id: Pt
      op: hep.hist
      params: {axes: [{name: pt, source: pt, bins: {low: 0, high: 120, nbins: 12}}]}
      render: []
    - id: Rare
      op: filter
      params: {expr: "MET > 700"}
      write:
        - {kind: csv, path: rare.csv, when: final, keep: [EventNumber, MET]}
        - kind: console_table
          path: rare.txt
          when: final
          columns: [{field: MET, format: .1f}]
          sort_by: MET
          limit: 2
"""


@pytest.mark.parametrize(("workers", "chunk"), [(1, 30000), (2, 4000)])
def test_generated_events_need_no_dataset_and_one_file_holds_all(desk: Desk, workers: int, chunk: int) -> None:
    flow = desk.write("flow.yaml", TOY.replace("CHUNK", str(chunk)))
    run = cenote.load(flow).run(desk.folder / "out", workers=workers)
    assert run.status == "succeeded", str(run.failures)
    names = ["Muon_Px", "Muon_Py", "MET", "EventNumber"]
    px, py, met, number = WorkshopToySource(nevents=25000, seed=42).read("toy://dy", names, 0, 25000).values()
    leading = ak.fill_none(ak.firsts(np.sqrt(px**2 + py**2)), 0.0)
    expected, _ = np.histogram(ak.to_numpy(leading), 12, (0, 120))
    assert run.product("Pt").values().tolist() == expected.tolist()
    rows = (desk.folder / "out/products/rare.csv").read_text().splitlines()
    assert rows[0] == '"EventNumber","MET"'
    assert [int(row.split(",")[0]) for row in rows[1:]] == number[met > 700].tolist()
    table = (desk.folder / "out/products/rare.txt").read_text().splitlines()
    assert table[2:] == [f"{value:.1f}" for value in sorted(met[met > 700])[:2]]


def test_tables_of_stages_are_found_in_the_current_folder_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.folder / "flows").mkdir()
    (desk.folder / "tables").mkdir()
    desk.write("tables/lumis.csv", "LumiBlock,good\n" + "".join(f"{n},{n % 2}\n" for n in range(2001)))
    desk.write(
        "flows/flow.yaml",
        """
        sources: {events: {kind: toy, nevents: 500}}
        analysis:
          stages:
            - {id: Good, op: join, params: {file: tables/lumis.csv, on: LumiBlock, columns: good}}
            - {id: Sum, op: aggregate, params: {values: {good: {op: sum, of: good}}}}
        """,
    )
    monkeypatch.chdir(desk.folder)
    run = cenote.load("flows/flow.yaml").run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    (lumi,) = ToySource(nevents=500).read("toy://dy", ["LumiBlock"], 0, 500).values()
    assert run.product("Sum").rows() == [(int((lumi % 2).sum()),)]


PACKAGE = """
import awkward as ak

SCALE_SPEC = {
    "name": "my.scaled",
    "kind": "transform",
    "input": {"name": "stream", "kind": "event_stream", "required": True},
    "params": {"field": {"required": True}, "out": {"required": True}, "by": {"required": False, "default": 2.0}},
    "result": {"kind": "event_stream"},
    "requires": {"symbols": [{"from": "params.field", "kind": "expr_or_field"}]},
    "provides": {"symbols": [{"from": "params.out", "kind": "field_list"}]},
}


def run_scaled(*, stream, field, out, by=2.0, ctx=None, **params):
    kept = stream[stream[field] > 50]
    return {"stream": ak.with_field(kept, kept[field] * by * (ctx["dataset_name"] == "toy"), out)}


def undescribed(*, stream):
    return stream
"""
PROFILE = """
includes: [hep, {profile: "nobody:registry", optional: true}]
registry:
  transforms:
    my.scaled: {spec: "OPS:SCALE_SPEC", impl: "OPS:run_scaled"}
"""
ADAPTED = """
use: {profiles: ["PACKAGE:registry"]}
sources: {events: {kind: toy, nevents: 3000, chunk_size: 700}}
analysis:
  stages:
    - {id: Scaled, op: my.scaled, params: {field: MET, out: twice}}
    - {id: Sum, op: aggregate, params: {values: {n: {op: count}, most: {op: max, of: "twice - MET + Trigger"}}}}
"""


def test_functions_of_an_installed_package_are_operations(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    package = desk.folder / "my_fasthep_ops"
    (package / "profiles").mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE)
    (package / "profiles/registry.yaml").write_text(PROFILE.replace("OPS", "my_fasthep_ops"))
    monkeypatch.syspath_prepend(str(desk.folder))
    flow = desk.write("flow.yaml", ADAPTED.replace("PACKAGE", "my_fasthep_ops"))
    run = cenote.load(flow).run(desk.folder / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    met, trigger = ToySource(nevents=3000).read("toy://dy", ["MET", "Trigger"], 0, 3000).values()
    kept = met > 50
    assert run.product("Sum").rows() == [(int(kept.sum()), float((met * 2.0 - met + trigger)[kept].max()))]
    undescribed = 'registry: {transforms: {my.other: {impl: "my_fasthep_ops:undescribed"}}}'
    desk.write("none.yaml", ADAPTED.replace("PACKAGE", "my_fasthep_ops") + undescribed)
    assert "is a function without a description" in desk.typed("check", "none.yaml").stderr
    desk.write("bad.yaml", ADAPTED.replace("PACKAGE", "my_fasthep_ops").replace("field: MET", "feild: MET"))
    checked = desk.typed("check", "bad.yaml")
    assert "there is no key 'feild' in the params of stage 'Scaled'" in checked.stderr
    assert "did you mean 'field'?" in checked.stderr


def test_names_that_count_from_a_folder_above_are_explained(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    own = desk.folder / "tutorials/first"
    own.mkdir(parents=True)
    (desk.folder / "data").mkdir()
    desk.muons("data/dy.root", events=10)
    flow = own / "workflow.yaml"
    flow.write_text("data: {datasets: [{name: dy, files: [data/dy.root]}]}\n")
    monkeypatch.chdir(own)
    with pytest.raises(errors.CenoteError, match=r"file 'data/dy\.root' does not exist") as caught:
        cenote.load(flow).plan()
    assert caught.value.problems[0].hint == f"it is in {desk.folder.resolve()}: run the command there"
    monkeypatch.chdir(desk.folder)
    assert "taken from the current folder" in cenote.load(flow).plan().warnings[0]
