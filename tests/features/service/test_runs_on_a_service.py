"""A run's workers are leases of a service: its numbers are the local ones, whoever else wants the slots, and whatever
happens to the service; and a run that is left to the service goes on without whoever submitted it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cenote
from builders.ended_services import end_service
from cenote.common.errors import CenoteError
from cenote.engine.messages import TaskStarted, WorkerJoined, WorkerLost
from cenote.execution.runs.folder import is_locked, lock_owner
from cenote.execution.runs.journal import read_events, runs_in
from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome
from cenote.service.client.start import answering

from ..conftest import Desk, wait_for

POOLS = """
execution:
  pools:
    default: {workers: 1, slots: 2, resources: {cpus: 2}, strategy: local}
    high_memory: {workers: 1, slots: 2, resources: {cpus: 2, memory: 256GB}, strategy: local}
    gpu: {workers: 1, resources: {gpus: 1}, strategy: local}
"""

OPS = """
    import os, time
    import numpy as np
    from cenote import operation

    @operation("custom.index", reads=["Muon_pt"], adds=["n_muons"])
    def index(events, *, seconds: float = 0.0):
        import awkward as ak
        time.sleep(seconds)
        return {"n_muons": FACTOR * ak.num(events["Muon_pt"])}

    @operation("custom.inference", reads=["n_muons", "MET_pt"], adds=["score"])
    def inference(events):
        return {"score": 1.0 / (1.0 + np.exp(-np.asarray(events["MET_pt"]) / 30.0 + events["n_muons"]))}
"""

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 500}}
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
      pools:
        default: {workers: 1}
        high_memory: {workers: 2, resources: {memory: 128GB}}
        gpu: {workers: 1, resources: {gpus: 1}}
"""
SLOW = "analysis.stages.BuildIndex.params={seconds: 0.4}"


