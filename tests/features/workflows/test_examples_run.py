"""Test that every example runs from its data to its pictures, each stage on its pool."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import cenote
from cenote import OnnxModel
from cenote.common.machine import Machine
from cenote.language.plugins import registry

EXAMPLES = Path(__file__).parents[3] / "examples"
SNIPPETS = Path(__file__).parent / "seed_snippets"
THREE_STAGES = SNIPPETS / "workflows" / "three_stages_on_three_pools.yaml"
TRAINING = SNIPPETS / "workflows" / "training_between_index_and_plots.yaml"
THREE_POOLS = SNIPPETS / "executions" / "three_pools_of_the_typical_example.yaml"
LAPTOP = Machine(cpus=2, memory=16 * 10**9)


@pytest.fixture(autouse=True)
def a_laptop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Without a GPU, wherever this runs; own operations and cached metadata stay here."""
    monkeypatch.setattr("cenote.api.this_machine", lambda: LAPTOP)
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    restore = registry.forget_added()
    yield
    restore()


def copied(name: str, tmp_path: Path, *, smaller: dict[str, int] | None = None) -> Path:
    """A folder with the example and less data than `cenote init` makes."""
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("data", "out", "__pycache__"))
    script = folder / "make_data.py"
    text = script.read_text(encoding="utf-8")
    for constant, value in (smaller or {}).items():
        text, found = re.subn(rf"\b{constant}\b(.*?) = (.*)", rf"{constant}\1 = {value}", text, count=1)
        assert found, f"{script} has no {constant}"
    script.write_text(text, encoding="utf-8")
    runpy.run_path(str(script))["write"](folder / "data")
    return folder


def section(key: str, text: str) -> str:
    """A top-level key of a YAML file with everything under it, as text."""
    found = re.search(rf"^{key}:\n(?:(?: .*)?\n)*", text, re.MULTILINE)
    assert found, f"no section '{key}'"
    return found[0].strip()


def test_every_example_is_tested() -> None:
    here, elsewhere = {"three_pools", "zmumu", "tabular"}, {"sites"}  # test_sites_of_the_examples.py
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == here | elsewhere


def test_the_examples_are_what_init_writes() -> None:
    for link in EXAMPLES.iterdir():
        if link.name not in ("README.md", "sites"):
            assert link.is_symlink()
            assert not link.readlink().is_absolute()
            assert link.resolve().parent.name == "templates"


@pytest.mark.parametrize("snippet", [THREE_STAGES, THREE_POOLS], ids=["stages", "pools"])
def test_the_three_pool_example_holds_the_snippets_as_written(snippet: Path) -> None:
    example = (EXAMPLES / "three_pools" / "three_pools.yaml").read_text(encoding="utf-8")
    written = snippet.read_text(encoding="utf-8")
    key = written.partition(":")[0]
    assert section(key, example) == written.strip()


def test_the_training_example_holds_the_snippet_as_written() -> None:
    example = (EXAMPLES / "three_pools" / "training.yaml").read_text(encoding="utf-8")
    assert section("analysis", example).startswith(TRAINING.read_text(encoding="utf-8").strip())


def test_each_stage_of_three_pools_runs_on_its_pool_and_the_missing_gpu_is_told(tmp_path: Path) -> None:
    folder = copied("three_pools", tmp_path)
    run = cenote.load(folder / "three_pools.yaml").run(tmp_path / "out")
    assert run.status == "succeeded"
    pools = {stage["id"]: set(stage["pools"]) for stage in run.summary["stages"]}
    assert pools == {"BuildIndex": {"high_memory"}, "RunInference": {"gpu"}, "MuonPt": {"default"}}
    assert any("'gpu'" in warning and "this machine has none" in warning for warning in run.warnings)
    assert any("'high_memory'" in warning and "128 GB" in warning for warning in run.warnings)
    assert [plot.name for plot in run.plots] == ["MuonPt.png", "MuonPt.pdf"]
    assert all(plot.stat().st_size > 1000 for plot in run.plots)
    assert run.product("MuonPt").sum() > 0


def test_more_stages_are_included_around_the_three_pools(tmp_path: Path) -> None:
    run = cenote.load(copied("three_pools", tmp_path) / "signal.yaml").run(tmp_path / "out")
    assert run.status == "succeeded"
    assert run.products == ("MuonPt", "Score", "Select", "HardestMuon")
    scores = run.product("Score")
    signal, background = (scores[{"dataset": name}].values() for name in ("signal", "background"))
    assert signal[30:].sum() > 4 * background[30:].sum()


def test_a_model_is_trained_on_all_events_at_once_and_used(tmp_path: Path) -> None:
    run = cenote.load(copied("three_pools", tmp_path) / "training.yaml").run(tmp_path / "out")
    assert run.status == "succeeded"
    stages = {stage["id"]: stage for stage in run.summary["stages"]}
    assert stages["TrainModel"]["pools"] == {"gpu": 1}
    assert stages["RunInference"]["pools"] == {"gpu": 4}
    model = OnnxModel(tmp_path / "out" / "products" / "TrainModel.onnx")
    assert [str(tensor) for tensor in (*model.inputs, *model.outputs)] == [
        "features: float (N, 3)",
        "score: float (N, 1)",
    ]
    scores = run.product("Score")
    signal, background = (scores[{"dataset": name}].values() for name in ("signal", "background"))
    right, wrong = signal[20:].sum() + background[:20].sum(), signal[:20].sum() + background[20:].sum()
    assert right > 2.5 * wrong


def test_zmumu_finds_the_resonance(tmp_path: Path) -> None:
    folder = copied("zmumu", tmp_path)
    run = cenote.load(folder / "zmumu.yaml").run(tmp_path / "out")
    assert run.status == "succeeded"
    mass = run.product("DimuonMass")[{"dataset": "data"}]
    assert abs(mass.axes[0].centers[mass.values().argmax()] - 91.2) < 1.0
    assert {plot.name for plot in run.plots} >= {"dimuon_mass.png", "dimuon_pt.png", "cutflow.csv"}


def test_tabular_data_need_no_physics(tmp_path: Path) -> None:
    folder = copied("tabular", tmp_path, smaller={"TRIPS": 3000})
    run = cenote.load(folder / "trips.yaml").run(tmp_path / "out")
    assert run.status == "succeeded"
    speeds = run.product("Speeds")
    kept = speeds.sum(flow=True)
    assert 11_000 < kept < 12_000
    assert {plot.name for plot in run.plots} >= {"hours.png", "speeds.png", "distance_speed.png"}
