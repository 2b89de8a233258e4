"""Hundreds of tiny tasks on Dask travel in bundles, and nobody can tell from the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.engine.messages import TaskDone, TaskStarted
from cenote.execution.runs.journal import read_events

from ..conftest import Desk

OPS = """
    import os, signal
    from pathlib import Path
    from cenote import operation

    @operation("custom.scaled", reads=["MET_pt"], adds=["scaled"])
    def scaled(events, *, fails_above: float = 1e9):
        if events["MET_pt"].max() > fails_above:
            raise ValueError("too much")
        return {"scaled": events["MET_pt"] * 0.3}

    @operation("custom.deadly", reads=["scaled"], adds=["alive"])
    def deadly(events, *, once: str = ""):
        if once and events["scaled"][0] > 20:
            try:
                Path(once).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return {"alive": events["scaled"]}
"""

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 5}}
    analysis:
      stages:
        - {id: Scaled, op: custom.scaled}
        - {id: Deadly, op: custom.deadly, execution: {require: other}}
        - id: H
          op: hep.hist
          render: []
          params:
            weight_expr: alive
            axes: [{name: x, type: regular, source: alive, bins: {nbins: 20, low: 0, high: 60}}]
    execution:
      backend: dask
      pools: {default: {workers: 1}, other: {workers: 1}}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=1500)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def bits(run: cenote.Run) -> Any:
    return run.product("H").view(flow=True).tobytes()


def local(desk: Desk, flow: Path) -> Any:
    return bits(cenote.load(flow, backend="local").run(desk.folder / "local", workers=1))


def test_bundled_tasks_give_the_same_bits_and_are_told_of_one_by_one(desk: Desk, flow: Path) -> None:
    run = cenote.load(flow).run(desk.folder / "out")
    assert run.status == "succeeded", [failure["message"] for failure in run.failures]
    assert bits(run) == local(desk, flow)
    events = list(read_events(desk.folder / "out"))
    done = [event.task for event in events if isinstance(event, TaskDone)]
    assert len(done) == len(set(done))
    assert {event.task for event in events if isinstance(event, TaskStarted)} == set(done)
    assert all(stage["done"] == 300 for stage in run.summary["stages"])


def test_a_worker_that_dies_in_the_middle_of_a_bundle_loses_nothing(desk: Desk, flow: Path) -> None:
    once = f"analysis.stages.Deadly.params={{once: '{desk.folder / 'died'}'}}"
    run = cenote.load(flow, sets=[once]).run(desk.folder / "out")
    assert run.status == "succeeded", [failure["message"] for failure in run.failures]
    assert (desk.folder / "died").exists()
    assert bits(run) == local(desk, flow)


def test_one_failure_in_a_bundle_spoils_no_other_task(desk: Desk, flow: Path) -> None:
    sets = ["analysis.stages.Scaled.params={fails_above: 150}"]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out", keep_going=True)
    expected = cenote.load(flow, backend="local", sets=sets).run(desk.folder / "local", workers=1, keep_going=True)
    assert run.status == expected.status == "partial"
    assert {failure["message"] for failure in run.failures} == {failure["message"] for failure in expected.failures}
    counts = [{stage["id"]: (stage["done"], stage["failed"]) for stage in r.summary["stages"]} for r in (run, expected)]
    assert counts[0] == counts[1]
    assert bits(run) == bits(expected)
