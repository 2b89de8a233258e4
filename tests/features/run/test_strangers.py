"""A stranger on the same machine gets nothing out of a run: no task, no data, no page, no file, and cannot stop it."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from distributed import Scheduler, SpecCluster

import cenote
from builders.strangers import (
    PAGE,
    answer,
    can_be_opened_by_another_user,
    doors_of,
    processes_of,
    runs_a_function,
    what_strangers_get,
)
from cenote.engine.messages import WorkerJoined, WorkerLost
from cenote.execution.runs.journal import read_events

from ..conftest import PATIENCE, Desk, wait_for

OPS = """
    import time
    from pathlib import Path
    from cenote import operation

    @operation("custom.wait", reads=["MET_pt"], adds=["met"])
    def wait(events, *, folder: str = ""):
        if folder:
            Path(folder, "began").touch()
            while not Path(folder, "go").exists():
                time.sleep(0.05)
        return {"met": events["MET_pt"]}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 250}}
    analysis:
      stages:
        - {id: Wait, op: custom.wait}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: met, type: regular, source: met, bins: {nbins: 4, low: 0, high: 90}}]}
    execution: {backend: dask, pools: {default: {workers: 2}}}
"""


@pytest.fixture
def open_desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A user's folder that others may look into, as home folders often are."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.setenv("CENOTE_CACHE", str(folder / ".cache"))
    yield Desk(folder)
    shutil.rmtree(folder)


def joined(out: Path) -> int:
    """How many workers did."""
    return sum(isinstance(event, WorkerJoined) for event in read_events(out))


def test_strangers_get_nothing_from_any_port_and_the_run_ends_as_if_they_were_not_there(open_desk: Desk) -> None:
    desk = open_desk
    desk.muons("a.root", events=1000)
    desk.write("ops.py", OPS)
    flow = desk.write("flow.yaml", FLOW)
    scratch = desk.folder / "scratch"
    sets = (
        "--set",
        f"analysis.stages.Wait.params.folder={desk.folder}",
        "--set",
        f"execution.config.scratch={scratch}",
    )
    out = desk.folder / "out"
    with desk.started("run", "flow.yaml", "--out", "out", *sets) as driver, ExitStack() as silent:
        wait_for(lambda: (desk.folder / "began").exists() and joined(out) == 2)
        (identity,) = (out / "debug" / "distributed" / "identity").iterdir()
        workers = processes_of(identity.stem)
        doors = [door for process in (driver.pid, *workers) for door in doors_of(process)]
        assert len(workers) == 2
        assert sorted(door.process for door in doors) == sorted([driver.pid, *workers]), "one port each"
        assert {door.host for door in doors} == {"127.0.0.1"}
        for door in doors:  # some connect and say nothing, all the while
            for _ in range(5):
                silent.enter_context(socket.create_connection((door.host, door.port)))
        assert [got for door in doors for got in what_strangers_get(door)] == []
        if os.geteuid() == 0:
            private = [identity, identity.parent, *scratch.iterdir()]
            assert len(private) == 4
            assert [path for path in private if can_be_opened_by_another_user(path)] == []
            assert can_be_opened_by_another_user(out / "journal.jsonl"), "so that the question means something"
        (desk.folder / "go").touch()
        told, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, told
    assert "TLS" not in told
    assert "SSL" not in told
    assert not any(isinstance(event, WorkerLost) and event.cause != "retired" for event in read_events(out))
    expected = cenote.load(flow, backend="local").run(desk.folder / "expected", workers=1)
    found = cenote.open_run(out)
    assert found.product("H").view(flow=True).tobytes() == expected.product("H").view(flow=True).tobytes()
    assert not identity.parent.exists()


def test_the_same_attempts_open_a_scheduler_without_certificates() -> None:
    """Otherwise the test above would pass whatever the doors are."""
    options = {"host": "127.0.0.1", "port": 0, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    with SpecCluster(workers={}, scheduler={"cls": Scheduler, "options": options}) as cluster:
        doors = {door.port: door for door in doors_of(os.getpid())}
        dask = doors.pop(int(cluster.scheduler_address.rpartition(":")[2]))
        assert runs_a_function(f"tcp://{dask}")
        assert any(answer(page, PAGE) for page in doors.values())
