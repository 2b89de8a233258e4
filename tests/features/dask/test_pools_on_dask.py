"""On Dask every stage runs on its own workers, the numbers are those of the local backend, and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cenote
from builders.processes import descendants, is_alive, words_of
from cenote.engine.messages import TaskDone, TaskFailed, TaskStarted, WorkerJoined, WorkerLost
from cenote.execution.runs.journal import read_events

from ..conftest import Desk

OPS = """
    import logging, os, sys, time
    import numpy as np
    from cenote import operation

    @operation("custom.index", reads=["Muon_pt"], adds=["n_muons"])
    def index(events, *, seconds: float = 0.0):
        import awkward as ak
        time.sleep(seconds)
        return {"n_muons": ak.num(events["Muon_pt"])}

    @operation("custom.inference", reads=["n_muons", "MET_pt"], adds=["score"])
    def inference(events):
        return {"score": 1.0 / (1.0 + np.exp(-np.asarray(events["MET_pt"]) / 30.0 + events["n_muons"]))}

    @operation("custom.greedy", reads=["MET_pt"], adds=["sum"])
    def greedy(events, *, megabytes: int):
        block = np.ones(megabytes * 131072)
        time.sleep(0.5)
        return {"sum": events["MET_pt"] + 0 * block[: events.size]}

    @operation("custom.fragile", reads=["MET_pt"], adds=["whole"])
    def fragile(events, *, marker: str):
        print("said aloud", flush=True)
        logging.getLogger("mine").warning("written down")
        if not os.path.exists(marker):
            open(marker, "w").close()
            print("something is about to break", file=sys.stderr, flush=True)
            journal = os.path.join(os.path.dirname(marker), "out", "journal.jsonl")
            while "TaskStarted" not in open(journal).read():  # what was not heard of is made again by Dask alone
                time.sleep(0.01)
            os.kill(os.getpid(), 9)
        return {"whole": events["MET_pt"]}

    @operation("custom.picky", reads=["MET_pt"], adds=["never"])
    def picky(events):
        raise ValueError("this is my own mistake")
"""

THREE_POOLS = """
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
        default: {workers: 2}
        high_memory: {workers: 2, resources: {memory: 128GB}}
        gpu: {workers: 1, resources: {gpus: 1}}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=3000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", THREE_POOLS)


@pytest.fixture(autouse=True)
def no_worker_is_left_behind() -> Iterator[None]:
    before = _workers_of(os.getpid())  # those of tests that ran before this one may be about to end
    yield
    deadline = time.monotonic() + 30  # less than the minute after which a forgotten worker leaves by itself
    while (left := _workers_of(os.getpid()).keys() - before.keys()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, _workers_of(os.getpid())


def _workers_of(parent: int) -> dict[int, list[str]]:
    """Processes of workers that came from this process and that still live, with their commands."""
    found = {one: words_of(one) for one in descendants(parent) if is_alive(one)}
    return {one: words for one, words in found.items() if "cenote.execution.backends.dask.worker" in words}


def workers_per_stage(run: cenote.Run) -> dict[str, set[str]]:
    return {stage["id"]: {w.rsplit("-", 1)[0] for w in stage["workers"]} for stage in run.summary["stages"]}


def bits(run: cenote.Run, name: str = "MuonPt") -> Any:
    assert run.status == "succeeded", str(run.failures)
    return run.product(name).view(flow=True).tobytes()


def test_each_stage_runs_on_its_own_workers_and_the_numbers_are_the_local_ones(desk: Desk, flow: Path) -> None:
    local = cenote.load(flow, backend="local").run(desk.folder / "local", workers=1)
    run = cenote.load(flow).run(desk.folder / "dask")
    assert bits(run) == bits(local)
    assert workers_per_stage(run) == {
        "BuildIndex": {"high_memory"},
        "RunInference": {"gpu"},
        "MuonPt": {"default"},
    }
    for stage in run.summary["stages"]:
        assert sum(stage["pools"].values()) == 6
    logs = {path.name for path in (desk.folder / "dask" / "debug" / "distributed" / "err").iterdir()}
    assert {"default-1", "high_memory-1", "gpu-1"} <= logs


def test_workers_may_be_killed_again_and_again_without_changing_the_result(desk: Desk, flow: Path) -> None:
    local = cenote.load(flow, backend="local").run(desk.folder / "local", workers=1)
    slow = ["analysis.stages.BuildIndex.params={seconds: 0.3}"]
    killed: list[int] = []
    over = threading.Event()

    def kill_now_and_then() -> None:
        while not over.wait(0.7):
            alive = [worker for worker in _workers_of(os.getpid()) if worker not in killed]
            if alive and len(killed) < 6:
                killed.append(alive[len(killed) % len(alive)])
                os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill_now_and_then)
    killer.start()
    try:
        run = cenote.load(flow, sets=slow).run(desk.folder / "dask")
    finally:
        over.set()
        killer.join()
    assert killed
    assert bits(run) == bits(local)
    assert any(isinstance(event, WorkerLost) for event in read_events(desk.folder / "dask"))


