"""Products are saved and drawn while other tasks still run."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote

from .conftest import Desk

OPS = """
    import os, time
    from cenote import operation

    @operation("custom.wait", reads=["MET_pt"], adds=["later"])
    def wait(events, *, file: str):
        deadline = time.monotonic() + 120
        while not os.path.exists(file):
            assert time.monotonic() < deadline, "the picture was not drawn beside this task"
            time.sleep(0.02)
        return {"later": events["MET_pt"]}
"""
HISTOGRAM = "{axes: [{name: x, type: regular, source: %s, bins: {nbins: 4, low: 0, high: 200}}]}"
FLOW = f"""
    plugins: [ops.py]
    data: {{datasets: [{{name: d, files: ["*.root"]}}]}}
    analysis:
      stages:
        - id: Early
          op: hep.hist
          params: {HISTOGRAM % "MET_pt"}
          render: {{op: hep.render.hist1d, out: early, formats: [png]}}
        - {{id: Wait, op: custom.wait, needs: [], params: {{file: PICTURE}}, execution: {{require: big}}}}
        - {{id: Late, op: hep.hist, render: [], params: {HISTOGRAM % "later"}, execution: {{require: big}}}}
    execution:
      backend: local
      pools: {{default: {{workers: 1}}, big: {{workers: 1, resources: {{memory: 2GB}}}}}}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=50)
    desk.write("ops.py", OPS)
    picture = desk.folder / "out" / "plots" / "early.png"
    return desk.write("flow.yaml", FLOW.replace("PICTURE", f'"{picture}"'))


def test_a_picture_is_there_while_other_tasks_run(desk: Desk, flow: Path) -> None:
    run = cenote.load(flow).run(desk.folder / "out", workers=2)
    assert run.status == "succeeded", str(run.failures)
    assert [product["name"] for product in run.summary["products"]] == ["Early", "Late"]
    assert [product["plots"] for product in run.summary["products"]] == [["plots/early.png"], []]
