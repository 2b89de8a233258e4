"""The driver and the scheduler within it go on together, whatever becomes of the network."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import cenote
from cenote.engine.messages import TaskDone, WorkerLost
from cenote.execution.runs.journal import read_events
from cenote.execution.runs.view.view import RunView

from ..conftest import Desk

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 100}}
    analysis:
      stages:
        - {id: Slow, op: custom.slow}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: same, bins: {nbins: 4, low: 0, high: 90}}]}
    execution: {backend: dask, pools: {default: {workers: 2}}}
"""
OPS = """
    import time
    from cenote import operation

    @operation("custom.slow", reads=["MET_pt"], adds=["same"])
    def slow(events):
        time.sleep(0.1)
        return {"same": events["MET_pt"]}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=2000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def bits(run: cenote.Run) -> bytes:
    assert run.status == "succeeded", str(run.failures)
    return bytes(run.product("H").view(flow=True).tobytes())


def break_connections_to_itself() -> None:
    """As a firewall or a vanished address does: both ends hear that the connection is gone."""
    lines = [line for line in psutil.Process().net_connections("tcp") if line.raddr]
    ends = {(line.laddr, line.raddr) for line in lines}
    for line in lines:
        if (line.raddr, line.laddr) in ends:
            with suppress(OSError), socket.socket(fileno=os.dup(line.fd)) as own:  # it may be gone already
                own.shutdown(socket.SHUT_RDWR)


def test_a_run_goes_on_when_every_connection_of_the_driver_to_itself_breaks(desk: Desk, flow: Path) -> None:
    def listen(_: RunView) -> None:
        if any(isinstance(event, TaskDone) for event in read_events(desk.folder / "out")):
            break_connections_to_itself()

    expected = bits(cenote.load(flow, backend="local").run(desk.folder / "expected", workers=1))
    assert bits(cenote.load(flow).run(desk.folder / "out", listen=listen)) == expected
    assert not any(
        isinstance(event, WorkerLost) and event.cause != "retired" for event in read_events(desk.folder / "out")
    )
