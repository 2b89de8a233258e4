"""Test check, plan, run, status and report as somebody at a terminal uses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cenote.cli.main import exit_code_of
from cenote.language.plugins import registry

OPS = '''
import os
import signal
import time

import psutil

from cenote import operation


@operation("custom.shaky", reads=["x"], adds=["y"])
def shaky(events, *, bad: str = "none", interrupt: str = "none"):
    """Doubles x, unless told otherwise."""
    if events.dataset.name == interrupt and not os.path.exists("interrupted"):
        open("interrupted", "w").close()
        (driver,) = [one for one in psutil.Process().parents() if "cenote.cli.main" in " ".join(one.cmdline())]
        driver.send_signal(signal.SIGINT)
        time.sleep(60)  # until it is ended
    if events.dataset.name == bad:
        raise ValueError(f"no calibration for {bad}")
    return {"y": 2 * events["x"]}
'''
FLOW = """
plugins: [ops.py]
data:
  datasets:
    - {name: first, files: first.parquet}
    - {name: second, files: second.parquet}
    - {name: third, files: third.parquet}
sources: {rows: {kind: parquet}}
analysis:
  stages:
    - {id: Shaky, op: custom.shaky}
    - id: Values
      op: hep.hist
      render: []
      params: {axes: [{name: y, type: regular, source: y, bins: {nbins: 4, low: 0, high: 8}}]}
execution:
  pools:
    default: {workers: 1, cost: 2.0}
"""


@pytest.fixture(autouse=True)
def analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a small workflow over three files, made the current one."""
    for name in ("first", "second", "third"):
        pq.write_table(pa.table({"x": [0.5, 1.5, 2.5, 3.5]}), tmp_path / f"{name}.parquet")
    (tmp_path / "ops.py").write_text(OPS)
    (tmp_path / "flow.yaml").write_text(FLOW)
    monkeypatch.chdir(tmp_path)
    restore = registry.forget_added()
    yield tmp_path
    restore()


def cenote(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-c", "from cenote.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)


def test_a_run_says_what_it_left_and_a_second_one_reuses_it() -> None:
    done = cenote("run", "flow.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("succeeded in ")
    assert "Values (histogram" in done.stdout
    assert "0 of 4 tasks (0 %)" in done.stderr
    assert json.loads(Path("out/flow/summary.json").read_text())["status"] == "succeeded"
    again = cenote("run", "flow.yaml")
    assert again.returncode == 0, again.stderr
    assert "4 tasks, 4 of them reused" in again.stdout
    assert json.loads(Path("out/flow/summary.json").read_text())["tasks"]["waiting"] == 0


def test_json_is_the_summary_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "--json"]) == 0
    told = capsys.readouterr()
    summary = json.loads(told.out)
    assert told.err == ""
    assert summary["stages"][0]["pools"] == {"default": 3}
    assert summary["pools"][0]["cost"] >= 0


