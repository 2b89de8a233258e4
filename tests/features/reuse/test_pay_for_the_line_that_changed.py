"""A change of a workflow, its code or its files costs what it touches, and the run says what that was."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import pytest

import cenote
from cenote.engine.messages import RunStarted, TaskDone
from cenote.execution.runs.journal import read_events
from cenote.planning.plan import MERGE

from ..conftest import Desk

FLOW = """
    plugins: [ops.py]
    data:
      datasets:
        - {name: a, files: ["a*.root"], metadata: {xsec: 2.0}}
        - {name: b, files: ["b*.root"], metadata: {xsec: 3.0}}
    sources: {events: {kind: root_tree, chunk_size: 500}}
    analysis:
      stages:
        - {id: Score, op: custom.score}
        - {id: Sel, op: hep.select, params: {selection: {All: ["MET_pt > 10"]}}}
        - id: Early
          op: hep.hist
          render: []
          params:
            dataset_axis: true
            weight: dataset_xsec
            axes: [{name: x, type: regular, source: MET_pt, bins: {nbins: 20, low: 0, high: 100}, label: MET}]
        - {id: Last, op: hep.select, params: {selection: {All: ["score > 50"]}}}
        - id: Late
          op: hep.hist
          render: []
          params: {axes: [{name: y, type: regular, source: score, bins: {nbins: 20, low: 0, high: 200}}]}
    execution: {pools: {default: {workers: 1}}}
"""
OPS = """
    from cenote import operation
    from helper import factor

    @operation("custom.score", reads=["MET_pt"], adds=["score"])
    def score(events):
        return {"score": events["MET_pt"] * factor()}
"""
HELPER = """
    def factor():
        return 2
