"""A partition that is too large for its worker's memory is taken in pieces, with the same result."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.run_task import TaskRunner
from cenote.planning.plan import Plan
from cenote.testing.muons import write_muons

FLOW = """
data: {datasets: [{name: d, files: [a.root]}]}
analysis:
  stages:
    - {id: Cut, op: hep.selection.cutflow, params: {selection: {All: ["HLT", "nMuon >= 1"]}}}
    - {id: Lead, op: hep.define, params: {variables: [{name: lead, expr: "max(Muon_pt)"}]}, execution: {require: big}}
    - {id: Other, op: hep.define, needs: [Cut], params: {variables: [{name: twice, expr: "MET_pt * 2"}]}}
    - id: H
      op: hep.hist
      render: []
      needs: [Lead, Other]
      params: {axes: [{name: x, type: regular, source: lead + twice, bins: {nbins: 20, low: 0, high: 300}}]}
      write: {kind: parquet, path: skim, keep: [lead]}
execution: {pools: {default: {workers: 1}, big: {workers: 1}}}
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    write_muons(tmp_path / "a.root", events=1001)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return cenote.load(tmp_path / "flow.yaml").plan()


def products(plan: Plan, folder: Path, split: int) -> dict[str, object]:
    """Run all tasks of the plan, each partition in so many pieces."""
    store = Store(folder / "work")
    runner = TaskRunner(make_run_spec(plan, store=store.folder, files=folder / "files"))
    envelopes = TaskSpecs(plan)
    for task in range(len(plan.tasks)):
        outcome = runner.run(envelopes.write(task, attempt=1, split=split))
        assert outcome.failure is None, outcome.failure
    return {product.name: store.read(plan.tasks.key(product.task))[product.name] for product in plan.products}


@pytest.mark.parametrize("split", [2, 3, 16])
def test_pieces_give_what_the_whole_gives(plan: Plan, tmp_path: Path, split: int) -> None:
    whole = products(plan, tmp_path / "whole", 1)
    pieces = products(plan, tmp_path / "pieces", split)
    assert pieces["H"] == whole["H"]
    assert pieces["Cut"].to_rows() == whole["Cut"].to_rows()  # type: ignore[attr-defined]
    assert whole["H"].sum(flow=True) > 0  # type: ignore[attr-defined]
    assert sum(f["entries"] for f in pieces["H:files"]) == sum(f["entries"] for f in whole["H:files"])  # type: ignore[attr-defined]
    assert len({f["path"] for f in pieces["H:files"]}) == split  # type: ignore[attr-defined]
