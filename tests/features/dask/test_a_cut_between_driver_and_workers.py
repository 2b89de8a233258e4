"""Workers that do not reach the driver for a while are tried again until they do, and the reason is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from builders.cut_relay import free_port, relay_to
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
        - {id: Same, op: custom.same}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: same, bins: {nbins: 4, low: 0, high: 90}}]}
    execution:
      backend: dask
      config: {host: 127.0.0.1}
      pools: {default: {workers: 2, strategy: far}}
"""
OPS = """
    import time
    from typing import ClassVar
    from cenote import operation
    from cenote.execution.strategies.local import LocalStrategy

    class Far(LocalStrategy):
        "Starts workers here as if it were elsewhere: they are told the `contact` of the driver."
        cenote_plugin: ClassVar = ("strategy", "far")
        starts_here: ClassVar[bool] = False

    @operation("custom.same", reads=["MET_pt"], adds=["same"])
    def same(events):
        time.sleep(0.1)
        return {"same": events["MET_pt"]}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=2000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def unreached(folder: Path) -> list[WorkerLost]:
    lost = [event for event in read_events(folder) if isinstance(event, WorkerLost)]
    return [event for event in lost if event.cause == "unreachable"]


def test_a_run_goes_on_after_a_cut_in_which_new_workers_found_no_way(desk: Desk, flow: Path) -> None:
    expected = cenote.load(flow, backend="local").run(desk.folder / "expected", workers=1)
    out, driver = desk.folder / "out", free_port()
    was_cut = False
    with relay_to(driver) as relay:

        def listen(_: RunView) -> None:
            nonlocal was_cut
            if not was_cut and any(isinstance(event, TaskDone) for event in read_events(out)):
                was_cut = True
                relay.cut()
            if was_cut and unreached(out):
                relay.mend()

        way = [f"execution.config.port={driver}", f"execution.config.contact=127.0.0.1:{relay.port}"]
        run = cenote.load(flow, sets=way).run(out, listen=listen)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("H").view(flow=True).tobytes() == expected.product("H").view(flow=True).tobytes()
    first = unreached(out)[0]
    assert "it never joined: the node does not reach the driver" in first.reason
    assert f"nothing answered at tls://127.0.0.1:{relay.port}" in first.log
