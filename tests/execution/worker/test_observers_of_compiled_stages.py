"""Modifiers that measure calls and look at no column are around compiled stages, and measure a loop as one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import cenote
from builders.compiled_stages import assert_same_product
from cenote.analysis.compiled.machine_code import Compiler
from cenote.execution.backends.local.in_process import may_share_process
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.execution.worker.compiled_group import CompiledGroup, Ran
from cenote.execution.worker.compiled_programs import CompiledLoop
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.run_task import TaskRunner
from cenote.execution.worker.task_spec import Outcome
from cenote.planning.plan import Plan
from cenote.testing.muons import write_muons

FLOW = """
plugins: [ops.py]
data: {datasets: [{name: d, files: [a.root]}]}
analysis:
  stages:
    - {id: Cut, op: hep.select, params: {selection: nMuon >= 1}}
    - {id: Sum, op: hep.define, params: {total: sum(Muon_pt)}, execution: {modifiers: %(sum)s}}
    - {id: H, op: hep.hist, render: [], params: {axes: [{source: total, bins: {nbins: 9, low: 0, high: 90}}]}}
execution: {backend: local, modifiers: %(all)s}
"""
OPS = """
from typing import ClassVar
from cenote import modifier
from cenote.analysis.modifiers.profile import Profile

@modifier("custom.calls", measures={"calls": "Calls", "stages": "Stages"}, compiled=True)
def calls(run, events, *, call):
    result = run(events)
    assert not result.events.columns
    call.note(calls=1, stages=len(call.stages))
    return result

@modifier("custom.raises", compiled=True)
def raises(run, events):
    run(events)
    raise ValueError("no")

@modifier("custom.looks")
def looks(run, events):
    return run(events)

@modifier("custom.executes", effect="executes", compiled=True)
def executes(run, events):
    return run(events)

class Looks(Profile):
    cenote_plugin: ClassVar = ("modifier", "custom.looks_too")

    def around(self, run, events, call):
        return super().around(run, events, call)
