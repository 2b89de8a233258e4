"""A run's folder is never touched by another run unless somebody says so."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

import pytest

from cenote.errors import CenoteError
from cenote.runtime.run_folder import LOCK, STILL_SECONDS, RunFolder, is_locked


def a_run(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.path.mkdir(exist_ok=True)
    folder.prepare(resume=False, replace=False)
    (path / "journal.jsonl").write_text("{}\n")
    (folder.products / "h.json").write_text("{}")
    return folder


def test_a_second_run_in_the_same_folder_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "out")
    with pytest.raises(CenoteError) as caught:
        folder.prepare(resume=False, replace=False)
    assert "--resume" in str(caught.value)
    assert "--replace" in str(caught.value)
    assert caught.value.exit_code == 2


def test_replacing_removes_what_the_earlier_run_left(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "out")
    (folder.path / "notes.txt").write_text("mine")
    folder.prepare(resume=False, replace=True)
    assert not (folder.products / "h.json").exists()
    assert not (folder.path / "journal.jsonl").exists()
    assert (folder.path / "notes.txt").exists()


def test_resuming_keeps_everything(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "out")
    folder.prepare(resume=True, replace=False)
    assert (folder.products / "h.json").exists()


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CenoteError, match="not empty"):
        RunFolder(tmp_path).prepare(resume=False, replace=False)


def test_two_runs_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with folder.lock(), pytest.raises(CenoteError, match="in use by a run"):
        folder.lock()
    folder.lock().close()


@pytest.fixture
def _no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refused)


@pytest.mark.usefixtures("_no_locks")
def test_on_a_file_system_without_locks_the_process_says_whether_a_run_goes_on(tmp_path: Path) -> None:
    with RunFolder(tmp_path).lock():
        assert is_locked(tmp_path)
        with pytest.raises(CenoteError, match="in use by a run that goes on"):
            RunFolder(tmp_path).lock()
    (tmp_path / LOCK).write_text(f"{2**22 + 1} on {socket.gethostname()}")  # no process has such a number
    assert not is_locked(tmp_path)
    RunFolder(tmp_path).lock().close()


@pytest.mark.usefixtures("_no_locks")
def test_there_the_pulse_says_it_of_a_driver_on_another_machine(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("1 on elsewhere")
    assert is_locked(tmp_path)
    long_ago = (tmp_path / LOCK).stat().st_mtime - STILL_SECONDS
    os.utime(tmp_path / LOCK, (long_ago, long_ago))
    assert not is_locked(tmp_path)