class OwnService:
    """A service with three pools on this machine, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.home = ServiceHome(folder / "service")
        self._file = folder / "pools.yaml"
        self._file.write_text(POOLS)

    def start(self) -> None:
        words = [sys.executable, "-m", "cenote", "serve", str(self._file), "--home", str(self.home.path)]
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode = 0
        wait_for(lambda: answering(self.home) is not None)

    def connect(self) -> Connection:
        return connect(self.home.path, start=False)

    def kill(self) -> None:
        os.kill(self.connect().service.pid, signal.SIGKILL)
        wait_for(lambda: not self.home.is_taken)

    def leases_are_over(self) -> bool:
        return all(task.record.state.is_over for task in self.connect().tasks())


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnService]:
    made = OwnService(tmp_path_factory.mktemp("service"))
    made.start()
    yield made
    pid = made.connect().service.pid
    end_service(made.home, pid)


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=3000)
    desk.write("ops.py", OPS.replace("FACTOR", "1"))
    return desk.write("flow.yaml", FLOW)


def bits(run: cenote.Run) -> Any:
    assert run.status == "succeeded", str(run.failures)
    return run.product("MuonPt").view(flow=True).tobytes()


def local_bits(flow: Path) -> Any:
    return bits(cenote.load(flow, backend="local").run(flow.parent / "local", workers=1))


def leased(flow: Path, service: OwnService, *sets: str) -> cenote.Run:
    """Run it with workers of the service."""
    where = f"execution.config.service={json.dumps(str(service.home.path))}"
    return cenote.load(flow, strategy="service", sets=[where, *sets]).run(flow.parent / "out")


def while_it_runs(folder: Path, act: Callable[[], None]) -> threading.Thread:
    """Do this once the first task has started."""

    def wait_and_act() -> None:
        wait_for(lambda: any(isinstance(event, TaskStarted) for event in events_of(folder)))
        act()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def events_of(folder: Path) -> list[Any]:
    try:
        return list(read_events(folder))
    except CenoteError:
        return []


def test_leases_of_three_pools_give_the_numbers_of_the_local_backend(flow: Path, service: OwnService) -> None:
    run = leased(flow, service)
    assert bits(run) == local_bits(flow)
    workers = {stage["id"]: {name.rsplit("-", 1)[0] for name in stage["workers"]} for stage in run.summary["stages"]}
    assert workers == {"BuildIndex": {"high_memory"}, "RunInference": {"gpu"}, "MuonPt": {"default"}}
    names = {task.name for task in service.connect().tasks()}
    assert {"run out, worker default-1", "run out, worker high_memory-2", "run out, worker gpu-1"} <= names
    assert service.leases_are_over()
    private = list((run.folder / "debug" / "distributed" / "identity").glob("*.pem"))
    assert all(file.stat().st_mode & 0o077 == 0 for file in private)


def test_two_runs_whose_plugins_have_the_same_name_do_not_meet(desk: Desk, flow: Path, service: OwnService) -> None:
    other = Desk(desk.folder.parent / "other")
    other.folder.mkdir()
    other.muons("a.root", events=3000)
    other.write("ops.py", OPS.replace("FACTOR", "2"))
    their_flow = other.write("flow.yaml", FLOW)
    words = ("run", "flow.yaml", "--service", str(service.home.path), "--out", "out", "--quiet")
    with desk.started(*words) as one, other.started(*words) as two:
        assert (one.wait(), two.wait()) == (0, 0), (one.stdout, two.stdout)
    ours, theirs = (bits(cenote.open_run(folder / "out")) for folder in (desk.folder, other.folder))
    assert ours == local_bits(flow)
    assert theirs == local_bits(their_flow)
    assert ours != theirs


def test_a_task_of_higher_priority_takes_slots_and_the_numbers_stay(flow: Path, service: OwnService) -> None:
    connection = service.connect()
    urgent = connection.create_task("urgent", "high_memory", 2)
    urgent.command, urgent.priority = "true", 10
    taking = while_it_runs(flow.parent / "out", lambda: urgent.submit() and None)
    run = leased(flow, service, SLOW)
    taking.join()
    assert urgent.wait(timeout=120)
    assert bits(run) == local_bits(flow)
    lost = [event for event in read_events(run.folder) if isinstance(event, WorkerLost)]
    preempted = [event for event in lost if event.cause == "preempted"]
    assert preempted, lost
    assert all("higher priority" in event.reason for event in preempted)
    joined = [event.worker for event in read_events(run.folder) if isinstance(event, WorkerJoined)]
    assert len(joined) == len(set(joined)), "a lease that was taken back came again under its old name"


def test_a_service_that_is_killed_and_started_again_does_not_disturb_a_run(flow: Path, service: OwnService) -> None:
    def kill_and_start() -> None:
        service.kill()
        service.start()

    acting = while_it_runs(flow.parent / "out", kill_and_start)
    run = leased(flow, service, SLOW)
    acting.join()
    assert bits(run) == local_bits(flow)
    wait_for(service.leases_are_over)


def test_a_pool_that_no_slot_can_hold_is_refused_with_the_reason(flow: Path, service: OwnService) -> None:
    run = leased(flow, service, "execution.pools.high_memory={workers: 1, resources: {memory: 900GB}}")
    assert run.status == "failed"
    assert "a slot of pool 'high_memory' has 128 GB" in str(run.failures)


def test_a_submitted_run_is_like_any_other_and_its_variables_stay_private(
    desk: Desk, flow: Path, service: OwnService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_PASSWORD", "open-sesame-4711")
    done = desk.cenote("submit", "flow.yaml", "--service", str(service.home.path), "--out", "out", "--wait")
    assert done.returncode == 0, done.stderr
    assert "cenote status out --follow" in done.stdout
    assert bits(cenote.open_run(desk.folder / "out")) == local_bits(flow)
    assert (desk.folder / "out" / "report.html").is_file()
    assert desk.cenote("status", "out").returncode == 0
    kept = [file for file in service.home.path.rglob("*") if file.is_file() and not file.is_socket()]
    assert kept
    assert not [file for file in kept if b"open-sesame-4711" in file.read_bytes()]


def test_a_submitted_run_that_is_wrong_says_so_at_once(desk: Desk, service: OwnService) -> None:
    desk.write("wrong.yaml", "analysis: {stages: [{id: A, op: hep.hits}]}")
    done = desk.cenote("submit", "wrong.yaml", "--service", str(service.home.path), "--wait")
    assert done.returncode == 12, done.stderr
    assert "hep.hist" in done.stderr


def test_a_driver_that_dies_with_its_worker_is_begun_again_and_resumes(
    desk: Desk, flow: Path, service: OwnService
) -> None:
    words = ("submit", "flow.yaml", "--service", str(service.home.path), "--out", "out", "--fresh", "--set", SLOW)
    assert desk.cenote(*words).returncode == 0
    out = desk.folder / "out"
    wait_for(lambda: any(isinstance(event, TaskStarted) for event in events_of(out)))
    owner = lock_owner(out)
    assert owner is not None
    os.kill(parent_of(owner.process), signal.SIGKILL)
    wait_for(lambda: len(runs_in(out)) == 2)
    wait_for(lambda: (out / "report.html").is_file() and not is_locked(out))
    assert bits(cenote.open_run(out)) == local_bits(flow)


@pytest.mark.usefixtures("flow")
def test_a_submitted_run_can_be_cancelled_and_gives_its_leases_back(desk: Desk, service: OwnService) -> None:
    slow = "analysis.stages.BuildIndex.params={seconds: 5}"
    words = ("submit", "flow.yaml", "--service", str(service.home.path), "--out", "out", "--set", slow)
    assert desk.cenote(*words).returncode == 0
    wait_for(lambda: any(isinstance(event, TaskStarted) for event in events_of(desk.folder / "out")))
    cancelled = desk.cenote("cancel", "out")
    assert cancelled.returncode == 0, cancelled.stderr
    assert "cancelled after" in cancelled.stdout
    wait_for(service.leases_are_over)


def warm_driver(desk: Desk, service: OwnService) -> None:
    """Run once: afterwards the service has a process ready that drives runs."""
    words = ("run", "flow.yaml", "--service", str(service.home.path), "--out", "first", "--quiet")
    assert desk.cenote(*words).returncode == 0
    wait_for(lambda: any(pool.name == "drivers" and pool.workers for pool in service.connect().pool_records()))


def test_the_next_command_is_run_by_a_warm_process_as_if_it_were_run_here(
    desk: Desk, flow: Path, service: OwnService
) -> None:
    warm_driver(desk, service)
    code = """if "MY_WORD" in os.environ:  # workers have other variables
    seen = f"{os.environ['MY_WORD']} {os.umask(0o027):o} {os.getcwd()}"
    open("seen.txt", "w").write(seen)"""
    (desk.folder / "ops.py").write_text(f"{(desk.folder / 'ops.py').read_text()}\n{code}\n")
    words = [sys.executable, "-m", "cenote", "run", "-", "--service", str(service.home.path), "--out", "lent"]
    environment = {**os.environ, "MY_WORD": "hello"}
    with flow.open() as text:
        done = subprocess.run(
            words,
            stdin=text,
            cwd=desk.folder,
            env=environment,
            umask=0o027,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("succeeded in")
    assert (desk.folder / "seen.txt").read_text() == f"hello 27 {desk.folder}"
    (driver,) = [task for task in service.connect().tasks() if task.name == "run lent, driver"]
    assert driver.wait(timeout=60)
    assert bits(cenote.open_run(desk.folder / "lent")) == local_bits(flow)
    wrong = desk.cenote("run", "missing.yaml", "--service", str(service.home.path), "--out", "wrong")
    assert (wrong.returncode, wrong.stdout) == (10, "")
    assert "missing.yaml" in wrong.stderr


@pytest.mark.usefixtures("flow")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_of_a_warm_process_ends_with_the_command(desk: Desk, service: OwnService, number: signal.Signals) -> None:
    warm_driver(desk, service)
    slow = "analysis.stages.BuildIndex.params={seconds: 5}"
    words = ("run", "flow.yaml", "--service", str(service.home.path), "--out", "out", "--set", slow)
    with desk.started(*words) as typed:
        wait_for(lambda: any(isinstance(event, TaskStarted) for event in events_of(desk.folder / "out")))
        owner = lock_owner(desk.folder / "out")
        assert owner is not None
        assert owner.process != typed.pid, "it was run here"
        typed.send_signal(number)
        assert typed.wait() == (130 if number is signal.SIGINT else -9)
    wait_for(lambda: not is_locked(desk.folder / "out"))
    assert cenote.open_run(desk.folder / "out").status == "cancelled"
    wait_for(service.leases_are_over)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
