"""A long-lived process notices that other software is installed by now."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cenote.execution.worker.process import imported_software
from cenote.execution.worker.process.imported_software import ImportedSoftware


def test_a_package_that_is_installed_is_noticed_and_files_beside_it_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imported_software, "_LOOK_EVERY", -1.0)
    packages, work = tmp_path / "site-packages", tmp_path / "work"
    for folder in (packages, work):
        folder.mkdir()
        os.utime(folder, (1, 1))
        monkeypatch.syspath_prepend(folder)
    found = ImportedSoftware()
    (work / "result.txt").touch()
    assert not found.has_changed
    (packages / "some-1.0.dist-info").mkdir()
    assert found.has_changed


def test_a_file_of_ours_that_is_edited_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(imported_software, "_LOOK_EVERY", -1.0)
    file = tmp_path / "edited.py"
    file.touch()
    os.utime(file, (1, 1))
    monkeypatch.setattr(imported_software, "__file__", str(file))
    found = ImportedSoftware()
    assert not found.has_changed
    file.write_text("changed = True")
    assert found.has_changed