def test_without_a_gpu_worker_and_without_fallback_the_queue_timeout_ends_it_with_that_reason(
    desk: Desk, flow: Path
) -> None:
    sets = ["execution.pools.gpu={workers: 0, queue_timeout: 2s}"]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out", keep_going=True)
    assert run.status == "failed"
    assert run.exit_code == 21
    assert "gpu" in run.failures[0]["message"]
    done = {stage["id"]: stage["done"] for stage in run.summary["stages"]}
    assert done == {"BuildIndex": 6, "RunInference": 0, "MuonPt": 0}


def test_with_a_fallback_it_completes_elsewhere_and_the_reason_is_recorded(desk: Desk, flow: Path) -> None:
    sets = [
        "execution.pools.gpu={workers: 0, queue_timeout: 2h}",
        "analysis.stages.RunInference.execution={require: null, prefer: gpu, fallback: default}",
    ]
    local = cenote.load(flow, backend="local").run(desk.folder / "local", workers=1)
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert bits(run) == bits(local)
    assert workers_per_stage(run)["RunInference"] == {"default"}
    (fallback, *_) = run.summary["fallbacks"]
    assert (fallback["stage"], fallback["from"], fallback["to"]) == ("RunInference", "gpu", "default")
    assert fallback["reason"]


def test_a_task_beyond_its_memory_moves_to_the_larger_pool_and_the_users_error_does_not(desk: Desk, flow: Path) -> None:
    stages = (
        "analysis.stages=[{id: Greedy, op: custom.greedy, params: {megabytes: 900},"
        " execution: {prefer: default, fallback: high_memory}},"
        "{id: H, op: hep.hist, render: [], params: {axes: [{name: x, type: regular, source: sum,"
        " bins: {nbins: 4, low: 0, high: 9}}]}}]"
    )
    pools = (
        "execution.pools={default: {workers: 1, resources: {memory: 700MB}, fallback_when: {oom: true}},"
        " high_memory: {workers: 1, resources: {memory: 4GB}}}"
    )
    chunks = "sources={events: {kind: root_tree, chunk_size: 3000}}"
    run = cenote.load(flow, sets=[stages, pools, chunks]).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    assert workers_per_stage(run)["Greedy"] == {"high_memory"}
    assert "memory" in run.summary["fallbacks"][0]["reason"]

    wrong = stages.replace("custom.greedy, params: {megabytes: 900}", "custom.picky").replace(
        "source: sum", "source: never"
    )
    failed = cenote.load(flow, sets=[wrong, pools, chunks]).run(desk.folder / "wrong")
    assert failed.status == "failed"
    assert failed.exit_code == 20
    assert failed.summary["fallbacks"] == []
    assert "this is my own mistake" in failed.failures[0]["message"]


def test_a_stage_that_asks_for_more_than_this_machine_has_runs_with_what_is_there(desk: Desk, flow: Path) -> None:
    text = flow.read_text().partition("  pools:")[0].replace("require: high_memory", "").replace("require: gpu", "")
    asked = "resources: {cpus: 1000, memory: 500TB, gpus: 100, disk: 900TB}"
    flow.write_text(text.replace("- id: MuonPt", f"- id: MuonPt\n      execution: {{{asked}}}"))
    local = cenote.load(flow, backend="local").run(desk.folder / "local", workers=1)
    assert bits(cenote.load(flow).run(desk.folder / "dask")) == bits(local)


def test_a_worker_with_four_slots_runs_four_tasks_at_once(desk: Desk, flow: Path) -> None:
    sets = [
        "execution.pools={default: {workers: 1, slots: 4, resources: {cpus: 4}}}",
        "analysis.stages=[{id: BuildIndex, op: custom.index, params: {seconds: 0.5}}]",
    ]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    running: set[int] = set()
    most = 0
    for event in read_events(desk.folder / "out"):
        if isinstance(event, TaskStarted):
            running.add(event.task)
        elif isinstance(event, TaskDone):
            running.discard(event.task)
        most = max(most, len(running))
    assert most == 4
    assert {event.worker for event in read_events(desk.folder / "out") if isinstance(event, WorkerJoined)} == {
        "default-1"
    }


