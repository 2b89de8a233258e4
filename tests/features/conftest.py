"""What the promises are tried with: a folder with data and a workflow, and the command line as a user has it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from cenote.cli.main import exit_code_of
from cenote.language.plugins import registry
from cenote.testing.muons import write_muons

DEEP = bool(os.environ.get("CENOTE_DEEP_TESTS"))
"""Whether randomised tests try many more cases, as `make deep` has it."""
PATIENCE = 180.0
"""Seconds for what takes one or two: the machine may be busy."""


def wait_for(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Until it is true. That it will be is what the test says; only how soon depends on the machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {seconds:g} s"
        time.sleep(0.05)


@dataclass(frozen=True)
class Desk:
    """A user's folder."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        """A file of the user's."""
        path = self.folder / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def muons(self, name: str, *, events: int = 2000, seed: int = 1, weighted: bool = False) -> Path:
        """A ROOT file with muons."""
        return write_muons(self.folder / name, events=events, seed=seed, weighted=weighted)

    def cenote(self, *words: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Type a command."""
        return subprocess.run(
            [sys.executable, "-m", "cenote", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Type a command that starts no process and meets no signal: within this process, which takes less time."""
        out, err = io.StringIO(), io.StringIO()
        forget = registry.forget_added()
        try:
            with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
                code = exit_code_of(words)
        finally:
            forget()
        return subprocess.CompletedProcess(list(words), code, out.getvalue(), err.getvalue())

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Type a command and do not wait for it; it is gone afterwards, whatever happened."""
        command = [sys.executable, "-m", "cenote", *words]
        with subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """An empty folder, and a metadata cache of its own."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder)
