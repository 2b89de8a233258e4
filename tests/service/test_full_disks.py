"""A service whose disk is full says so, loses nothing, and goes on when there is room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.common.shell import run_command
from cenote.service.client.connection import connect
from cenote.service.client.home import ServiceHome
from cenote.service.client.start import answering, stop_service
from cenote.service.client.task_flows import changed_task


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or run_command(mount, seconds=20).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        yield folder
    finally:
        assert run_command(["umount", "--lazy", str(folder)], seconds=20).returncode == 0


@contextmanager
def own_service(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The user's service has its folder there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    monkeypatch.delenv("CENOTE_SERVICE", raising=False)
    home = ServiceHome(folder / "cenote" / "service")
    yield
    if answering(home) is not None:
        stop_service(home)


@pytest.fixture
def small(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of four megabytes, for the folder of the user's service."""
    with own_service(disk, monkeypatch):
        yield disk


def fill(folder: Path) -> Path:
    """Take all the room that is left."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return filler


def test_a_log_without_room_stops_what_is_new_and_goes_on_later(small: Path, tmp_path: Path) -> None:
    with connect() as connection, connection.create_pool("pool", "local", 2) as pool:
        go = tmp_path / "go"
        os.mkfifo(go)
        task = connection.create_task("task", pool, 6)
        task.command = f"[ $INSTANCE_ID = 0 ] && cat {go}; echo $INSTANCE_ID >> {tmp_path}/ran; exit 0"
        later = connection.create_task("later", pool, 1)
        later.command, later.after = "true", [task]
        later.submit()
        while task.record.counts.get("succeeded", 0) < 5:
            task._record = connection._line.ask(changed_task(task.record, 5.0))
        refused = connection.create_task("refused", pool, 1)
        refused.command = "true"
        filler = fill(small)
        go.write_text("go")
        while not any("cannot write its log" in words for words in later.why):
            task._record = connection._line.ask(changed_task(task.record, 0.1))
        with pytest.raises(CenoteError, match="cannot write its log"):
            refused.submit()
        filler.unlink()
        assert later.wait(timeout=60)
        assert sorted((tmp_path / "ran").read_text().split()) == list("012345")
        assert {one.attempts for one in task.instances} == {1}


def test_results_without_room_stay_with_the_worker_until_there_is_some(small: Path) -> None:
    with connect() as connection, connection.create_pool("pool", "local", 1) as pool:
        task = connection.create_task("large", pool, 1)
        task.command, task.results = "head -c 3000000 /dev/zero > large; echo printed", ["large"]
        filler = small / "filler"
        filler.write_bytes(b"x" * 2_000_000)
        task.submit()
        while not any("result 'large' cannot be kept: no space left" in words for words in task.why):
            task._record = connection._line.ask(changed_task(task.record, 0.1))
        filler.unlink()
        assert task.wait(timeout=60)
        (result,) = task.download_results(small.parent / "results")
        assert result.stat().st_size == 3_000_000
        assert task.stdout() == "printed\n"
        assert task.instances[0].attempts == 1


def test_a_worker_without_room_begins_nothing_says_so_and_goes_on_later(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(disk))
    with (
        own_service(tmp_path / "state", monkeypatch),
        connect() as connection,
        connection.create_pool("pool", "local", 1) as pool,
    ):
        pool.wait()
        filler = fill(disk)
        task = connection.create_task("task", pool, 3)
        task.command = "echo here"
        task.submit()
        while "begins nothing for now" not in pool.record.reason:
            task._record = connection._line.ask(changed_task(task.record, 0.1))
        assert any("no space left" in words for words in task.why)
        filler.unlink()
        assert task.wait(timeout=60)
        assert task.stdout() == "here\n" * 3
        assert "begins nothing" not in pool.record.reason
