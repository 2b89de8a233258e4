"""Test `cenote init`: every template is written whole, and nothing of the user's is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from cenote.cli.main import cli, exit_code_of
from cenote.cli.start import TEMPLATES, text_files


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_a_template_has_workflow_operations_data_and_readme(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["init", str(tmp_path / "new"), "--template", name])
    assert result.exit_code == 0, result.output
    there = {path.name for path in (tmp_path / "new").iterdir()}
    assert there >= {TEMPLATES[name].workflow, "ops.py", "make_data.py", "README.md", "data"}
    assert any((tmp_path / "new" / "data").iterdir())
    assert f"cenote run {TEMPLATES[name].workflow}" in result.output
    assert f"cd {tmp_path / 'new'}" in result.output


def test_existing_files_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "ops.py"
    mine.write_text("mine")
    assert exit_code_of(["init", str(tmp_path), "--template", "tabular"]) == 2
    told = capsys.readouterr().err
    assert "already has ops.py" in told
    assert "--force" in told
    assert mine.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["ops.py"]


def test_force_overwrites(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("mine")
    assert exit_code_of(["init", str(tmp_path), "--template", "tabular", "--force"]) == 0
    assert (tmp_path / "ops.py").read_text() == dict(text_files(TEMPLATES["tabular"]))["ops.py"]


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert exit_code_of(["init", str(tmp_path / "file" / "new"), "--template", "tabular"]) == 2
    assert "cannot write to" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["init", "--template", "three-pools"], ["demo", "--out"]])
def test_an_example_that_needs_more_software_says_what_to_install(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cenote.cli.start.find_spec", lambda _: None)
    assert exit_code_of([*command, str(tmp_path / "new")]) == 30
    told = capsys.readouterr().err
    assert "not installed: onnx, onnxruntime" in told
    assert "pip install 'cenote[ml]'" in told
    assert not (tmp_path / "new").exists()
