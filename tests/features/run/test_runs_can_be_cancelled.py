"""`cenote cancel`, and a driver that is killed: workers end within seconds, and nothing finished is lost."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cenote
from builders.processes import descendants, is_alive, words_of
from cenote.common.errors import CenoteError
from cenote.common.signals import Interruptions
from cenote.engine.messages import TaskDone, TaskStarted
from cenote.execution.backends.support.outcomes import vital_signs
from cenote.execution.runs.driver.socket import open_socket
from cenote.execution.runs.folder import Pulse, RunFolder, lock_owner, name_socket
from cenote.execution.runs.journal import read_events

from ..conftest import PATIENCE, Desk, wait_for

OPS = """
    import time
    from pathlib import Path
    from cenote import operation

    @operation("custom.slow", reads=["MET_pt"], adds=["slow"])
    def slow(events, *, seconds: float):
        if not Path(__file__).with_name("hurry").exists():
            time.sleep(seconds)
        return {"slow": events["MET_pt"] * 2}
"""

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 250}}
    analysis:
      stages:
        - {id: Slow, op: custom.slow, params: {seconds: 0.3}}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: slow, bins: {nbins: 20, low: 0, high: 200}}]}
    execution: {pools: {default: {workers: 2}}}
"""
BUSY_FOR_HOURS = "analysis.stages.Slow.params={seconds: 10000}"
SECONDS = 10
"""That workers may take to end. Idle ones take a moment, those in the middle of a task two seconds."""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=3000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def happened(folder: Path, kind: type, times: int) -> Callable[[], bool]:
    def enough() -> bool:
        there = (folder / "journal.jsonl").exists()
        return there and sum(isinstance(event, kind) for event in read_events(folder)) >= times

    return enough


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_cancelled_run_ends_its_workers_says_so_and_can_be_resumed(desk: Desk, flow: Path, backend: str) -> None:
    out = desk.folder / "out"
    slowly = "analysis.stages.Slow.params={seconds: 2}"  # so that it is not over before somebody has cancelled it
    words = ["run", str(flow), "--out", str(out), "--backend", backend, "--quiet", "--set", slowly]
    with desk.started(*words, *(["--workers", "2"] if backend == "local" else [])) as driver:
        wait_for(happened(out, TaskDone, 3))
        workers = descendants(driver.pid)
        cancelled = desk.cenote("cancel", str(out))
        driver.communicate(timeout=PATIENCE)
    assert cancelled.returncode == 0, cancelled.stderr
    assert cancelled.stdout.startswith("cancelled after")
    assert "continue" in cancelled.stdout
    assert driver.returncode == 130
    assert workers
    wait_for(lambda: not any(is_alive(worker) for worker in workers), SECONDS)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "cancelled"
    assert summary["tasks"]["kept"] >= 3

    desk.write("hurry", "")
    resumed = cenote.load(flow, backend=backend, sets=[slowly]).run(out, resume=True)
    assert resumed.status == "succeeded"
    assert resumed.summary["tasks"]["reused"] >= 1, "three finished tasks, or what was merged from them"


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_run_in_the_middle_of_a_long_task_ends_within_seconds(desk: Desk, flow: Path, backend: str) -> None:
    out = desk.folder / "out"
    words = ["run", str(flow), "--out", str(out), "--backend", backend, "--quiet", "--set", BUSY_FOR_HOURS]
    with desk.started(*words, *(["--workers", "2"] if backend == "local" else [])) as driver:
        wait_for(happened(out, TaskStarted, 2))
        workers = descendants(driver.pid)
        ended = cenote.cancel(out, wait=SECONDS)
        driver.communicate(timeout=PATIENCE)
    assert ended.status == "cancelled"
    wait_for(lambda: not any(is_alive(worker) for worker in workers), SECONDS)


@pytest.fixture
def short_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files go where the name of a socket has room, and no other driver sweeps."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setenv("TMPDIR", place)
        yield


