"""A run's folder: what an earlier run left is kept, and what is not a run's is never touched."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

import pytest

from cenote.common import storage
from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import LOCK, STILL_SECONDS, RunFolder, is_locked
from cenote.execution.runs.journal import Journal
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.results.written_files import WrittenFiles


def a_run(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.path.mkdir(exist_ok=True)
    folder.prepare()
    (path / "journal.jsonl").write_text("{}\n")
    for name, product in (("products/h.json", "H"), ("plots/sr/h.png", "H"), ("products/skim/d/0.root", "S:files")):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("{}")
        WrittenFiles(folder.store).note(product, path / name)
    Store(folder.store).write("ab" * 16, 1)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_second_run_in_the_same_folder_keeps_everything(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "out")
    before = files(folder.path)
    folder.prepare()
    assert files(folder.path) == before


def test_a_fresh_start_removes_what_runs_made_and_nothing_else(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "out")
    mine = [
        "notes.txt",
        "plots/talk.png",
        "plots/sr/mine.png",
        "products/old/skim.root",
        "work/ab/x",
        "work/thesis.tex",
    ]
    for name in mine:
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text("mine")
    folder.prepare(fresh=True)
    assert files(folder.path) == sorted(mine)
    assert not (folder.products / "skim").exists(), "a folder that is empty now goes too"


def test_a_record_that_points_out_of_the_folder_removes_nothing_there(tmp_path: Path) -> None:
    folder = a_run(tmp_path / "out")
    (tmp_path / "thesis.tex").write_text("years of work")
    (folder.store / "written" / "forged").write_text(
        f'["H", "plots/../../thesis.tex"]\n["H", "{tmp_path}/thesis.tex"]\nnonsense\n'
    )
    folder.prepare(fresh=True)
    assert (tmp_path / "thesis.tex").exists()


@pytest.mark.parametrize(
    "damage",
    [
        *(b"\xff\xfe\x80", b"\x00" * 64, b"[" * 100_000, b'[["H"], "plots/a"]\n'),
        *(b'["H", "plots/\\u0000.png"]\n', b'["H", "plots/\\ud800.png"]\n'),
    ],
    ids=["no UTF-8", "zeros", "nested", "no product", "no name", "no text"],
)
def test_a_damaged_record_costs_only_the_lines_that_are_damaged(tmp_path: Path, damage: bytes) -> None:
    run = a_run(tmp_path / "out")
    record = WrittenFiles(run.store)
    picture = run.plots / "own.png"
    run.plots.mkdir(exist_ok=True)
    picture.touch()
    record.replace({picture: "H"})
    with (run.store / "written" / "all").open("ab") as file:
        file.write(damage)
    assert record.products() == {picture: "H"}
    RunFolder(run.path).prepare(fresh=True)
    assert not picture.exists()
    assert record.products() == {}


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CenoteError, match="not empty"):
        RunFolder(tmp_path).prepare()


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
        with pytest.raises(CenoteError, match="in use by a run in progress"):
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


@pytest.mark.parametrize("name", [LOCK, "journal.jsonl"])
def test_a_link_in_somebodys_folder_leads_to_no_file_of_ours(tmp_path: Path, name: str) -> None:
    precious, folder = tmp_path / "thesis.tex", RunFolder(tmp_path / "out")
    precious.write_text("years of work")
    folder.path.mkdir()
    (folder.path / name).symlink_to(precious)
    with pytest.raises(CenoteError), folder.lock():
        Journal(folder.path)
    assert precious.read_text() == "years of work"


def test_a_pipe_in_the_place_of_the_journal_keeps_no_run_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(CenoteError):
        Journal(tmp_path)


def test_what_was_begun_is_removed_with_its_folder_also_where_nothing_is_in_it(tmp_path: Path) -> None:
    for name in ("begun", "empty"):
        (tmp_path / "d" / f".{name}.unfinished").mkdir(parents=True)
    (tmp_path / "d" / ".begun.unfinished" / "half.root").touch()
    for file in storage.unfinished(tmp_path):
        storage.remove_unfinished(file)
    assert list((tmp_path / "d").iterdir()) == []
