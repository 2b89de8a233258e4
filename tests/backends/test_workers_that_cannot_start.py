"""A worker that cannot start says why in one line: it is all that the user gets to see of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cenote import shell

NOWHERE = "tcp://127.0.0.1:9"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--interface", "ib7"], "this worker could not start: 'ib7' is not a valid network interface."),
        (["--patience", "1"], f"nothing answered at {NOWHERE} for 1 s: this node does not reach the driver"),
    ],
)
def test_the_reason_is_one_line_and_no_traceback(tmp_path: Path, options: list[str], words: str) -> None:
    command = [sys.executable, "-m", "cenote.backends.dask.worker", "--scheduler", NOWHERE, "--name", "default-1"]
    ended = shell.run_command([*command, "--pool", "default", "--log", str(tmp_path / "log"), *options], seconds=60)

    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(words)
