"""After a change of code or files, a run computes what the change concerns, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cenote

from ..conftest import Desk

OPS = """
    from cenote import operation, resource

    @operation("custom.scaled", reads=["MET_pt"], adds=["scaled"])
    def scaled(events):
        from helper import factor
        return {"scaled": events["MET_pt"] * factor * float(resource("scale.txt").read_text())}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    analysis:
      stages:
        - {id: Scaled, op: custom.scaled}
        - id: S
          op: hep.hist
          params: {axes: [{name: x, source: scaled, bins: {nbins: 20, low: 0, high: 400}}]}
          render: []
        - id: N
          op: hep.hist
          needs: []
          params: {axes: [{name: n, source: nMuon, bins: {nbins: 5, low: 0, high: 5}}]}
          render: []
          execution: {require: other}
    execution: {pools: {default: {workers: 1}, other: {workers: 1}}}
"""


@pytest.fixture
def flow(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=500)
    desk.write("ops.py", OPS)
    desk.write("helper.py", "factor = 2\n")
    desk.write("scale.txt", "1.0")
    return desk.write("flow.yaml", FLOW)


def ran(run: cenote.Run) -> set[str]:
    """The stages that did something."""
    stages: list[dict[str, Any]] = run.summary["stages"]
    return {stage["id"] for stage in stages if sum(stage["pools"].values())}


@pytest.mark.parametrize(("file", "text"), [("helper.py", "factor = 3\n"), ("scale.txt", "1.5")])
def test_a_changed_helper_or_file_is_never_overlooked(desk: Desk, flow: Path, file: str, text: str) -> None:
    before = cenote.load(flow).run("out").product("S")
    assert ran(cenote.load(flow).run("out")) == set()
    desk.write(file, text)
    again = cenote.load(flow).run("out")
    assert ran(again) == {"Scaled", "S"}, "what does not use the plugin is reused"
    assert again.product("S") != before
    elsewhere = desk.cenote("run", "flow.yaml", "--out", "elsewhere", "--quiet")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert again.product("S") == cenote.open_run("elsewhere").product("S")


def test_the_same_analysis_runs_twice_and_reuses_everything(flow: Path) -> None:
    analysis = cenote.load(flow)
    analysis.run("out")
    assert ran(analysis.run("out")) == set()


def test_files_under_depends_on_count_for_their_stage(desk: Desk, flow: Path) -> None:
    (desk.folder / "tables").mkdir()
    desk.write("tables/a.csv", "1")
    sets = ["analysis.stages.N.depends_on=tables/*.csv"]
    cenote.load(flow, sets=sets).run("out")
    assert ran(cenote.load(flow, sets=sets).run("out")) == set()
    desk.write("tables/a.csv", "2")
    assert ran(cenote.load(flow, sets=sets).run("out")) == {"N"}
    desk.write("tables/b.csv", "2")
    assert ran(cenote.load(flow, sets=sets).run("out")) == {"N"}


@pytest.mark.parametrize(
    ("written", "words"),
    [("tabel.csv", ("is not there", "did you mean 'table.csv'?")), ("none/*.csv", ("matches no file",))],
)
def test_a_file_under_depends_on_that_is_not_there_is_a_problem_of_check(
    desk: Desk, flow: Path, written: str, words: tuple[str, ...]
) -> None:
    desk.write("table.csv", "1")
    checked = desk.cenote("check", str(flow), "--set", f"analysis.stages.N.depends_on={written}")
    assert checked.returncode == 10
    assert all(word in checked.stdout + checked.stderr for word in words), checked.stderr


@pytest.mark.parametrize("named", ["steps", "steps/", "steps.py"])
def test_a_package_or_module_beside_the_workflow_is_a_plugin(desk: Desk, flow: Path, named: str) -> None:
    text = OPS.replace("from helper import", "from helper import")
    if named == "steps.py":
        desk.write("steps.py", text)
    else:
        (desk.folder / "steps").mkdir()
        desk.write("steps/__init__.py", "")
        desk.write("steps/scaling.py", text)
        desk.write("steps/scale.txt", "1.0")
    run = cenote.load(flow, sets=[f"plugins=[{named}]"]).run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("S") == cenote.load(flow).run("file").product("S")


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_modules_and_files_reach_every_worker(flow: Path, backend: str) -> None:
    run = cenote.load(flow, backend=backend).run("out")
    assert run.status == "succeeded", str(run.failures)
    assert run.product("S") == cenote.load(flow).run("local").product("S")


def test_a_file_that_is_read_unannounced_is_a_failure_that_says_what_to_do(desk: Desk, flow: Path) -> None:
    desk.write("ops.py", OPS.replace('resource("scale.txt")', 'resource("scale" + ".txt")'))
    run = cenote.load(flow).run("out")
    assert run.status == "failed"
    assert "not known when the run was planned" in run.failures[0]["message"]
    assert "depends_on" in run.failures[0]["message"]
    declared = cenote.load(flow, sets=["analysis.stages.Scaled.depends_on=scale.txt"]).run("out")
    assert declared.status == "succeeded", declared.failures


COMPUTED = """
    import importlib
    import years
    from cenote import operation

    @operation("custom.scaled", reads=["MET_pt"], adds=["scaled"])
    def scaled(events):
        return {"scaled": events["MET_pt"] * importlib.import_module("{}20" + "18").factor}
"""


@pytest.mark.parametrize("backend", ["local", "dask"])
@pytest.mark.parametrize("start", ["years.of_", "year_"])
def test_a_module_that_the_code_does_not_name_is_no_part_of_a_run(
    desk: Desk, flow: Path, monkeypatch: pytest.MonkeyPatch, backend: str, start: str
) -> None:
    monkeypatch.syspath_prepend("")  # as in a notebook
    (desk.folder / "years").mkdir()
    desk.write("years/__init__.py", "")
    desk.write("years/of_2018.py", "factor = 2\n")
    desk.write("year_2018.py", "factor = 2\n")
    desk.write("ops.py", COMPUTED.replace("{}", start))
    run = cenote.load(flow, backend=backend).run("out")
    assert run.status == "failed"
    assert f"module '{start}2018': it was not known when the run was planned" in run.failures[0]["message"]


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_files_with_names_of_the_standard_library_disturb_no_worker(desk: Desk, flow: Path, backend: str) -> None:
    desk.write("signal.py", "raise RuntimeError('not the signal that was meant')\n")
    in_processes = "analysis.stages.N.execution.timeout=600"
    run = cenote.load(flow, backend=backend, sets=[in_processes]).run("out")
    assert run.status == "succeeded", str(run.failures)


def test_workers_import_from_where_the_driver_does(
    desk: Desk, flow: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "dep_of_the_driver.py").write_text("factor = 2\n")
    monkeypatch.syspath_prepend(str(elsewhere))
    before = cenote.load(flow).run("out").product("S")
    desk.write("ops.py", OPS.replace("from helper import", "from dep_of_the_driver import"))
    run = cenote.load(flow, backend="dask").run("out")
    assert run.status == "succeeded", str(run.failures)
    assert run.product("S") == before