def test_quiet_prints_nothing_when_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "--quiet", "--out", "elsewhere"]) == 0
    assert capsys.readouterr() == ("", "")
    assert Path("elsewhere/summary.json").is_file()


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_stage_that_raises_ends_with_20_and_tells_where(quiet: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_code_of(["run", "flow.yaml", "--set", "analysis.stages.Shaky.params.bad=second", *quiet])
    told = capsys.readouterr().err
    assert code == 20
    assert "Shaky raised an exception on second.parquet" in told.replace(f"{Path.cwd()}/", "")
    assert "ValueError: no calibration for second" in told
    assert "ops.py" in told
    assert "cenote run flow.yaml --set analysis.stages.Shaky.params.bad=second --out out/flow" in told


def test_keep_going_ends_with_1_and_a_partial_product(capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_code_of(["run", "flow.yaml", "--set", "analysis.stages.Shaky.params.bad=second", "--keep-going"])
    assert code == 1
    assert "Values (histogram, 1 axis, 4 bins, 8 entries) partial" in capsys.readouterr().out


def test_an_interrupt_ends_with_130_and_resume_repeats_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = cenote("run", "flow.yaml", "--set", "analysis.stages.Shaky.params.interrupt=second", "--workers", "1")
    assert stopped.returncode == 130, stopped.stderr
    assert stopped.stdout.startswith("cancelled after ")
    assert "continue with `cenote run flow.yaml" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    resumed = ["run", "flow.yaml", "--set", "analysis.stages.Shaky.params.interrupt=second", "--resume", "--json"]
    assert exit_code_of(resumed) == 0
    assert json.loads(capsys.readouterr().out)["tasks"]["reused"] >= 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("analysis:", "analyis:"), 10),
        (("- {id: Shaky", "- {id: Shaky, needs: [Nothing]"), 11),
        (("source: y", "source: yy"), 11),
        (("hep.hist", "hep.histo"), 12),
        (("op: custom.shaky", "op: custom.shaky, execution: {require: gpu}"), 14),
    ],
)
def test_the_exit_code_tells_the_family_of_the_mistake(
    change: tuple[str, str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("flow.yaml").write_text(FLOW.replace(*change))
    done = cenote("run", "flow.yaml")
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert any(line.startswith("flow.yaml:") for line in done.stderr.splitlines())
    assert done.stderr.rstrip().endswith("in flow.yaml")
    for command in ("check", "plan"):
        assert exit_code_of([command, "flow.yaml"]) == code
        assert capsys.readouterr().err == done.stderr
    assert not Path("out").exists()


def test_a_missing_file_and_contradicting_options_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", "none.yaml"]) == 10
    assert exit_code_of(["run", "flow.yaml", "--resume", "--replace"]) == 2
    assert exit_code_of(["run", "flow.yaml", "--resume", "--fresh"]) == 2
    assert exit_code_of(["plan", "flow.yaml", "--graph", "plan.png"]) == 2
    assert "--graph plan.svg" in capsys.readouterr().err


def test_workers_are_counted_by_pools_where_the_backend_is_not_local(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["run", "flow.yaml", "--backend", "dask", "--workers", "3"]) == 2
    told = capsys.readouterr().err
    assert "every pool has its own number of workers" in told
    assert "execution.pools.default.workers=3" in told


def test_check_says_that_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["check", "flow.yaml"]) == 0
    assert capsys.readouterr().out == "flow.yaml: no problems\n"


def test_check_as_json_has_places(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flow.yaml").write_text(FLOW.replace("workers: 1", "wrkers: 1"))
    assert exit_code_of(["check", "flow.yaml", "--json"]) == 10
    told = json.loads(capsys.readouterr().out)
    (problem,) = told["problems"]
    assert told["ok"] is False
    assert (problem["kind"], problem["file"], problem["line"]) == ("unknown-key", "flow.yaml", 18)


def test_plan_as_json_is_one_object_with_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["plan", "flow.yaml", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert {"id", "op", "pools", "verdict", "reason", "segment"} <= plan["stages"][0].keys()
    assert {"name", "strategy", "workers", "slots", "resources"} <= plan["pools"][0].keys()
    assert {"partitions", "tasks", "warnings"} <= plan.keys()


def test_plan_says_where_settings_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["plan", "flow.yaml", "--set", "execution.pools.default.slots=1"]) == 0
    told = capsys.readouterr().out
    assert "workers, cost: flow.yaml:18" in told
    assert "slots: command line" in told


@pytest.mark.parametrize(("form", "start"), [("mermaid", b"flowchart"), ("svg", b"<svg")])
def test_plan_draws_pictures(form: str, start: bytes) -> None:
    assert exit_code_of(["plan", "flow.yaml", "--graph", form, "--output", "plan.picture"]) == 0
    assert Path("plan.picture").read_bytes().startswith(start)


def test_status_and_report_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["run", "flow.yaml", "--quiet"])
    for arguments in (["status", "out/flow"], ["status", "out/flow", "--follow"]):
        assert exit_code_of(arguments) == 0
        told = capsys.readouterr().out
        assert told.startswith("succeeded in ")
        assert "Shaky" in told
        assert "default" in told
    assert exit_code_of(["status", "out/flow", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "succeeded"
    Path("out/flow/report.html").unlink(missing_ok=True)
    assert exit_code_of(["report", "out/flow"]) == 0
    assert Path("out/flow/report.html").is_file()
    assert exit_code_of(["status", "."]) == 2


def test_status_of_a_run_that_was_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code_of(["run", "flow.yaml", "--quiet"])
    journal = Path("out/flow/journal.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[: len(lines) // 2]) + '{"type":"TaskDo')
    Path("out/flow/summary.json").unlink()
    assert exit_code_of(["status", "out/flow"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("interrupted after ")
    assert "next: continue with `cenote run" in told


def test_colours_are_for_terminals_only() -> None:
    Path("flow.yaml").write_text(FLOW.replace("workers: 1", "wrkers: 1"))
    told = cenote("check", "flow.yaml", env={**os.environ, "TERM": "xterm-256color"})
    assert "\x1b" not in told.stderr
