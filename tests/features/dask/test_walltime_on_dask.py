"""Workers whose time is limited leave in good order: others take over, and neither a task nor a number is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import cenote
from cenote.engine.messages import ResultLost, TaskFailed, WorkerJoined, WorkerLeaving, WorkerLost, WorkerRequested
from cenote.execution.runs.journal import read_events
from cenote.execution.strategies.local.strategy import LocalStrategy
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind

from ..conftest import Desk

OPS = """
    import time
    import awkward as ak
    from cenote import operation

    @operation("custom.index", reads=["Muon_pt"], adds=["n_muons"])
    def index(events, *, seconds: float):
        time.sleep(seconds)
        return {"n_muons": ak.num(events["Muon_pt"])}

    @operation("custom.inference", reads=["n_muons", "MET_pt"], adds=["score"])
    def inference(events, *, seconds: float):
        time.sleep(seconds)
        return {"score": events["MET_pt"] / (1 + events["n_muons"])}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 100}}
    analysis:
      stages:
        - {id: BuildIndex, op: custom.index, params: {seconds: 0.4}, execution: {require: high_memory}}
        - {id: RunInference, op: custom.inference, params: {seconds: 0.5}}
        - id: MuonPt
          op: hep.hist
          render: []
          params:
            weight_expr: score
            axes: [{name: pt, type: regular, source: Muon_pt, bins: {nbins: 40, low: 0, high: 200}}]
    execution:
      backend: dask
      pools:
        default: {workers: 1}
        high_memory: {workers: 1, strategy: short_lived}
"""


class ShortLived(LocalStrategy):
    """Processes of this machine that have to be gone after a few seconds."""

    @property
    def lifetime(self) -> Lifetime:
        """The worker leaves when half of it is over."""
        return Lifetime(14)


@pytest.fixture
def _short_lived() -> Iterator[None]:
    restore = registry.forget_added()
    registry.add(PluginKind.STRATEGY, "short_lived", ShortLived)
    yield
    restore()


@pytest.mark.usefixtures("_short_lived")
def test_workers_leave_before_their_walltime_hand_over_and_are_replaced_in_time(desk: Desk) -> None:
    desk.muons("a.root", events=2400)
    desk.write("ops.py", OPS)
    flow = desk.write("flow.yaml", FLOW)
    at_once = [f"analysis.stages.{stage}.params.seconds=0" for stage in ("BuildIndex", "RunInference")]
    local = cenote.load(flow, backend="local", strategy="local", sets=at_once).run(desk.folder / "local", workers=1)
    run = cenote.load(flow).run(desk.folder / "dask")
    assert run.status == "succeeded", str(run.failures)
    assert run.product("MuonPt").view(flow=True).tobytes() == local.product("MuonPt").view(flow=True).tobytes()

    events = list(read_events(desk.folder / "dask"))
    assert [event for event in events if isinstance(event, TaskFailed | ResultLost)] == []
    leaving = [event for event in events if isinstance(event, WorkerLeaving)]
    assert leaving
    assert {event.pool for event in leaving} == {"high_memory"}
    lost = {event.worker: event for event in events if isinstance(event, WorkerLost) and event.pool == "high_memory"}
    assert [lost[event.worker].cause for event in leaving] == ["walltime"] * len(leaving)
    assert _asked_for_in_time(events)

    pool = next(pool for pool in run.summary["pools"] if pool["name"] == "high_memory")
    assert (pool["workers_lost"], pool["workers_timed_out"]) == (0, len(leaving))


def _asked_for_in_time(events: list[object]) -> bool:
    """Whether the second worker was asked for before the first one said that it leaves."""
    asked = [event for event in events if isinstance(event, WorkerRequested) and event.pool == "high_memory"]
    first = next(event for event in events if isinstance(event, WorkerLeaving))
    joined = next(event for event in events if isinstance(event, WorkerJoined) and event.worker == first.worker)
    return joined.at < asked[1].at < first.at


def test_a_workers_command_says_how_long_it_may_live(desk: Desk) -> None:
    desk.muons("a.root", events=100)
    desk.write("ops.py", OPS)
    flow: Path = desk.write(
        "flow.yaml", FLOW.replace("strategy: short_lived", "strategy: slurm, config: {walltime: 4h}")
    )
    shown = desk.typed("plan", flow.name, "--show-jobs").stdout
    assert "#SBATCH --time=04:00:00" in shown
    assert "--walltime 14400" in shown