"""
STAGES = ("Cut", "Sum", "H")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(CompiledGroup, "worth", 0)
    write_muons(tmp_path / "a.root", events=300)
    (tmp_path / "ops.py").write_text(OPS)


def flow(folder: Path, *, of_all: str = "[]", of_sum: str = "[]", plugins: str = "[ops.py]") -> cenote.Analysis:
    text = FLOW.replace("[ops.py]", plugins) % {"all": of_all, "sum": of_sum}
    (folder / "flow.yaml").write_text(text)
    return cenote.load(folder / "flow.yaml")


def loops(plan: Plan) -> list[list[str]]:
    return [[step.stage for step in fused.steps] for segment in plan.segments for fused in segment.fused]


def ran(plan: Plan, folder: Path, *, split: int = 1) -> tuple[Outcome, object]:
    """The first task, and its histogram."""
    store = Store(folder / "work")
    runner = TaskRunner(make_run_spec(plan, store=store.folder, files=folder / "files"))
    outcome = runner.run(TaskSpecs(plan).write(0, attempt=1, split=split))
    return outcome, None if outcome.failure else store.read(plan.tasks.key(0))["H"]


def test_the_same_stages_are_compiled_with_those_that_measure(tmp_path: Path) -> None:
    plan = flow(tmp_path, of_all="[profile, trace, custom.calls]").plan()
    assert loops(plan) == loops(flow(tmp_path).plan()) == [list(STAGES)]


@pytest.mark.parametrize(
    ("modifier", "why"),
    [
        ("diagnostics", "looks at the values before and after it"),
        ("timeout", "limits its time"),
        ("custom.looks", "is around it"),
        ("custom.looks_too", "is around it"),
        ("custom.executes", "is around it"),
    ],
)
def test_the_plan_says_which_modifier_needs_a_stage_by_itself(tmp_path: Path, modifier: str, why: str) -> None:
    plan = flow(tmp_path, of_all="[profile]", of_sum=f"[{modifier}]").plan()
    assert loops(plan) == [["Cut"], ["H"]]
    reasons = {stage.stage: stage.not_compiled for stage in plan.stages if stage.not_compiled}
    assert reasons == {"Sum": f"modifier '{modifier}' {why}"}


@pytest.mark.parametrize("split", [1, 3])
def test_a_loop_is_measured_as_one_and_gives_the_same_numbers(tmp_path: Path, split: int) -> None:
    _, plain = ran(flow(tmp_path).plan(), tmp_path / "plain", split=split)
    outcome, observed = ran(flow(tmp_path, of_all="[profile, custom.calls]").plan(), tmp_path / "seen", split=split)
    assert_same_product(observed, plain)
    (group,) = outcome.groups
    assert group.stages == STAGES
    assert group.modifiers["custom.calls"].values == {"calls": split, "stages": 3 * split}
    assert group.modifiers["profile"].values["seconds"] > 0
    assert {stage: stats.modifiers for stage, stats in outcome.stages.items() if stats.modifiers} == {}


def test_a_stage_with_other_modifiers_is_a_loop_of_its_own_and_measured_alone(tmp_path: Path) -> None:
    plan = flow(tmp_path, of_sum="[custom.calls]").plan()
    assert loops(plan) == [["Cut"], ["Sum"], ["H"]]
    outcome, observed = ran(plan, tmp_path / "seen")
    assert_same_product(observed, ran(flow(tmp_path).plan(), tmp_path / "plain")[1])
    assert outcome.groups == ()
    measured = {stage: stats.modifiers for stage, stats in outcome.stages.items() if stats.modifiers}
    assert {stage: found["custom.calls"].values for stage, found in measured.items()} == {
        "Sum": {"calls": 1, "stages": 1}
    }


def test_what_a_loop_cannot_do_is_measured_stage_by_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledLoop, "run", lambda _self, events: Ran(replace(events, columns={})))
    outcome, _ = ran(flow(tmp_path, of_all="[profile]").plan(), tmp_path / "seen")
    assert outcome.groups == ()
    assert [stage for stage, stats in outcome.stages.items() if "profile" in stats.modifiers] == list(STAGES)


def test_a_modifier_that_fails_around_a_loop_names_its_stages(tmp_path: Path) -> None:
    outcome, _ = ran(flow(tmp_path, of_all="[profile, custom.raises]").plan(), tmp_path / "seen")
    assert outcome.failure is not None
    told = "modifier 'custom.raises': ValueError: no; it is around Cut … H (3 stages as one loop)"
    assert outcome.failure.message == told
    assert (outcome.failure.modifier, outcome.failure.stage, outcome.failure.dataset) == ("custom.raises", "Cut", "d")


def test_summary_report_trace_and_flame_graph_show_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.analysis.compiled.run.COMPILER", Compiler())  # compiling takes long enough for a sample
    modifiers = "[{name: profile, params: {flame: true}}, trace]"
    run = flow(tmp_path, of_all=modifiers, plugins="[]").run(tmp_path / "out", workers=1)
    (loop,) = run.summary["compiled"]
    assert loop["stages"] == list(STAGES)
    assert {one["name"]: one["calls"] for one in loop["modifiers"]} == {"profile": 1, "trace": 1}
    page = (run.folder / "report.html").read_text()
    assert "Cut … H (3 stages as one loop)" in page
    assert "One loop: Cut, Sum, H." in page
    files = run.folder / "debug" / "modifiers"
    trace = json.loads((files / "trace" / "trace.json").read_text())["traceEvents"]
    (span,) = [entry for entry in trace if entry.get("cat") == "stage"]
    assert span["name"] == "Cut … H (3 stages as one loop)"
    assert span["args"] == {"events": 300, "stages": "Cut, Sum, H"}
    assert "compiled_programs.py" not in (files / "profile" / "Cut+Sum+H.folded").read_text()
    assert "Cut … H (3 stages as one loop)" in (files / "profile" / "Cut+Sum+H.svg").read_text()


@pytest.mark.parametrize(
    ("modifiers", "together"),
    [
        ("[]", True),
        ("[profile, trace]", True),
        ("[{name: profile, params: {functions: 5}}]", False),
        ("[cache]", False),
    ],
)
def test_tasks_run_in_threads_with_what_only_looks_at_clocks(tmp_path: Path, modifiers: str, together: bool) -> None:
    text = FLOW.replace("plugins: [ops.py]\n", "") % {"all": modifiers, "sum": "[]"}
    (tmp_path / "flow.yaml").write_text(text)
    spec = make_run_spec(cenote.load(tmp_path / "flow.yaml").plan(), store=tmp_path / "work", files=tmp_path / "files")
    assert may_share_process(spec) is together
