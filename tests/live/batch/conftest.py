"""What tests with real batch systems need: the systems, started once, and a workflow of three pools."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

import cenote
from cenote.engine.messages import AnyEvent, TaskDone, WorkerLost
from cenote.execution.runs.journal import read_events
from cenote.execution.runs.view.view import RunView
from cenote.testing.muons import write_muons

from .htcondor_pool import HTCondorPool, htcondor_pool
from .processes import until
from .slurm_cluster import SlurmCluster, slurm_cluster

OPS = """
    import time
    import awkward as ak
    import numpy as np
    from cenote import operation

    @operation("custom.index", reads=["Muon_pt"], adds=["n_muons"])
    def index(events, *, seconds: float = 0.0, broken: bool = False):
        if broken:
            raise ValueError("this is my own mistake")
        time.sleep(seconds)
        return {"n_muons": ak.num(events["Muon_pt"])}

    @operation("custom.inference", reads=["n_muons", "MET_pt"], adds=["score"])
    def inference(events, *, megabytes: int = 0):
        if megabytes:
            block = np.ones(megabytes * 131072)
            time.sleep(1)
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
          render: []
          params:
            weight_expr: score
            axes: [{name: pt, type: regular, source: Muon_pt, bins: {nbins: 40, low: 0, high: 200}}]
    execution:
      backend: dask
      config: {host: 127.0.0.1, poll_every: 2s}
      pools:
        default: {workers: 1, resources: {cpus: 1, memory: 4GB}, config: {walltime: 04:00:00}}
        high_memory: {workers: 2, resources: {memory: 128GB}, config: {walltime: 04:00:00}}
        gpu: {workers: 1, resources: {gpus: 1}, config: {walltime: 04:00:00}}
"""
SLOWLY = "analysis.stages.BuildIndex.params={seconds: 0.6}"
FOR_LONG = "analysis.stages.BuildIndex.params={seconds: 5}"
"""Half a minute at least, with two workers for twelve partitions: enough to be interrupted."""
OWN_POOLS = {"BuildIndex": {"high_memory"}, "RunInference": {"gpu"}, "MuonPt": {"default"}}
LEFT_OUT = "['*/tests/*', '*/pygments/*', '*/lib2to3/*']"
"""Of packed environments: half of the time of packing goes into compiling modules."""

BatchSystem = SlurmCluster | HTCondorPool
E = TypeVar("E", bound=AnyEvent)


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is marked `batch`; one process starts Slurm and has all its tests, another HTCondor."""
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.batch)
            parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
            met = [name for name in ("htcondor", "slurm") if name in item.fixturenames or name in parameters]
            if met:  # elsewhere it is a cluster of the file's own
                item.add_marker(pytest.mark.xdist_group(met[0]))


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
    _slurm.wait_until_empty()


@pytest.fixture
def htcondor(_htcondor: HTCondorPool, monkeypatch: pytest.MonkeyPatch) -> Iterator[HTCondorPool]:
    """A pool without jobs; the test must leave none."""
    _htcondor.reset()
    monkeypatch.setenv("PATH", f"{_htcondor.programs}{os.pathsep}{os.environ['PATH']}")
    yield _htcondor
    _htcondor.wait_until_empty()


@pytest.fixture(params=["slurm", "htcondor"])
def system(request: pytest.FixtureRequest) -> BatchSystem:
    """One after the other, for what holds on both."""
    found: BatchSystem = request.getfixturevalue(request.param)
    return found


@dataclass
class Workshop:
    """A folder with data and a workflow; runs of it can be disturbed and compared."""

    folder: Path
    events: list[AnyEvent] = field(default_factory=list)

    @property
    def out(self) -> Path:
        """Where the run goes."""
        return self.folder / "out"

    def run(self, *sets: str, disturb: Callable[[], bool] | None = None, **choices: Any) -> cenote.Run:
        """Run the workflow. `disturb` is called again and again, once two tasks are done, until it returns true."""
        over = disturb is None

        def listen(view: RunView) -> None:
            nonlocal over
            del view
            if not over and sum(isinstance(event, TaskDone) for event in read_events(self.out)) >= 2:
                assert disturb is not None
                over = disturb()

        run = cenote.load(self.folder / "flow.yaml", sets=sets, **choices).run(self.out, listen=listen)
        self.events = list(read_events(self.out))
        assert over, "the run ended before it could be disturbed"
        return run

    @contextmanager
    def driver(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """`cenote run` as a process of its own, killed at the end unless it is gone by then."""
        command = [sys.executable, "-m", "cenote", "run", "flow.yaml", "--out", str(self.out), *words]
        with (self.folder / "driver.txt").open("wb") as printed:
            process = subprocess.Popen(command, cwd=self.folder, stdout=printed, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def why(self, *words: str) -> str:
        """What `cenote why` says of the run."""
        command = [sys.executable, "-m", "cenote", "why", str(self.out), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    def heard(self, kind: type[E], *, pool: str | None = None, **facts: Any) -> list[E]:
        """What the journal tells of this kind so far, about a pool, with such facts."""
        events = list(read_events(self.out)) if (self.out / "journal.jsonl").exists() else []
        mine = [event for event in events if isinstance(event, kind) and pool in (None, getattr(event, "pool", None))]
        return [event for event in mine if all(getattr(event, name) == fact for name, fact in facts.items())]

    def wait_for(self, kind: type[AnyEvent], *, pool: str | None = None, **facts: Any) -> None:
        """Until the journal tells of this."""
        until(lambda: bool(self.heard(kind, pool=pool, **facts)), f"{kind.__name__} {pool or ''} {facts or ''}")

    def local_numbers(self, *sets: str) -> bytes:
        """Those that every run must find."""
        run = cenote.load(self.folder / "flow.yaml", backend="local", sets=sets).run(self.folder / "local", workers=1)
        return numbers(run)

    def losses(self, pool: str) -> list[WorkerLost]:
        """Workers of a pool that were lost though nobody told them to end."""
        lost = [event for event in self.events if isinstance(event, WorkerLost) and event.pool == pool]
        return [event for event in lost if event.cause != "retired"]


def numbers(run: cenote.Run) -> bytes:
    """The result, bit for bit."""
    assert run.status == "succeeded", str(run.failures)
    found: bytes = run.product("MuonPt").view(flow=True).tobytes()
    return found


def pools_of(run: cenote.Run) -> dict[str, set[str]]:
    """Stage → the pools of the workers that it ran on."""
    return {stage["id"]: {worker.rsplit("-", 1)[0] for worker in stage["workers"]} for stage in run.summary["stages"]}


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """Three thousand events in twelve partitions."""
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / ".cache"))
    write_muons(tmp_path / "a.root", events=3000)
    (tmp_path / "ops.py").write_text(textwrap.dedent(OPS))
    (tmp_path / "flow.yaml").write_text(textwrap.dedent(FLOW))
    return Workshop(tmp_path)