@pytest.mark.usefixtures("short_place")
def test_a_driver_that_is_stopped_is_not_said_to_run_and_cannot_be_cancelled(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    words = ["run", str(flow), "--out", str(out), "--workers", "2", "--quiet", "--set", BUSY_FOR_HOURS]
    with desk.started(*words) as driver:
        wait_for(happened(out, TaskStarted, 2))
        assert json.loads(desk.typed("status", "--json", str(out)).stdout)["status"] == "running"
        owner = lock_owner(out)
        assert owner is not None
        assert owner.socket is not None
        driver.send_signal(signal.SIGSTOP)
        wait_for(lambda: (signs := vital_signs(driver.pid)) is not None and signs.stopped)
        assert owner.socket.exists()
        assert json.loads(desk.typed("status", "--json", str(out)).stdout)["status"] == "unresponsive"
        assert f"process {driver.pid}" in desk.typed("why", str(out)).stdout
        refused = desk.typed("cancel", str(out))
        assert refused.returncode == 2
        assert f"kill -INT {driver.pid}" in refused.stderr
        driver.send_signal(signal.SIGCONT)
        driver.communicate(timeout=PATIENCE)
    assert cenote.open_run(out).status == "cancelled", "it heard what it was asked when it was stopped"


def test_a_run_that_can_have_no_socket_runs_and_names_the_signal(
    desk: Desk, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded = desk.folder / ("x" * 110)
    crowded.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("TMPDIR", str(crowded))
    done = desk.cenote("run", str(flow), "--out", "out", "--set", "analysis.stages.Slow.params={seconds: 0}")
    assert done.returncode == 0, done.stderr
    assert "kill -INT" in done.stderr


@pytest.fixture
def _not_under_nohup() -> Iterator[None]:
    """Who starts the tests with nohup lets every process below ignore that a terminal is closed."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_not_under_nohup")
def test_a_terminal_that_is_closed_ends_the_run_as_ctrl_c_does(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    words = ["run", str(flow), "--out", str(out), "--backend", "dask", "--quiet", "--set", BUSY_FOR_HOURS]
    with desk.started(*words) as driver:
        wait_for(happened(out, TaskStarted, 1))
        driver.send_signal(signal.SIGHUP)
        driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 129
    assert cenote.open_run(out).status == "cancelled"


def test_workers_on_dask_end_when_their_driver_is_killed_even_if_they_are_busy_for_hours(
    desk: Desk, flow: Path
) -> None:
    out = desk.folder / "out"
    words = ["run", str(flow), "--out", str(out), "--backend", "dask", "--quiet", "--set", BUSY_FOR_HOURS]
    with desk.started(*words) as driver:
        wait_for(happened(out, TaskStarted, 2))
        workers = descendants(driver.pid)
        assert sum("--scheduler" in words_of(worker) for worker in workers) == 2
        driver.kill()
    wait_for(lambda: not any(is_alive(worker) for worker in workers), SECONDS)


def test_what_cannot_be_cancelled_is_told(desk: Desk, flow: Path) -> None:
    nowhere = desk.cenote("cancel", "nowhere")
    assert nowhere.returncode == 2
    assert "holds no run" in nowhere.stderr

    out = desk.folder / "out"
    assert cenote.load(flow, sets=["analysis.stages.Slow.params={seconds: 0}"]).run(out).status == "succeeded"
    over = desk.cenote("cancel", str(out))
    assert over.returncode == 2
    assert "is over: it succeeded" in over.stderr

    with RunFolder(out).lock():
        with pytest.raises(CenoteError, match=f"kill -INT {os.getpid()}"):  # it has no socket
            cenote.cancel(out)
        (out / ".lock").write_text(f"{os.getppid()} on {os.uname().nodename}\n{out}/gone\n")
        with pytest.raises(CenoteError, match=f"kill -INT {os.getppid()}"):
            cenote.cancel(out)
        (out / ".lock").write_text("1 on elsewhere.example")
        with pytest.raises(CenoteError, match="process 1 on elsewhere"):
            cenote.cancel(out)


def test_a_run_that_does_not_end_in_time_is_told(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    cenote.load(flow, sets=["analysis.stages.Slow.params={seconds: 0}"]).run(out)
    asked = Interruptions()
    with RunFolder(out).lock() as lock, open_socket(Pulse(RunFolder(out), time.time), asked, time.time) as path:
        name_socket(lock, path)  # a driver that answers, and does nothing
        for _ in range(2):
            with pytest.raises(CenoteError, match="still running"):
                cenote.cancel(out, wait=0.1)
    assert asked.hurried
    assert not path.parent.exists()