"""
PARTITIONS = 2


@dataclass(frozen=True)
class Analyst:
    """Changes something, runs again, and looks what it cost."""

    desk: Desk
    backend: str

    def run(self, **options: Collection[str]) -> set[str]:
        """The stages whose results were made by the tasks that ran; what they give is what a fresh run gives."""
        run = cenote.load("flow.yaml", backend=self.backend).run("out", **options)
        assert run.status == "succeeded", str(run.failures)
        fresh = cenote.load("flow.yaml", backend="local").run("fresh", fresh=True)
        for name in ("Early", "Late"):
            made, expected = run.product(name), fresh.product(name)
            assert made == expected
            assert made.view(flow=True).tobytes() == expected.view(flow=True).tobytes()
        return {stage for event in self.done() for stage in event.stages}

    def done(self) -> list[TaskDone]:
        """The tasks of the latest run that ran."""
        events = list(read_events(Path("out")))
        latest = max(at for at, event in enumerate(events) if isinstance(event, RunStarted))
        return [event for event in events[latest:] if isinstance(event, TaskDone)]

    def why(self) -> dict[str, tuple[str, ...]]:
        """Stage → why it ran in the latest run, as the run said before it did."""
        started = [event for event in read_events(Path("out")) if isinstance(event, RunStarted)]
        return {row.stage: row.causes for row in started[-1].why}

    def edits(self, old: str, new: str, file: str = "flow.yaml") -> None:
        text = Path(file).read_text()
        assert old in text
        Path(file).write_text(text.replace(old, new))


@pytest.fixture(params=["local", "dask"])
def analyst(desk: Desk, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Analyst:
    monkeypatch.chdir(desk.folder)
    for number, name in enumerate(("a1", "a2", "b1")):
        desk.muons(f"{name}.root", events=500 * PARTITIONS, seed=number)
    desk.write("flow.yaml", FLOW)
    desk.write("ops.py", OPS)
    desk.write("helper.py", HELPER)
    found = Analyst(desk, request.param)
    assert found.run() == {"Score", "Sel", "Early", "Last", "Late"}
    assert found.why() == {}
    return found


def test_a_label_costs_no_task(analyst: Analyst) -> None:
    analyst.edits("label: MET", "label: Missing energy")
    assert analyst.run() == set()
    assert cenote.open_run("out").product("Early").axes["x"].label == "Missing energy"


def test_a_group_that_is_only_drawn_costs_no_task(analyst: Analyst) -> None:
    analyst.edits("{name: a,", "{name: a, group: signal,")
    assert analyst.run() == set()


def test_the_last_cut_costs_what_follows_it(analyst: Analyst) -> None:
    analyst.edits("score > 50", "score > 60")
    assert "Early" not in analyst.run()
    assert analyst.why()["Late"] == ('Last: cut changed, "all(score > 50)" → "all(score > 60)"',)


def test_a_dry_run_counts_only_the_stages_that_tasks_run(analyst: Analyst) -> None:
    analyst.edits("score > 50", "score > 60")
    preview = cenote.load("flow.yaml", backend=analyst.backend).preview("out")
    tasks = 3 * PARTITIONS
    assert preview.stages()["Early"] == (tasks, tasks)
    assert preview.stages()["Late"] == (tasks, 0)
    assert "Early" not in {row.stage for row in preview.why}


def test_files_that_a_stage_writes_cost_themselves(analyst: Analyst) -> None:
    write = "write: {kind: parquet, keep: [score]}"
    analyst.edits(
        'params: {selection: {All: ["MET_pt > 10"]}}', f'params: {{selection: {{All: ["MET_pt > 10"]}}}}, {write}'
    )
    assert analyst.run() == {"Score", "Sel"}
    assert analyst.why()["Sel"] == ("Sel: `write` added",)
    analyst.edits("keep: [score]", "keep: [score, MET_pt]")
    assert analyst.run() == {"Score", "Sel"}
    analyst.edits(f", {write.replace('score', 'score, MET_pt')}", "")
    assert analyst.run() == set()


def test_a_new_histogram_costs_itself(analyst: Analyst) -> None:
    new = "- {id: New, op: hep.hist, render: [], needs: [Sel], params: {axes: [MET_pt]}}"
    analyst.edits("execution:", f"    {new}\nexecution:")
    assert analyst.run() == {"Sel", "New"}
    assert analyst.why()["New"] == ("New is new",)


def test_a_file_that_is_added_costs_itself_and_the_merges(analyst: Analyst) -> None:
    analyst.desk.muons("b2.root", events=500 * PARTITIONS, seed=9)
    analyst.run()
    plan = cenote.load("flow.yaml").plan()
    assert sum(plan.tasks.kind[event.task] != MERGE for event in analyst.done()) == PARTITIONS
    assert analyst.why()["Late"] == ("b2.root is new",)


def copied() -> None:
    shutil.copy("a1.root", "copy")
    Path("copy").replace("a1.root")


def moved() -> None:
    Path("elsewhere").mkdir()
    Path("a1.root").replace("elsewhere/a1.root")
    Path("a1.root").symlink_to("elsewhere/a1.root")


def touched() -> None:
    os.utime("a1.root", (1, 1))


@pytest.mark.parametrize("change", [touched, copied, moved])
def test_a_file_that_holds_what_it_held_costs_nothing(analyst: Analyst, change: Callable[[], None]) -> None:
    change()
    assert analyst.run() == set()


def test_words_in_code_and_workflow_cost_nothing(analyst: Analyst) -> None:
    analyst.edits("def factor():", 'def factor():\n    """How much."""  # a lot', "helper.py")
    analyst.edits("score > 50", "(score   >  50)")
    analyst.edits("stages:", "stages:  # in order")
    analyst.edits("execution: {pools: {default: {workers: 1}}}", "execution:\n  pools:\n    default: {workers: 2}")
    assert analyst.run() == set()


def test_a_function_costs_what_reads_its_columns(analyst: Analyst) -> None:
    analyst.edits("return 2", "return 3", "helper.py")
    assert "Early" not in analyst.run()
    assert analyst.why()["Late"] == ("helper.py: function factor changed (line 2)",)


def test_a_table_that_code_reads_is_named(analyst: Analyst) -> None:
    analyst.desk.write("by.txt", "2")
    analyst.edits("return 2", 'return float(resource("by.txt").read_text())', "helper.py")
    analyst.edits("def factor", "from cenote import resource\n\ndef factor", "helper.py")
    analyst.run()
    analyst.desk.write("by.txt", "3")
    assert "Early" not in analyst.run()
    assert analyst.why()["Late"] == ("by.txt changed",)


def test_a_fact_costs_the_stages_that_read_it_for_that_dataset(analyst: Analyst) -> None:
    analyst.edits("xsec: 3.0", "xsec: 4.0")
    assert analyst.run() == {"Sel", "Early"}
    plan = cenote.load("flow.yaml").plan()
    runs = [event.task for event in analyst.done() if plan.tasks.kind[event.task] != MERGE]
    assert {plan.partitions[int(plan.tasks.partition[task])].dataset for task in runs} == {"b"}
    (cause,) = analyst.why()["Early"]
    assert "xsec of dataset b changed, 3 → 4" in cause


def test_back_and_forth_costs_nothing(analyst: Analyst) -> None:
    analyst.edits("score > 50", "score > 60")
    analyst.run()
    analyst.edits("score > 60", "score > 50")
    assert analyst.run() == set()


def test_what_is_forced_is_done_again_and_says_so(analyst: Analyst) -> None:
    assert "Early" not in analyst.run(force=["Last"])
    assert analyst.why()["Last"] == analyst.why()["Late"] == ("asked for",)