def test_an_elastic_pool_grows_from_nothing_and_shrinks_to_nothing(desk: Desk, flow: Path) -> None:
    sets = [
        "execution.pools={high_memory: null, gpu: {elastic: {min: 0, max: 3, idle_time: 1s, resize_period: 1s}}}",
        (
            "analysis.stages=[{id: Fast, op: custom.index, params: {seconds: 0.5}, execution: {require: gpu}},"
            "{id: Slow, op: custom.index, params: {seconds: 1.5}}]"
        ),
    ]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    there: set[str] = set()  # not a number: a worker may be lost before it joins
    most = 0
    for event in read_events(desk.folder / "out"):
        if isinstance(event, WorkerJoined | WorkerLost) and event.pool == "gpu":
            (there.add if isinstance(event, WorkerJoined) else there.discard)(event.worker)
            most = max(most, len(there))
    assert 1 <= most <= 3
    assert not there


def test_what_workers_say_is_kept_and_the_last_lines_of_one_that_died_are_in_the_error(desk: Desk, flow: Path) -> None:
    sets = [
        "execution.pools={high_memory: null, gpu: null, default: {workers: 1}}",
        f"analysis.stages=[{{id: Fragile, op: custom.fragile, params: {{marker: {desk.folder / 'died'}}}}}]",
    ]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    (failed,) = [event for event in read_events(desk.folder / "out") if isinstance(event, TaskFailed)]
    assert "its worker default-1 was lost: it was killed by SIGKILL" in failed.failure.message
    assert "something is about to break" in failed.failure.message
    debug = desk.folder / "out" / "debug" / "distributed"
    assert (debug / "out" / "default-1").read_text() == "said aloud\n"
    assert (debug / "err" / "default-1").read_text() == "something is about to break\n"
    assert "mine: written down" in (debug / "logs" / "default-1").read_text()
    assert "default-2 begins" in (debug / "logs" / "default-2").read_text()


def test_a_worker_whose_node_cannot_import_a_plugin_is_replaced_and_says_what_is_missing(
    desk: Desk, flow: Path
) -> None:
    desk.write(
        "picky.py",
        f"""
        import os, sys
        if "worker/process/start" in sys.argv[0] and not os.path.exists({str(desk.folder / "seen")!r}):
            open({str(desk.folder / "seen")!r}, "w").close()
            import installed_on_some_nodes_only
        """,
    )
    sets = ["execution.pools={high_memory: {workers: 1}, gpu: {workers: 1}, default: {workers: 1}}"]
    run = cenote.load(flow, sets=[*sets, "plugins=[ops.py, picky.py]"]).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    lost = [event.log for event in read_events(desk.folder / "out") if isinstance(event, WorkerLost) and event.log]
    assert lost[0].startswith("this worker cannot run the tasks: ")
    assert "picky.py:5:1: plugin file picky.py fails: ModuleNotFoundError" in lost[0]
    assert "No module named 'installed_on_some_nodes_only'" in lost[0]


def test_merges_run_on_the_pool_called_merge_and_a_stage_of_the_whole_run_on_a_worker_of_its_pool(
    desk: Desk, flow: Path
) -> None:
    desk.write(
        "whole.py",
        """
        import os
        from cenote import operation

        @operation("custom.whole", scope="run", reads=["MET_pt"], product="object")
        def whole(events):
            return os.getpid()
        """,
    )
    stages = (
        "analysis.stages=[{id: Whole, op: custom.whole, execution: {require: gpu}},"
        "{id: H, op: hep.hist, render: [], params: {axes: [{name: x, type: regular, source: MET_pt,"
        " bins: {nbins: 4, low: 0, high: 9}}]}}]"
    )
    sets = [
        "plugins=[ops.py, whole.py]",
        "execution.pools={high_memory: null, default: {workers: 1}, gpu: {workers: 1}, merge: {workers: 1}}",
        stages,
    ]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out")
    assert run.status == "succeeded", str(run.failures)
    tasks = {pool["name"]: pool["tasks"] for pool in run.summary["pools"]}
    assert tasks == {"default": 6, "gpu": 1, "merge": run.summary["merges"]["total"]}
    assert tasks["merge"] > 0
    assert workers_per_stage(run)["Whole"] == {"gpu"}
    assert run.product("Whole") != os.getpid()
