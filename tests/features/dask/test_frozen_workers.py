"""A worker that is stopped, or whose node hangs, is told of within seconds and replaced; one that wakes up goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import cenote
from cenote.engine.messages import AnyEvent, TaskStarted, WorkerAnswers, WorkerJoined, WorkerLost, WorkerSilent
from cenote.execution.runs.explain import explain_run, waiting_in_words
from cenote.execution.runs.journal import read_events
from cenote.execution.runs.view.view import RunView

from ..conftest import Desk

OPS = """
    import os, signal, time
    from pathlib import Path
    from cenote import operation

    @operation("custom.frozen", reads=["MET_pt"], adds=["alive"])
    def frozen(events, *, marker: str = "", busy: bool = False):
        if marker and not Path(marker).exists():
            Path(marker).write_text(str(os.getpid()))
            if busy:
                3 ** 12_000_000  # seconds within one operation of Python, which lets nobody else in
            else:
                name = os.environ.get("CENOTE_WORKER")
                while name and not Path(f"{marker}-{name}").exists():  # what is not known to have begun goes elsewhere
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGSTOP)
        return {"alive": events["MET_pt"]}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 250}}
    analysis:
      stages:
        - {id: Frozen, op: custom.frozen, execution: {timeout: 1h}}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: alive, bins: {nbins: 4, low: 0, high: 90}}]}
    execution: {pools: {default: {workers: 2}}}
"""
PROCESSES = {"local": 2, "dask": None}
BACKENDS = pytest.mark.parametrize("backend", ["dask", "local"])


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=2000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def sets_of(desk: Desk, *, patience: str, busy: bool = False) -> list[str]:
    return [
        f"execution.config.patience={patience}",
        f"analysis.stages.Frozen.params={{marker: {desk.folder / 'process'}, busy: {str(busy).lower()}}}",
    ]


def expected(desk: Desk, flow: Path) -> bytes:
    run = cenote.load(flow, backend="local").run(desk.folder / "expected", workers=1)
    return bytes(run.product("H").view(flow=True).tobytes())


def events_of(desk: Desk, *kinds: type) -> list[AnyEvent]:
    return [event for event in read_events(desk.folder / "out") if isinstance(event, kinds)]


def let_freeze(desk: Desk) -> None:
    """Every worker that is known to have begun a task."""
    for event in events_of(desk, TaskStarted):
        assert isinstance(event, TaskStarted)
        (desk.folder / f"process-{event.worker}").touch()


@BACKENDS
def test_a_worker_that_stays_frozen_is_told_of_and_replaced(desk: Desk, flow: Path, backend: str) -> None:
    told: set[str] = set()

    def listen(view: RunView) -> None:
        let_freeze(desk)
        told.update(line.partition(" for ")[0] for line in waiting_in_words(view))
        if view.pools[0].silent:
            assert "has not answered for" in explain_run(view)

    analysis = cenote.load(flow, backend=backend, sets=sets_of(desk, patience="4s"))
    run = analysis.run(desk.folder / "out", workers=PROCESSES[backend], listen=listen)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("H").view(flow=True).tobytes() == expected(desk, flow)
    (silent,) = events_of(desk, WorkerSilent)
    assert isinstance(silent, WorkerSilent)
    assert f"worker {silent.worker} has not answered" in told
    assert not Path(f"/proc/{(desk.folder / 'process').read_text()}").exists()
    if backend == "dask":
        (lost,) = [event for event in events_of(desk, WorkerLost) if getattr(event, "cause", "") == "silent"]
        assert isinstance(lost, WorkerLost)
        assert lost.worker == silent.worker
        assert lost.reason.startswith("it did not answer for ")
        assert len(events_of(desk, WorkerJoined)) >= 2


@BACKENDS
def test_a_worker_that_wakes_up_in_time_goes_on(desk: Desk, flow: Path, backend: str) -> None:
    def wake(view: RunView) -> None:
        let_freeze(desk)
        if view.pools[0].silent:
            os.kill(int((desk.folder / "process").read_text()), signal.SIGCONT)

    analysis = cenote.load(flow, backend=backend, sets=sets_of(desk, patience="10m"))
    run = analysis.run(desk.folder / "out", workers=PROCESSES[backend], listen=wake)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("H").view(flow=True).tobytes() == expected(desk, flow)
    assert len(events_of(desk, WorkerSilent)) == len(events_of(desk, WorkerAnswers)) == 1
    assert [event for event in events_of(desk, WorkerLost) if getattr(event, "cause", "") != "retired"] == []


def test_user_code_that_holds_pythons_lock_is_not_taken_for_a_frozen_worker(desk: Desk, flow: Path) -> None:
    analysis = cenote.load(flow, backend="dask", sets=sets_of(desk, patience="3s", busy=True))
    run = analysis.run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    assert events_of(desk, WorkerSilent) == []
