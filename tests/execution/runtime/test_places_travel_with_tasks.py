"""Check that what planning found out about files reaches the tasks that read them: no tree is opened twice."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from cenote.analysis.sources.root_tree import plain_file
from cenote.analysis.sources.root_tree.places import read_places
from cenote.execution.runtime import task_specs as places_of_runs
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.execution.worker.run_task import TaskRunner
from cenote.execution.worker.task_spec import TaskSpec
from cenote.planning.inputs import metadata_cache
from cenote.planning.plan import Plan
from cenote.testing.muons import write_muons

FLOW = """
data:
  datasets: [{name: d, files: ["*.root"]}]
analysis:
  stages:
    - {id: N, op: hep.selection.cutflow, params: {selection: {All: ["nMuon >= 1", "MET_pt > 20"]}}}
"""
FILES = 5


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    for number in range(FILES):
        write_muons(tmp_path / f"{number}.root", events=50, seed=number)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One item for every tree that was looked at; nothing of it is remembered in this process."""
    calls: list[object] = []
    find_tree = plain_file.find_tree

    def counting(*arguments: object) -> object:
        calls.append(arguments)
        return find_tree(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(plain_file, "find_tree", counting)
    plain_file._kept.clear()
    monkeypatch.setattr(plain_file, "KEPT", 0)
    return calls


def specs_of(plan: Plan) -> list[TaskSpec]:
    specs = TaskSpecs(plan)
    return [specs.write(task, attempt=1) for task in range(FILES)]


def run_all(folder: Path, plan: Plan) -> list[int]:
    runner = TaskRunner(make_run_spec(plan, store=folder / "work", files=folder / "files"))
    outcomes = [runner.run(spec) for spec in specs_of(plan)]
    assert [outcome.failure for outcome in outcomes] == [None] * FILES
    return [outcome.events for outcome in outcomes]


def test_a_tree_is_looked_at_once_and_in_later_runs_never(folder: Path, looked_at: list[object]) -> None:
    for _ in range(2):
        plan = cenote.load(folder / "flow.yaml").plan()
        assert run_all(folder, plan) == [50] * FILES
        assert len(looked_at) == FILES


def test_a_task_is_told_of_its_columns_alone(folder: Path) -> None:
    for spec in specs_of(cenote.load(folder / "flow.yaml").plan()):
        (piece,) = spec.pieces
        assert sorted(read_places(piece.places).branches) == ["MET_pt", "nMuon"]
        assert len(piece.places) < 200


def test_places_are_looked_up_for_many_partitions_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    noted_places = places_of_runs.noted_places
    monkeypatch.setattr(places_of_runs, "noted_places", lambda files: asked.append(len(files)) or noted_places(files))
    monkeypatch.setattr(places_of_runs, "TOGETHER", 3)
    specs_of(cenote.load(folder / "flow.yaml").plan())
    assert asked == [3, 2]


def test_without_a_cache_the_task_looks_itself(
    folder: Path, looked_at: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "nowhere").write_text("a file where the folder of the cache should be")
    monkeypatch.setenv("CENOTE_CACHE", str(folder / "nowhere"))
    assert run_all(folder, cenote.load(folder / "flow.yaml").plan()) == [50] * FILES
    assert len(looked_at) == 2 * FILES


def test_the_cache_forgets_places_before_it_grows_without_end(
    folder: Path, looked_at: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_cache, "MOST_BYTES_OF_PLACES", 1)
    assert run_all(folder, cenote.load(folder / "flow.yaml").plan()) == [50] * FILES
    assert FILES < len(looked_at) < 2 * FILES


def test_a_file_that_changes_after_planning_fails_its_task(folder: Path) -> None:
    plan = cenote.load(folder / "flow.yaml").plan()
    write_muons(folder / "0.root", events=60, seed=9)
    runner = TaskRunner(make_run_spec(plan, store=folder / "work", files=folder / "files"))
    failures = [runner.run(spec).failure for spec in specs_of(plan)]
    assert [one.error_kind if one else None for one in failures] == ["changed-input", *[None] * (FILES - 1)]
