"""Test what people try who know other tools: -n, -j, -v, a workflow from standard input, a graph as DOT."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cenote
from cenote.cli.main import exit_code_of
from cenote.cli.views.verbose import preview_as_json, preview_lines
from cenote.engine.messages import WhyRow

FLOW = """
data:
  datasets:
    - {name: first, files: first.parquet}
    - {name: second, files: second.parquet}
sources: {rows: {kind: parquet}}
analysis:
  stages:
    - {id: Double, op: define, params: {variables: {y: "2 * x"}}}
    - id: Values
      op: hep.hist
      render: []
      params: {axes: [{name: y, type: regular, source: y, bins: {nbins: 4, low: 0, high: 8}}]}
"""


@pytest.fixture(autouse=True)
def analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small workflow over two files, made the current one."""
    for name, last in (("first", 3.5), ("second", 3.0)):
        pq.write_table(pa.table({"x": [0.5, 1.5, 2.5, last]}), tmp_path / f"{name}.parquet")
    (tmp_path / "flow.yaml").write_text(FLOW)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def on_standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


# --- a dry run


def test_a_dry_run_shows_the_plan_and_writes_nothing(capsys: pytest.CaptureFixture[str], analysis: Path) -> None:
    before = sorted(analysis.rglob("*"))
    assert exit_code_of(["run", "flow.yaml", "-n"]) == 0
    told = capsys.readouterr().out
    assert "Values  " in told
    assert "dry run   3 tasks would run; the run would go to out/flow" in told
    assert sorted(analysis.rglob("*")) == before


def test_a_dry_run_tells_what_would_be_reused(capsys: pytest.CaptureFixture[str]) -> None:
    whole = Path("second.parquet").read_bytes()
    Path("second.parquet").write_bytes(whole[:50])
    assert exit_code_of(["run", "flow.yaml", "-q", "--keep-going"]) == 1
    Path("second.parquet").write_bytes(whole)
    capsys.readouterr()
    assert exit_code_of(["run", "flow.yaml", "--resume", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "dry run   2 tasks would run, 1 would be reused; the run would go to out/flow" in told
    assert "Values: 1 of 2 tasks would run" in told
    assert exit_code_of(["run", "flow.yaml", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"]["reused"] == 1


def test_a_dry_run_tells_why_stages_would_run(analysis: Path) -> None:
    preview = cenote.load(analysis / "flow.yaml").preview()
    why = (WhyRow("Double", 2, 0, ("Double: column x changed",)), WhyRow("Values", 2, 0, ("Double: column x changed",)))
    lines = [str(line) for line in preview_lines(replace(preview, why=why))]
    assert lines[1:] == [
        "          Double: 2 of 2 tasks would run: column x changed",
        "          Values: 2 of 2 tasks would run: as Double",
    ]
    assert preview_as_json(replace(preview, why=why))["why"][0] == {
        "stage": "Double",
        "run": 2,
        "reused": 0,
        "causes": ["Double: column x changed"],
    }


def test_a_dry_run_as_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "-n", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["tasks"], told["reused"], told["out"]) == (3, 0, "out/flow")
    assert [stage["id"] for stage in told["stages"]] == ["Double", "Values"]
    assert told["plan"]["workflow"] == "flow.yaml"


def test_a_dry_run_of_a_broken_workflow_fails_as_the_run_would(capsys: pytest.CaptureFixture[str]) -> None:
    broken = ["flow.yaml", "--set", "analysis.stages.Values.op=hep.hits"]
    assert exit_code_of(["run", *broken, "-n"]) == exit_code_of(["run", *broken]) != 0
    assert "did you mean 'hep.hist'?" in capsys.readouterr().err


# --- cores


@pytest.mark.parametrize("option", ["-j", "--cores", "--workers"])
def test_cores_are_the_processes_of_the_local_backend(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", option, "2", "-v"]) == 0
    told = capsys.readouterr().err
    assert "done on default-" in told
    for dry_run in ([], ["-n"]):
        assert exit_code_of(["run", "flow.yaml", "--backend", "dask", option, "2", "--out", "other", *dry_run]) == 2
        assert "execution.pools.default.workers=2" in capsys.readouterr().err


# --- more words


def test_verbose_tells_of_files_tasks_and_workers(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "-v"]) == 0
    captured = capsys.readouterr()
    for words in (
        "read flow.yaml",
        "dataset 'first': 1 file, first.parquet",
        "worker default-1 joins pool 'default' with 1 slot",
        "task 0 starts on default-1: Double … Values on first, first.parquet, events 0 to 4",
        "task 1 done on default-1 in ",
        "merge 2 starts on default-1: Values",
    ):
        assert words in captured.err, words
    assert "starts on" not in captured.out


def test_twice_verbose_tells_of_stages_within_tasks_and_of_what_is_reused(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "-vv"]) == 0
    assert "Values: " in capsys.readouterr().err
    assert exit_code_of(["run", "flow.yaml", "-vv", "--resume"]) == 0
    assert "is reused" in capsys.readouterr().err


def test_verbose_leaves_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "-v", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["status"] == "succeeded"
    assert "task 0 starts" in captured.err


def test_quiet_and_verbose_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "-q", "-v"]) == 2
    assert "choose one" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "plan", "simulate"])
def test_other_commands_tell_which_files_were_read(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.yaml").write_text("execution: {pools: {default: {workers: 2}}}")
    assert exit_code_of([command, "flow.yaml", "--profile", "more.yaml", "-v"]) == 0
    told = capsys.readouterr().err
    assert "read flow.yaml" in told
    assert "read more.yaml" in told


# --- standard input


def test_a_workflow_from_standard_input_runs_and_resumes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_standard_input(monkeypatch, FLOW.encode())
    assert exit_code_of(["run", "-"]) == 0
    assert "out/stdin/report.html" in capsys.readouterr().out
    on_standard_input(monkeypatch, FLOW.encode())
    assert exit_code_of(["run", "-", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tasks"]["reused"]
    workflow = json.loads(Path("out/stdin/provenance.json").read_text())["workflow"]
    assert (workflow["text"], len(workflow["sha256"])) == (FLOW, 64)


def test_mistakes_on_standard_input_have_their_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_standard_input(monkeypatch, FLOW.replace("op: define", "op: defne").encode())
    assert exit_code_of(["check", "-"]) != 0
    assert "stdin:9:" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b", b""])
def test_what_is_no_workflow_on_standard_input_is_told(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    on_standard_input(monkeypatch, content)
    assert exit_code_of(["plan", "-"]) in (10, 11, 12)


def test_standard_input_that_is_closed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert exit_code_of(["run", "-"]) == 2
    assert "standard input is closed" in capsys.readouterr().err


# --- a graph


@pytest.mark.parametrize("named", [["--graph", "dot", "--output", "plan.dot"], ["--graph", "plan.dot"]])
def test_a_plan_is_drawn_as_dot_into_the_file_that_is_named(named: list[str]) -> None:
    assert exit_code_of(["plan", "flow.yaml", *named]) == 0
    assert Path("plan.dot").read_text().startswith('digraph "flow.yaml" {')


def test_a_graph_needs_a_form_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["plan", "flow.yaml", "--graph", "plan.pdf"]) == 2
    assert "dot, mermaid, svg" in capsys.readouterr().err
    assert exit_code_of(["plan", "flow.yaml", "--graph", "plan.svg", "--output", "other.svg"]) == 2
    assert "choose one" in capsys.readouterr().err
