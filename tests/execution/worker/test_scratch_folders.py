"""A worker has a folder of its own on its node, and nothing of it is left when it is gone, even after `kill -9`."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.common import shell
from cenote.execution.worker.process.scratch import (
    filled_in,
    keep_temporary_files,
    leave_scratch,
    make_scratch,
    scratch_of_the_dead,
    take_scratch,
)

A_MINUTE_AGO = 100
TAKEN_ELSEWHERE = """
import sys
from cenote.execution.worker.process.scratch import take_scratch
print(take_scratch(sys.argv[1], "gpu-1"), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    leave_scratch()


def test_variables_are_those_of_the_node_and_the_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_SCRATCH", str(tmp_path / "made"))
    folder = take_scratch("$NODE_SCRATCH/cenote", "gpu-1")
    assert folder is not None
    assert folder.parent == tmp_path / "made" / "cenote"
    assert "gpu-1" in folder.name


def test_the_name_of_the_user_is_known_where_the_batch_system_does_not_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("USER", raising=False)
    monkeypatch.setenv("LOGNAME", "curie")
    assert filled_in(f"{tmp_path}/$USER/${{USER}}/$USERS") == f"{tmp_path}/curie/curie/$USERS"


def test_temporary_files_go_there_and_go_with_it(tmp_path: Path) -> None:
    folder = take_scratch(str(tmp_path / "scratch"), "gpu-1")
    assert folder is not None
    keep_temporary_files(folder)
    with tempfile.NamedTemporaryFile(delete=False) as file:
        assert Path(file.name).parent == folder
    leave_scratch()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("place", ["$NOWHERE_SET/x", "{file}/inside"])
def test_where_it_cannot_be_made_the_worker_does_without_and_says_so(
    place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.touch()
    assert take_scratch(place.format(file=file), "gpu-1") is None
    assert "no scratch folder" in caplog.text


def test_the_next_worker_takes_away_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TAKEN_ELSEWHERE, str(tmp_path / "scratch")]
    folders = {}
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as alive,
    ):
        for process in (killed, alive):
            assert process.stdout is not None
            folders[process.pid] = Path(process.stdout.readline().strip())
            (folders[process.pid] / "data").write_text("much")
            long_ago = folders[process.pid].stat().st_mtime - A_MINUTE_AGO
            os.utime(folders[process.pid], (long_ago, long_ago))
        killed.kill()
        killed.wait()
        other = tmp_path / "scratch" / "cenote-another-node-gpu-1-x"
        other.mkdir()
        assert scratch_of_the_dead(tmp_path / "scratch") == [folders[killed.pid]]
        take_scratch(str(tmp_path / "scratch"), "gpu-2")
        assert not folders[killed.pid].exists()
        assert folders[alive.pid].exists()
        assert other.exists()
        alive.kill()


def test_what_was_too_young_when_a_worker_began_goes_when_it_ends(tmp_path: Path) -> None:
    mine = make_scratch(tmp_path, "w2")
    left = tmp_path / mine.name.replace("w2", "w1")
    left.mkdir()
    leave_scratch()
    assert [*tmp_path.iterdir()] == [left], "its owner may be about to lock it"
    make_scratch(tmp_path, "w3")
    os.utime(left, (1, 1))
    leave_scratch()
    assert [*tmp_path.iterdir()] == []


def test_folders_are_private_and_their_names_cannot_be_foreseen(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        first, second = (take_scratch(str(tmp_path / "scratch"), "gpu-1") for _ in range(2))
    finally:
        os.umask(before)
    assert first is not None
    assert second is not None
    assert first != second
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (first, second)} == {0o700}


def test_links_and_pipes_under_our_names_are_left_alone(tmp_path: Path) -> None:
    scratch, precious = tmp_path / "scratch", tmp_path / "precious"
    precious.mkdir()
    (precious / "data").touch()
    scratch.mkdir()
    name = f"cenote-{socket.gethostname()}-gpu-1-"
    (scratch / f"{name}link").symlink_to(precious)
    os.mkfifo(scratch / f"{name}pipe")
    for trap in scratch.iterdir():
        os.utime(trap, (1, 1), follow_symlinks=False)
    os.utime(precious, (1, 1))
    assert take_scratch(str(scratch), "gpu-2") is not None
    assert {trap.name for trap in scratch.iterdir()} >= {f"{name}link", f"{name}pipe"}
    assert (precious / "data").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_folder_under_our_name_is_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / f"cenote-{socket.gethostname()}-gpu-1-x"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    os.utime(theirs, (1, 1))
    assert take_scratch(str(tmp_path), "gpu-2") is not None
    assert theirs.exists()


INTERRUPTED = """
import os, signal, sys, threading
from cenote.execution.backends.dask.worker import _end_for_signal
from cenote.execution.worker.process import scratch

signal.signal(signal.SIGTERM, _end_for_signal)
folder = scratch.take_scratch(sys.argv[1], "w")
for number in range(100):
    (folder / str(number)).touch()
unlink, removed = os.unlink, []

def interrupted(*given, **named):
    removed.append(given)
    if len(removed) == 10:
        END
    unlink(*given, **named)

os.unlink = interrupted
scratch.leave_scratch()
"""
THREAD = """
        def end():
            scratch.leave_scratch()
            os._exit(0)
        threading.Thread(target=end).start()
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM), (THREAD.strip(), 0)],
    ids=["signal", "thread"],
)
def test_a_process_that_is_ended_while_it_empties_its_folder_leaves_nothing(
    tmp_path: Path, end: str, code: int
) -> None:
    ended = shell.run_command([sys.executable, "-c", INTERRUPTED.replace("END", end), str(tmp_path)], seconds=60)
    assert ended.returncode == code, ended.stderr
    assert list(tmp_path.iterdir()) == []
