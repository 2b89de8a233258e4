"""Give the language tests a reader of text and a registry of plugins that forgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from cenote.language.plugins import registry
from cenote.language.read import Checked, read_workflow
from cenote.language.workflow import Workflow

OWN_OPERATIONS = """
from typing import ClassVar

from cenote.analysis.operations.interface import Operation, Result


class Scale(Operation):
    cenote_plugin: ClassVar = ("operation", "custom.scale")
    factor: float = 1.0
    columns: list[str] = []

    def run(self, events):
        return Result(events)


class Model(Operation):
    cenote_plugin: ClassVar = ("operation", "custom.model")
    path: str

    def run(self, events):
        return Result(events)
"""


@pytest.fixture(autouse=True)
def plugins_of_one_test_only() -> Iterator[None]:
    restore = registry.forget_added()
    yield
    registry.forget_added()
    restore()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, which is also the current one; nobody's profiles are around."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CENOTE_PROFILES", raising=False)
    (tmp_path / "own_operations.py").write_text(OWN_OPERATIONS)
    return Path()


@pytest.fixture
def write(folder: Path) -> Callable[[str, str], Path]:
    """Write a file below the folder."""

    def writer(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).removeprefix("\n"))
        return path

    return writer


@pytest.fixture
def read(write: Callable[[str, str], Path]) -> Callable[..., Checked]:
    """Read text as the workflow `flow.yaml`; keyword arguments are the command line."""

    def reader(text: str, **command_line: object) -> Checked:
        return read_workflow(write("flow.yaml", text), **command_line)  # type: ignore[arg-type]  # passed through

    return reader


@pytest.fixture
def workflow(read: Callable[..., Checked]) -> Callable[..., Workflow]:
    """Read text that has no problems."""

    def reader(text: str, **command_line: object) -> Workflow:
        checked = read(text, **command_line)
        assert not checked.problems, "\n".join(str(problem) for problem in checked.problems)
        assert checked.workflow is not None
        return checked.workflow

    return reader
