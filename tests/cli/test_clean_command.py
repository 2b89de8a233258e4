"""`cenote clean` shows what was left behind, asks, removes it, and leaves alone what goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cenote.cli.main import exit_code_of
from cenote.engine.messages import RunStarted
from cenote.language.workflow import Amounts
from cenote.runtime.journal import Journal
from cenote.runtime.run_folder import RunFolder
from cenote.strategies.interface import Home, JobId, JobRequest
from cenote.strategies.local import Local


@dataclass
class Leavings:
    """A folder with a run whose driver is gone, two worker processes of it, and a file that was never finished."""

    folder: RunFolder
    run: str
    workers: Local
    jobs: list[JobId]

    def alive(self) -> int:
        return sum(status.state.value == "running" for status in self.workers.poll(self.jobs).values())


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leavings]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    folder, run = RunFolder(tmp_path / "out"), uuid.uuid4().hex[:12]
    folder.prepare()
    folder.lock().close()
    journal = Journal(folder.path)
    journal.write([RunStarted(at=1.0, run=run, plan_digest="", tasks=1)])
    journal.close()
    (folder.products / ".4711-half.root").touch()
    requests = [
        JobRequest(
            run=run,
            pool="gpu",
            worker=f"gpu-{number}",
            command=("sleep", "60"),
            resources=Amounts(),
            out=tmp_path / "output",
            err=tmp_path / "output",
            home=Home.here(folder.path),
        )
        for number in (1, 2)
    ]
    workers = Local()
    leavings = Leavings(folder, run, workers, workers.submit(requests))
    yield leavings
    workers.cancel(leavings.jobs)


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_it_shows_run_folder_pool_system_and_state_and_removes_on_yes(
    left: Leavings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["clean", "out", "--yes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"run {left.run} in out: nothing drives it any more"
    assert lines[1].split() == ["pool", "system", "jobs", "state", "since"]
    assert lines[2].split()[:4] == ["gpu", "local", "2", "running"]
    assert lines[-2:] == ["1 half-written file in out", "removed 2 processes and 1 half-written file"]
    assert left.alive() == 0
    assert list(left.folder.products.iterdir()) == []


def test_a_dry_run_removes_nothing(left: Leavings, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["clean", "--run", left.run, "--dry-run", "--json"]) == 0
    found = told(capsys)
    assert {(job["run"], job["worker"], job["run_is"], job["removed"]) for job in found["jobs"]} == {
        (left.run, "gpu-1", "over", False),
        (left.run, "gpu-2", "over", False),
    }
    assert found["jobs"][0]["folder"] == str(left.folder.path)
    assert found["files"] == [str(left.folder.products / ".4711-half.root")]
    assert left.alive() == 2


def test_where_nobody_can_be_asked_nothing_is_removed_and_the_way_is_told(
    left: Leavings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["clean", "out"]) == 2
    answer = capsys.readouterr()
    assert "gpu" in answer.out
    assert "hint: --yes removes without asking" in answer.err
    assert left.alive() == 2


@pytest.mark.parametrize(("answer", "alive"), [("n\n", 2), ("y\n", 0)])
def test_it_asks_a_person(left: Leavings, answer: str, alive: int) -> None:
    leader, follower = os.openpty()
    os.write(leader, answer.encode())
    command = [sys.executable, "-m", "cenote", "clean", "out"]
    done = subprocess.run(command, stdin=follower, capture_output=True, text=True, check=False, timeout=60)
    os.close(leader)
    os.close(follower)
    assert done.returncode == 0, done.stderr
    assert "Remove 2 processes and 1 half-written file? [y/N]" in done.stderr
    assert ("nothing was removed" if alive else "removed 2 processes") in done.stdout
    assert left.alive() == alive


def test_a_run_that_goes_on_is_left_alone_unless_it_is_named_and_forced(
    left: Leavings, capsys: pytest.CaptureFixture[str]
) -> None:
    with left.folder.lock():
        assert exit_code_of(["clean", "out", "--yes"]) == 2
        assert f"run {left.run} goes on: process {os.getpid()}" in capsys.readouterr().err
        assert left.alive() == 2
        assert exit_code_of(["clean", "--dry-run"]) == 0
        assert "left alone" in capsys.readouterr().out
        assert exit_code_of(["clean", "out", "--yes", "--force", "--json"]) == 0
        found = told(capsys)
        assert {job["removed"] for job in found["jobs"]} == {True}
        assert found["files"] == []
    assert left.alive() == 0


def test_nothing_left_behind_is_said(left: Leavings, capsys: pytest.CaptureFixture[str]) -> None:
    del left
    assert exit_code_of(["clean", "--run", "no-such-run"]) == 0
    assert capsys.readouterr().out == "nothing was left behind\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["out", "--run", "x"], "both say which run"),
        (["out", "--all"], "one was named"),
        (["--force"], "needs the run to be named"),
        (["nowhere"], "holds no run"),
    ],
)
def test_contradictions_are_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["clean", *arguments]) == 2
    assert words in capsys.readouterr().err
