"""`cenote clean` shows what was left behind, asks, removes it, and keeps runs in progress."""

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
from cenote.execution.launch import RunLocation
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.journal import Journal
from cenote.execution.strategies.interface import JobId
from cenote.execution.strategies.local.strategy import LocalStrategy
from cenote.testing.launches import a_launch


@dataclass
class Leavings:
    """A folder with a run whose driver is gone, two worker processes of it, and a file that was never finished."""

    folder: RunFolder
    run: str
    workers: LocalStrategy
    jobs: list[JobId]

    def alive(self) -> int:
        return sum(status.state.value == "running" for status in self.workers.poll(self.jobs).values())


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Leavings]:
    monkeypatch.chdir(tmp_path)
    folder, run = RunFolder(tmp_path / "out"), uuid.uuid4().hex[:12]
    folder.prepare()
    folder.lock().close()
    journal = Journal(folder.path)
    journal.write([RunStarted(at=1.0, run=run, tasks=1)])
    journal.close()
    folder.plan.write_text('{"workflow": "flow.yaml", "pools": [{"name": "gpu", "strategy": "local"}]}')
    (folder.products / ".4711.unfinished").mkdir()
    (folder.products / ".4711.unfinished" / "half.root").touch()
    launch = a_launch("sleep", "60", run=run, folder=tmp_path / "output", location=RunLocation.here(folder.path))
    launch.run.make_folders()
    workers = LocalStrategy()
    leavings = Leavings(folder, run, workers, workers.submit(launch, ["gpu-1", "gpu-2"]))
    yield leavings
    workers.cancel(leavings.jobs)


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_it_shows_run_folder_pool_system_and_state_and_removes_on_yes(
    left: Leavings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["clean", "out", "--yes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"run {left.run} in out: its driver is no longer running"
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
    assert found["files"] == [str(left.folder.products / ".4711.unfinished" / "half.root")]
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
        assert f"run {left.run} is in progress: process {os.getpid()}" in capsys.readouterr().err
        assert left.alive() == 2
        assert exit_code_of(["clean", "--dry-run"]) == 0
        assert "; kept" in capsys.readouterr().out
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
        (["out", "--run", "x"], "both name a run"),
        (["out", "--all"], "one run is named"),
        (["--force"], "needs the name of a run"),
        (["nowhere"], "holds no run"),
    ],
)
def test_contradictions_are_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["clean", *arguments]) == 2
    assert words in capsys.readouterr().err


CLIENTS = {
    "a cluster that was never set up": (
        "squeue",
        "echo 'squeue: fatal: Could not establish a configuration source' >&2; exit 1",
    ),
    "a controller that is away": (
        "squeue",
        "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
    ),
    "a client that is killed": ("squeue", "kill -9 $$"),
    "a client that prints something else": ("condor_q", "echo '<html>not here</html>'"),
    "a client that cannot be run": ("condor_q", None),
}


@pytest.fixture(params=CLIENTS, ids=lambda name: name.replace(" ", "_"))
def other_system(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The command of a batch system that no run here uses, and that does not work."""
    program, script = CLIENTS[request.param]
    client = tmp_path / "clients" / program
    client.parent.mkdir()
    client.write_text("#!/bin/sh\n" + (script or ""))
    client.chmod(0o755 if script else 0o644)
    monkeypatch.setenv("PATH", str(client.parent), prepend=os.pathsep)
    return str(request.param)


def test_another_system_whose_client_does_not_work_is_of_no_concern_to_a_run_that_never_used_it(
    left: Leavings, other_system: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(["clean", "out", "--yes"]) == 0, other_system
    assert capsys.readouterr().err == ""
    assert left.alive() == 0


def test_without_a_run_that_is_named_silence_counts_unless_there_is_no_cluster(
    left: Leavings, other_system: str, capsys: pytest.CaptureFixture[str]
) -> None:
    there_is_none = other_system == "a cluster that was never set up"
    assert exit_code_of(["clean", "--run", left.run, "--yes"]) == (0 if there_is_none else 40)
    assert ("does not answer" in capsys.readouterr().err) is not there_is_none
    assert left.alive() == 0


def test_a_system_that_the_run_used_must_answer(
    left: Leavings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "clients" / "squeue"
    client.parent.mkdir()
    client.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(client.parent), prepend=os.pathsep)
    left.folder.plan.write_text('{"workflow": "flow.yaml", "pools": [{"name": "gpu", "strategy": "slurm"}]}')
    assert exit_code_of(["clean", "out", "--yes"]) == 40
