"""Test what a shell completes: names from the workflow at hand, and at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from cenote.cli.completions import settings_from
from cenote.cli.main import cli

FLOW = """
include: more.yaml
data: {datasets: [{name: first, files: first.parquet}]}
analysis:
  stages:
    - {id: GoodMuons, op: define, params: {variables: {y: "2 * x"}}}
    - {id: GoodJets, op: define, params: {variables: {y: "2 * x"}}}
execution: {pools: {gpu: {workers: 2}}}
"""
MORE = "execution: {pools: {default: {workers: 1}}}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "more.yaml").write_text(MORE)
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "laptop.yaml").write_text(MORE)
    run = tmp_path / "out" / "flow"
    run.mkdir(parents=True)
    (run / "journal.jsonl").write_text("")
    (run / "plan.json").write_text(json.dumps({"stages": [{"id": "GoodMuons"}, {"id": "Other"}]}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def completed(*typed: str) -> list[str]:
    *words, incomplete = typed
    return [item.value for item in ShellComplete(cli, {}, "cenote", "_C").get_completions(list(words), incomplete)]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (("why", "out/flow", "G"), ["GoodMuons"]),
        (("simulate", "flow.yaml", "--seconds-per-task", "GoodJ"), ["GoodJets="]),
        (("run", "flow.yaml", "--until", "GoodJ"), ["GoodJets"]),
        (("run", "flow.yaml", "--only", "GoodJ"), ["GoodJets"]),
        (("run", "flow.yaml", "--force", "GoodJ"), ["GoodJets"]),
        (("plan", "flow.yaml", "--until", "GoodJ"), ["GoodJets"]),
        (("run", "flow.yaml", "--set", "analysis.stages.GoodJets.f"), ["analysis.stages.GoodJets.from="]),
        (("run", "flow.yaml", "--backend", "d"), ["dask"]),
        (("run", "flow.yaml", "--strategy", "sl"), ["slurm"]),
        (("run", "flow.yaml", "--profile", "l"), ["laptop"]),
        (("ops", "hep.selection."), ["hep.selection.cutflow", "hep.selection.flag"]),
        (("ops", "--kind", "sink", "par"), ["parquet"]),
        (("status", "o"), ["out/flow"]),
        (("plan", "flow.yaml", "--graph", "d"), ["dot"]),
        (("run", "flow.yaml", "--set", "execution.pools."), ["execution.pools.default.", "execution.pools.gpu."]),
        (("run", "flow.yaml", "--set", "execution.pools.gpu.work"), ["execution.pools.gpu.workers="]),
        (("run", "flow.yaml", "--set", "analysis.stages.GoodM"), ["analysis.stages.GoodMuons."]),
        (("run", "flow.yaml", "--set", "execution.backend=l"), ["execution.backend=local"]),
        (("run", "none.yaml", "--set", "analysis.stages.G"), []),
    ],
)
def test_names_are_completed(typed: tuple[str, ...], found: list[str]) -> None:
    got = completed(*typed)
    if typed[-1].endswith("GoodM"):
        assert got
        assert all(value.startswith(found[0]) for value in got)
    else:
        assert got == found


def test_keys_are_completed_as_far_as_the_next_choice() -> None:
    document = {"analysis": {"stages": [{"id": "Only", "op": "define", "params": {"variables": {"y": "x"}}}]}}
    assert settings_from("analysis.stages.Only.params", document) == ["analysis.stages.Only.params.variables.y="]
    assert "execution.pools=" in settings_from("execution.", {})
    assert settings_from("nothing.here", {}) == []


@pytest.mark.parametrize("content", ["analysis: [", "- 1", "include: flow.yaml", "\0"])
def test_a_workflow_that_is_being_written_is_no_trouble(content: str) -> None:
    Path("flow.yaml").write_text(content)
    assert completed("run", "flow.yaml", "--set", "analysis.stages.G") == []


def test_completing_names_of_plugins_and_stages_imports_nothing_heavy() -> None:
    heavy = ("pydantic", "rich", "numpy", "msgspec", "awkward", "uproot", "matplotlib", "pyarrow", "hist")
    script = (
        "import sys\nfrom click.shell_completion import ShellComplete\nfrom cenote.cli.main import cli\n"
        "complete = ShellComplete(cli, {}, 'cenote', '_C').get_completions\n"
        "complete(['simulate', 'flow.yaml', '--seconds-per-task'], 'G')\n"
        "complete(['run', 'flow.yaml', '--backend'], '')\n"
        "complete(['ops'], 'hep')\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_bash_puts_no_space_behind_a_key_that_takes_a_value(folder: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = (
        f'eval "$({sys.executable} -m cenote completion bash)"\n'
        'compopt() { echo compopt "$@"; }\n'
        "COMP_WORDS=(cenote run flow.yaml --set execution.pools.gpu.work); COMP_CWORD=4\n"
        "_cenote_completion cenote\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "cenote").write_text(f'#!/bin/sh\nexec {sys.executable} -m cenote "$@"\n')
    (bin_folder / "cenote").chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "-c", script], capture_output=True, text=True, timeout=120, env=environment, check=True
    )
    assert done.stdout.splitlines() == ["compopt -o nospace", "execution.pools.gpu.workers="]
