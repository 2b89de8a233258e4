"""Workers import all plugins of their program before the first task, in one thread, and read no docstrings."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

import cenote
from cenote.common import shell
from cenote.execution.runtime.task_specs import make_run_spec
from cenote.testing.muons import write_muons

FLOW = """
data: {datasets: [{name: d, files: [a.root]}]}
analysis:
  stages:
    - {id: Cut, op: hep.selection.cutflow, params: {selection: {All: ["nMuon >= 1"]}}}
    - id: H
      op: hep.hist
      params: {axes: [{name: x, type: regular, source: MET_pt, bins: {nbins: 20, low: 0, high: 300}}]}
      write: {kind: parquet, path: skim, keep: [MET_pt]}
"""
NEEDED = [
    "cenote.analysis.operations.hep.hist.operation",
    "cenote.analysis.operations.hep.selection.cutflow",
    "cenote.analysis.products.cutflow",
    "cenote.analysis.products.histogram",
    "cenote.analysis.sinks.parquet",
    "cenote.analysis.sources.root_tree.plain_file",
    "cenote.analysis.sources.root_tree.source",
]
BEGIN = """
import ast, pickle, sys

def parse(*_, **__):
    raise SystemError("AST constructor recursion depth mismatch")

ast.parse = parse
from cenote.execution.worker.run_task import TaskRunner
TaskRunner(pickle.load(open(sys.argv[1], "rb")))
print(*sorted(name for name in sys.modules if name.startswith("cenote.")))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    write_muons(tmp_path / "a.root", events=100)
    (tmp_path / "flow.yaml").write_text(FLOW)
    plan = cenote.load(tmp_path / "flow.yaml").plan()
    file = tmp_path / "program"
    file.write_bytes(pickle.dumps(make_run_spec(plan, store=tmp_path, files=tmp_path)))
    return file


def test_every_plugin_is_there_before_the_first_task_and_no_source_was_parsed(program: Path) -> None:
    begun = shell.run_command([sys.executable, "-c", BEGIN, str(program)], seconds=120)
    assert begun.returncode == 0, begun.stderr
    assert set(NEEDED) <= set(begun.stdout.split())


def test_a_plugin_that_only_other_pools_have_does_not_keep_a_worker_from_its_own_tasks(program: Path) -> None:
    elsewhere = f"import sys\nsys.modules['cenote.analysis.sinks.parquet'] = None\n{BEGIN}"
    begun = shell.run_command([sys.executable, "-c", elsewhere, str(program)], seconds=120)
    assert begun.returncode == 0, begun.stderr
    assert "cenote.analysis.operations.hep.hist.operation" in begun.stdout.split()
