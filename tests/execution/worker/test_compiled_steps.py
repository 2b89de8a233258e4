"""Runs whose stages are compiled leave what runs leave whose stages are not, and count the same events."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import cenote
from builders.compiled_stages import assert_same_product
from cenote.analysis.compiled import machine_code
from cenote.analysis.compiled.machine_code import Compiler
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.execution.worker.compiled_group import CompiledGroup
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.run_task import TaskRunner
from cenote.planning.plan import Plan
from cenote.testing.muons import write_muons

FLOW = """
data: {datasets: [{name: d, files: [a.root], eventtype: data}, {name: m, files: [b.root], eventtype: mc}]}
plugins: [ops.py]
analysis:
  stages:
    - id: Lists
      op: hep.define
      params: {variables: [{name: hard, expr: "Muon_pt * 1.5"}, {name: n, reduce: {op: count_nonzero, over: "Muon_pt > 10"}}]}
    - {id: Cut, op: hep.selection.cutflow, params: {selection: {All: ["HLT", "n >= 1"]}, weight_expr: "MET_pt"}}
    - {id: Only, op: hep.select, params: {selection: "MET_pt > 10"}, applies_to: {eventtype: mc}}
    - {id: Own, op: custom.own, params: {}}
    - {id: Wave, op: hep.define, params: {variables: {w: "sin(own) + n", v: "hard * own"}}, write: {kind: parquet, path: skim, keep: [w, v, HLT]}}
    - id: H
      op: hep.hist
      render: []
      params: {dataset_axis: true, axes: [{name: x, type: regular, source: v, bins: {nbins: 20, low: 0, high: 300}}], weight: w}
    - {id: Far, op: hep.define, needs: [Cut], params: {variables: {twice: "sum(hard) + MET_pt"}}, execution: {require: big}}
    - id: G
      op: hep.hist
      render: []
      needs: [Far, Wave]
      params: {axes: [{name: x, type: regular, source: twice + w, bins: {nbins: 20, low: 0, high: 300}}]}
execution: {pools: {default: {workers: 1}, big: {workers: 1}}}
"""  # noqa: E501  # YAML
OWN = """
import cenote

@cenote.operation(name="custom.own", reads=["MET_pt"], adds=["own"])
def own(events):
    return {"own": events["MET_pt"] / 7}
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    write_muons(tmp_path / "a.root", events=801)
    write_muons(tmp_path / "b.root", events=500)
    (tmp_path / "ops.py").write_text(OWN)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return cenote.load(tmp_path / "flow.yaml").plan()


def run(plan: Plan, folder: Path, *, split: int = 1) -> tuple[dict[str, Any], list[dict[str, tuple[int, int]]]]:
    """The products, and for every task the events that its stages saw."""
    (folder / "files").mkdir(parents=True)
    store = Store(folder / "work")
    runner = TaskRunner(make_run_spec(plan, store=store.folder, files=folder / "files"))
    envelopes, counts = TaskSpecs(plan), []
    for task in range(len(plan.tasks)):
        outcome = runner.run(envelopes.write(task, attempt=1, split=split))
        assert outcome.failure is None, outcome.failure
        counts.append({stage: (stats.events_in, stats.events_out) for stage, stats in outcome.stages.items()})
    found = {product.name: store.read(plan.tasks.key(product.task))[product.name] for product in plan.products}
    return found, counts


def skims(folder: Path) -> list[Any]:
    """What was written beside the products."""
    files = sorted(file for file in (folder / "files").rglob("*") if file.is_file())
    return [pq.read_table(file) for file in files]


@pytest.mark.parametrize("split", [1, 3])
def test_a_whole_run(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: int) -> None:
    ordinary, before = run(plan, tmp_path / "ordinary", split=split)
    monkeypatch.setattr(CompiledGroup, "worth", 0)
    seen = []
    monkeypatch.setattr(CompiledGroup, "loop", _noted(CompiledGroup.loop, seen))
    compiled, after = run(plan, tmp_path / "compiled", split=split)
    assert all(seen)
    assert seen
    assert after == before
    assert compiled.keys() == ordinary.keys()
    for name in ("H", "G", "Cut"):
        assert_same_product(compiled[name], ordinary[name])
    assert skims(tmp_path / "compiled") == skims(tmp_path / "ordinary")
    assert skims(tmp_path / "compiled")


def _noted(method: Any, seen: list[Any]) -> Any:
    def noted(self: CompiledGroup, *arguments: Any) -> Any:
        found = method(self, *arguments)
        seen.append(found)
        return found

    return noted


def test_the_plan_says_which_stages_are_compiled_together(plan: Plan) -> None:
    groups = [[step.stage for step in fused.steps] for segment in plan.segments for fused in segment.fused]
    assert groups == [["Lists", "Cut", "Only"], ["Wave", "H"], ["Far"], ["G"]]
    reasons = {stage.stage: stage.not_compiled for stage in plan.stages if stage.not_compiled}
    assert reasons == {"Own": "it is own Python code"}


def test_a_few_events_are_not_worth_compiling(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code, "COMPILER", None)  # whoever asks for it, fails
    run(plan, tmp_path / "few")


def test_without_a_compiler_stages_run_the_ordinary_way(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary, before = run(plan, tmp_path / "ordinary")
    monkeypatch.setattr(CompiledGroup, "worth", 0)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    monkeypatch.setattr("cenote.analysis.compiled.run.COMPILER", Compiler())
    found, after = run(plan, tmp_path / "without")
    assert after == before
    assert_same_product(found["H"], ordinary["H"])


TEXT = "define i64 @f(i64 %n, ptr %p) {\n  %m = add i64 %n, 1\n  ret i64 %m\n}\n"


def test_code_is_compiled_once_for_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))
    first, second = Compiler(), Compiler()
    for compiler in (first, first, second):
        assert compiler.function(TEXT, "f", 1)(41, None) == 42
    assert (first.compiled, second.compiled) == (1, 0)


def test_damaged_code_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))
    Compiler().function(TEXT, "f", 1)
    (file,) = (tmp_path / "compiled").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    again = Compiler()
    assert again.function(TEXT, "f", 1)(1, None) == 2
    assert again.compiled == 1


def test_where_nothing_can_be_kept_code_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "file"))
    assert Compiler().function(TEXT, "f", 1)(1, None) == 2


WAITS = """
define i64 @waits(i64 %most, ptr %flag) {
entry:
  br label %test
test:
  %tries = phi i64 [0, %entry], [%next, %again]
  %set = load volatile i64, ptr %flag
  %seen = icmp ne i64 %set, 0
  br i1 %seen, label %end, label %again
again:
  %next = add i64 %tries, 1
  %more = icmp slt i64 %next, %most
  br i1 %more, label %test, label %end
end:
  ret i64 %set
}
"""


def test_other_threads_go_on_while_a_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path))
    waits, flag = Compiler().function(WAITS, "waits", 1), np.zeros(1, np.int64)
    with ThreadPoolExecutor(1) as threads:
        seen = threads.submit(waits, 10**11, flag.ctypes.data)
        flag[0] = 1
        assert seen.result() == 1
