"""Workers die in the middle of hundreds of short tasks: equal numbers, and only what was lost is called lost.

The large version of this, with the driver's memory, is `benchmarks/endurance`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote
from cenote.engine.messages import AnyEvent, PoolChanged, ResultLost, ResultNotNeeded, TaskDone, WorkerLost
from cenote.engine.scaling import PoolState
from cenote.execution.runs.journal import read_events

from ..conftest import Desk

OPS = """
    import os, signal
    from pathlib import Path
    from cenote import operation

    def once(name):
        try:
            Path(name).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @operation("custom.first", reads=["MET_pt"], adds=["a"])
    def first(events, *, desk: str):
        Path(desk, "first.pid").write_text(str(os.getpid()))
        return {"a": events["MET_pt"] * 0.3}

    @operation("custom.second", reads=["a"], adds=["b"])
    def second(events, *, desk: str, dies_at: list[float] = []):
        for limit in dies_at:
            if events["a"].max() > limit and once(Path(desk, f"second-{limit}")):
                os.kill(os.getpid(), signal.SIGKILL)
        return {"b": events["a"] + 1.0}

    @operation("custom.third", reads=["b"], adds=["c"])
    def third(events, *, desk: str, kills_first: bool = False):
        if kills_first and once(Path(desk, "third")):
            os.kill(int(Path(desk, "first.pid").read_text()), signal.SIGKILL)
        return {"c": events["b"] * 2.0}
"""

FLOW = """
    plugins: [ops.py]
    data: {{datasets: [{{name: d, files: ["*.root"]}}]}}
    sources: {{events: {{kind: root_tree, chunk_size: 10}}}}
    analysis:
      stages:
        - {{id: First, op: custom.first, params: {{desk: {desk}}}}}
        - {{id: Second, op: custom.second, params: {{desk: {desk}}}, execution: {{require: second}}}}
        - {{id: Third, op: custom.third, params: {{desk: {desk}}}, execution: {{require: third}}}}
        - id: H
          op: hep.hist
          render: []
          params:
            weight_expr: c
            axes: [{{name: x, type: regular, source: c, bins: {{nbins: 20, low: 0, high: 60}}}}]
          execution: {{require: third}}
    execution:
      backend: dask
      pools: {{default: {{workers: 1}}, second: {{workers: 1}}, third: {{workers: 1}}}}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=1000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW.format(desk=desk.folder))


def bits(run: cenote.Run) -> bytes:
    assert run.status == "succeeded", str(run.failures)
    return bytes(run.product("H").view(flow=True).tobytes())


def lost_and_never_made_again(events: list[AnyEvent]) -> set[int]:
    missing: set[int] = set()
    for event in events:
        if isinstance(event, ResultLost):
            missing.add(event.task)
        elif isinstance(event, TaskDone | ResultNotNeeded):
            missing.discard(event.task)
    return missing


def test_in_a_healthy_run_no_result_is_lost_and_no_pool_opens_again(desk: Desk, flow: Path) -> None:
    run = cenote.load(flow).run(desk.folder / "out")
    assert run.summary["tasks"]["done"] > 300
    assert bits(run) == bits(cenote.load(flow, backend="local").run(desk.folder / "local", workers=1))
    events = list(read_events(desk.folder / "out"))
    assert [event for event in events if isinstance(event, ResultLost)] == []
    for pool in ("default", "second", "third"):
        states = [event.state for event in events if isinstance(event, PoolChanged) and event.pool == pool]
        assert states[-1] is PoolState.CLOSED
        assert states.count(PoolState.CLOSED) == 1


def test_workers_that_die_on_the_way_change_nothing_but_the_journal(desk: Desk, flow: Path) -> None:
    sets = [
        f"analysis.stages.Second.params={{desk: {desk.folder}, dies_at: [5, 15, 25]}}",
        f"analysis.stages.Third.params={{desk: {desk.folder}, kills_first: true}}",
    ]
    expected = bits(cenote.load(flow, backend="local").run(desk.folder / "local", workers=1))
    assert bits(cenote.load(flow, sets=sets).run(desk.folder / "out")) == expected
    events = list(read_events(desk.folder / "out"))
    assert len([event for event in events if isinstance(event, WorkerLost) and event.cause == "died"]) >= 3
    assert lost_and_never_made_again(events) == set()
