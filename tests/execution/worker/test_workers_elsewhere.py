"""Test that tasks find their files though their worker was not started where the driver was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import cenote
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.execution.worker.run_task import TaskRunner
from cenote.testing.muons import write_muons


def test_names_of_files_are_relative_to_where_the_driver_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    monkeypatch.chdir(tmp_path)
    write_muons(tmp_path / "a.root", events=10)
    stages = [{"id": "H", "op": "hep.hist", "params": {"axes": ["MET_pt"]}}]
    flow = {"data": {"datasets": [{"name": "d", "files": "a.root"}]}, "analysis": {"stages": stages}}
    Path("flow.yaml").write_text(json.dumps(flow))
    plan = cenote.load("flow.yaml").plan()
    program = make_run_spec(plan, store=Path("work"), files=Path("products"))
    (tmp_path / "node").mkdir()
    monkeypatch.chdir(tmp_path / "node")

    outcome = TaskRunner(program).run(TaskSpecs(plan).write(0, attempt=1))

    assert outcome.failure is None
    assert outcome.events == 10
