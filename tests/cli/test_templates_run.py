"""Test that what `init` writes and `demo` shows runs to its pictures, as the user is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.cli.main import exit_code_of
from cenote.cli.start import TEMPLATES
from cenote.language.plugins import registry

PICTURES = {
    "zmumu": {"cutflow.csv", "dimuon_mass.png", "dimuon_pt.png"},
    "tabular": {"hours.png", "speeds.png", "distance_speed.png"},
    "three-pools": {"MuonPt.png", "cutflow.csv", "hardest_muon.png", "score.png"},
}


@pytest.fixture(autouse=True)
def _own_plugins_stay_here() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    restore()


@pytest.mark.parametrize("name", ["zmumu", "tabular"])
def test_a_new_analysis_runs_at_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exit_code_of(["init", str(tmp_path), "--template", name]) == 0
    monkeypatch.chdir(tmp_path)
    flow = Path(TEMPLATES[name].workflow)
    assert exit_code_of(["run", str(flow), "--quiet"]) == 0
    plots = {path.name for path in (Path("out") / flow.stem / "plots").iterdir()}
    assert plots >= PICTURES[name]


def test_the_demo_runs_every_stage_on_its_pool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["demo", "--out", str(tmp_path / "demo")]) == 0
    told = capsys.readouterr()
    assert str(tmp_path / "demo/out/plots/score.png") in told.out
    summary = json.loads((tmp_path / "demo/out/summary.json").read_text())
    pools = {stage["id"]: list(stage["pools"]) for stage in summary["stages"]}
    assert pools["BuildIndex"] == ["high_memory"]
    assert pools["RunInference"] == ["gpu"]
    assert pools["MuonPt"] == pools["Select"] == pools["Score"] == ["default"]
    assert {path.name for path in (tmp_path / "demo/out/plots").iterdir()} >= PICTURES["three-pools"]


def test_the_demo_keeps_what_somebody_changed(tmp_path: Path) -> None:
    exit_code_of(["demo", "--out", str(tmp_path), "--quiet"])
    flow = tmp_path / TEMPLATES["three-pools"].workflow
    flow.write_text(flow.read_text().replace("id: HardestMuon", "id: Hardest"))
    assert exit_code_of(["demo", "--out", str(tmp_path), "--quiet"]) == 0
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert "Hardest" in [stage["id"] for stage in summary["stages"]]
