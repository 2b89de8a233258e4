"""What tests with real batch systems need: the systems, started once, and a workflow of three pools."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.engine.messages import AnyEvent, TaskDone, WorkerLost
from cenote.runtime.journal import read_events
from cenote.runtime.run_view import RunView
from cenote.testing.muons import write_muons

from .htcondor_pool import HTCondorPool, htcondor_pool
from .slurm_cluster import SlurmCluster, slurm_cluster

OPS = """
    import time
    import awkward as ak
    import numpy as np
    from cenote import operation

    @operation("custom.index", reads=["Muon_pt"], adds=["n_muons"])
    def index(events, *, seconds: float = 0.0):
        time.sleep(seconds)
        return {"n_muons": ak.num(events["Muon_pt"])}

    @operation("custom.inference", reads=["n_muons", "MET_pt"], adds=["score"])
    def inference(events):
        return {"score": 1.0 / (1.0 + np.exp(-np.asarray(events["MET_pt"]) / 30.0 + events["n_muons"]))}
"""
FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 250}}
    analysis:
      stages:
        - {id: BuildIndex, op: custom.index, execution: {require: high_memory}}
        - {id: RunInference, op: custom.inference, execution: {require: gpu}}
        - id: MuonPt
          op: hep.hist
          params:
            weight_expr: score
            axes: [{name: pt, type: regular, source: Muon_pt, bins: {nbins: 40, low: 0, high: 200}}]
    execution:
      backend: dask
      config: {host: 127.0.0.1, poll_every: 2s}
      pools:
        default: {workers: 2, resources: {cpus: 1, memory: 4GB}, config: {walltime: 04:00:00}}
        high_memory: {workers: 2, resources: {memory: 128GB}, config: {walltime: 04:00:00}}
        gpu: {workers: 1, resources: {gpus: 1}, config: {walltime: 04:00:00}}
"""
SLOWLY = "analysis.stages.BuildIndex.params={seconds: 0.6}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is marked `batch`."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.batch)


@pytest.fixture(scope="package")
def _slurm() -> Iterator[SlurmCluster]:
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="package")
def _htcondor() -> Iterator[HTCondorPool]:
    with htcondor_pool() as pool:
        yield pool


@pytest.fixture
def slurm(_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """A cluster without jobs; the test must leave none."""
    _slurm.reset()
    for name, value in _slurm.environment.items():
        monkeypatch.setenv(name, value)
    yield _slurm
    assert _slurm.queue() == []


@pytest.fixture
def htcondor(_htcondor: HTCondorPool, monkeypatch: pytest.MonkeyPatch) -> Iterator[HTCondorPool]:
    """A pool without jobs; the test must leave none."""
    _htcondor.reset()
    monkeypatch.setenv("PATH", f"{_htcondor.programs}{os.pathsep}{os.environ['PATH']}")
    yield _htcondor
    _htcondor.wait_until_empty()


@dataclass
class Workshop:
    """A folder with data and a workflow; runs of it can be disturbed and compared."""

    folder: Path
    events: list[AnyEvent] = field(default_factory=list)

    def run(self, *sets: str, disturb: Callable[[], bool] | None = None, **choices: Any) -> cenote.Run:
        """Run the workflow. `disturb` is called again and again, once two tasks are done, until it returns true."""
        out = self.folder / "out"
        over = disturb is None

        def listen(view: RunView) -> None:
            nonlocal over
            del view
            if not over and sum(isinstance(event, TaskDone) for event in read_events(out)) >= 2:
                assert disturb is not None
                over = disturb()

        run = cenote.load(self.folder / "flow.yaml", sets=sets, **choices).run(out, listen=listen)
        self.events = list(read_events(out))
        assert over, "the run ended before it could be disturbed"
        return run

    def local_numbers(self) -> bytes:
        """Those that every run must find."""
        run = cenote.load(self.folder / "flow.yaml", backend="local").run(self.folder / "local", workers=1)
        return numbers(run)

    def losses(self, pool: str) -> list[WorkerLost]:
        """Workers of a pool that were lost though nobody told them to end."""
        lost = [event for event in self.events if isinstance(event, WorkerLost) and event.pool == pool]
        return [event for event in lost if event.cause != "retired"]


def numbers(run: cenote.Run) -> bytes:
    """The result, bit for bit."""
    assert run.status == "succeeded", run.failures
    found: bytes = run.product("MuonPt").view(flow=True).tobytes()
    return found


def pools_of(run: cenote.Run) -> dict[str, set[str]]:
    """Stage → the pools of the workers that it ran on."""
    return {stage["id"]: {worker.rsplit("-", 1)[0] for worker in stage["workers"]} for stage in run.summary["stages"]}


OWN_POOLS = {"BuildIndex": {"high_memory"}, "RunInference": {"gpu"}, "MuonPt": {"default"}}


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Three thousand events in twelve partitions."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    write_muons(tmp_path / "a.root", events=3000)
    (tmp_path / "ops.py").write_text(textwrap.dedent(OPS))
    (tmp_path / "flow.yaml").write_text(textwrap.dedent(FLOW))
    return Workshop(tmp_path)
