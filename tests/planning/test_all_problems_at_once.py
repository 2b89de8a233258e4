"""A slip of the pen in one place does not hide a wrong column in another."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from cenote.testing.muons import write_muons


def problems(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("CENOTE_CACHE", str(folder / "cache"))
    write_muons(folder / "a.root", events=10)
    path = folder / "flow.yaml"
    path.write_text("data: {datasets: [{name: d, files: [a.root]}]}\n" + text)
    return [problem.message for problem in cenote.load(path).check().problems]


def test_a_wrong_key_and_a_wrong_column_are_told_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = problems(
        tmp_path,
        """
execution: {pools: {default: {wokers: 2}}}
analysis:
  stages:
    - {id: A, op: filter, params: {expr: "MET_pp > 3"}}
""",
        monkeypatch,
    )
    assert len(found) == 2
    assert any("wokers" in message for message in found)
    assert any("MET_pp" in message for message in found)


def test_what_follows_a_broken_stage_is_not_blamed_for_its_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = problems(
        tmp_path,
        """
analysis:
  stages:
    - {id: A, op: define, parms: {x: "MET_pt * 2"}}
    - {id: B, op: filter, params: {expr: "x > 3"}}
""",
        monkeypatch,
    )
    assert not any("'x'" in message for message in found)
    assert any("parms" in message for message in found)


def test_a_batch_strategy_needs_no_backend(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text("analysis: {stages: [{id: A, op: filter, params: {expr: x}}]}\nexecution: {strategy: slurm}\n")
    assert cenote.load(path).workflow.execution.backend == "dask"
    assert cenote.load(path, backend="local").workflow.execution.backend == "local"
