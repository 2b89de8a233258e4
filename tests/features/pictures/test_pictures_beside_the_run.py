"""Products are saved and drawn while other tasks still run, one picture at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.execution.runtime import publish
from cenote.planning.plan import Plan, ProductPlan

from ..conftest import Desk

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
TWO_TASKS = f"""
    data: {{datasets: [{{name: d, files: ["*.root"]}}]}}
    analysis:
      stages:
        - {{id: Other, op: hep.hist, needs: [], params: {HISTOGRAM % "MET_pt"}, execution: {{require: big}}}}
        - {{id: Ours, op: hep.hist, needs: [], params: {HISTOGRAM % "MET_pt"}}}
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


class SlowThread:
    """A thread that does nothing of what it was asked for until somebody waits for it."""

    def __init__(self, size: int) -> None:
        assert size == 1
        self.asked: list[SlowCall] = []

    def submit(self, call: Callable[..., Any], *arguments: Any) -> SlowCall:  # Any: as those of the library
        self.asked.append(SlowCall(lambda: call(*arguments)))
        return self.asked[-1]

    def shutdown(self, *, cancel_futures: bool = False) -> None:  # noqa: ARG002  # as that of the library
        for one in self.asked:
            one.result()


class SlowCall:
    def __init__(self, call: Callable[[], Any]) -> None:
        self.result = cache(call)


def test_a_picture_that_the_thread_may_not_draw_waits_for_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[str] = []
    publish_one = publish._publish_one

    def noted(plan: Plan, product: ProductPlan, *others: Any, **named: Any) -> None:
        published.append(product.name)
        publish_one(plan, product, *others, **named)

    monkeypatch.setattr(publish, "ThreadPoolExecutor", SlowThread)
    monkeypatch.setattr(publish, "_publish_one", noted)
    monkeypatch.setattr(publish, "_is_ours", lambda product: product.name == "Ours")
    desk.muons("a.root", events=50)
    run = cenote.load(desk.write("flow.yaml", TWO_TASKS)).run(desk.folder / "out", workers=2)
    assert (run.status, run.warnings, run.products) == ("succeeded", (), ("Other", "Ours"))
    assert published == ["Ours", "Other"]
