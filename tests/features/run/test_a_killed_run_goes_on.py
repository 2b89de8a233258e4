"""Kill the driver, a worker, or press Ctrl-C: nothing finished is lost or done again."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import cenote
from builders.processes import descendants, is_alive, parent_of, words_of
from cenote.engine.messages import TaskDone, TaskReused
from cenote.execution.runs.journal import read_events

from ..conftest import PATIENCE, Desk, wait_for

OPS = """
    import os, time
    from cenote import operation

    @operation("custom.slow", reads=["MET_pt"], adds=["slow"])
    def slow(events, *, seconds: float = 0.2):
        time.sleep(seconds)
        return {"slow": events["MET_pt"] * 2}

    @operation("custom.die_once", reads=["MET_pt"], adds=["alive"])
    def die_once(events, *, marker: str):
        if not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), 9)
        return {"alive": events["MET_pt"]}

    @operation("custom.die_always", reads=["MET_pt"], adds=["alive"])
    def die_always(events):
        os.kill(os.getpid(), 9)
"""

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["*.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 250}}
    analysis:
      stages:
        - {id: Slow, op: custom.slow, params: {seconds: 0.15}}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: slow, bins: {nbins: 20, low: 0, high: 200}}]}
          execution: {require: other}
    execution: {pools: {default: {workers: 2}, other: {workers: 1}}}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=5000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def done_tasks(folder: Path) -> list[int]:
    return [event.task for event in read_events(folder) if isinstance(event, TaskDone)]


def has_done(folder: Path, tasks: int) -> Callable[[], bool]:
    return lambda: (folder / "journal.jsonl").exists() and len(done_tasks(folder)) >= tasks


def test_after_kill_9_of_the_driver_a_resumed_run_repeats_nothing(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    with desk.started("run", str(flow), "--out", str(out), "--workers", "2", "--quiet") as process:
        wait_for(has_done(out, 5))
        process.kill()
    before = set(done_tasks(out))
    assert not (out / "summary.json").exists()

    resumed = cenote.load(flow).run(out, resume=True, workers=2)
    assert resumed.status == "succeeded"
    times_done = Counter(done_tasks(out))
    assert before
    assert all(times_done[task] == 1 for task in before), "a finished task was done again"
    reused = {event.task for event in read_events(out) if isinstance(event, TaskReused)}
    assert reused

    fresh = cenote.load(flow).run(desk.folder / "fresh", workers=1)
    assert resumed.product("H") == fresh.product("H")


def test_workers_end_when_their_driver_is_killed(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    with desk.started("run", str(flow), "--out", str(out), "--workers", "2", "--quiet") as process:
        wait_for(has_done(out, 2))
        children = descendants(process.pid)
        assert len(children) > 2, "a warm process, and what was forked from it"
        process.kill()
    wait_for(lambda: not any(is_alive(child) for child in children), seconds=10)


def test_workers_that_had_not_joined_when_their_driver_was_killed_end_soon(desk: Desk, flow: Path) -> None:
    with desk.started("run", str(flow), "--out", "out", "--quiet", "--backend", "dask") as process:
        found: list[int] = []

        def workers() -> list[int]:
            found[:] = [one for one in descendants(process.pid) if "--scheduler" in words_of(one)]
            return found

        wait_for(lambda: bool(workers()))
        process.kill()
    wait_for(lambda: not any(is_alive(worker) for worker in found), seconds=40)  # 15 s, and a busy machine


def test_ctrl_c_ends_cleanly_and_the_run_can_be_resumed(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    with desk.started("run", str(flow), "--out", str(out), "--workers", "2", "--quiet") as process:
        wait_for(has_done(out, 3))
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in output
    assert json.loads((out / "summary.json").read_text())["status"] == "cancelled"
    again = desk.cenote("run", str(flow), "--out", str(out), "--resume", "--quiet")
    assert again.returncode == 0, again.stderr
    assert cenote.open_run(out).status == "succeeded"


def test_a_worker_that_dies_is_replaced_and_its_task_done_elsewhere(desk: Desk, flow: Path) -> None:
    stages = (
        "analysis.stages=[{id: Die, op: custom.die_once, params: {marker: died}},"
        "{id: Alive, op: hep.hist, render: [], params: {axes: [{name: x, type: regular, source: alive,"
        " bins: {nbins: 4, low: 0, high: 100}}]}}]"
    )
    finished = desk.cenote("run", str(flow), "--out", "out", "--workers", "2", "--set", stages, "--quiet")
    assert finished.returncode == 0, finished.stderr
    summary = json.loads((desk.folder / "out" / "summary.json").read_text())
    assert summary["status"] == "succeeded"
    assert sum(stage["failed"] for stage in summary["stages"]) == 0


@pytest.mark.parametrize(("limits", "workers"), [([], 2), (["--set", "execution.limits.crashed=0"], 1)])
def test_a_task_that_crashes_its_worker_is_tried_again_as_the_limits_say(
    desk: Desk, flow: Path, limits: list[str], workers: int
) -> None:
    desk.write(
        "crash.py",
        """
        import ctypes
        from cenote import operation

        @operation("custom.crash", reads=["MET_pt"], adds=["alive"])
        def crash(events):
            ctypes.string_at(0)
        """,
    )
    stages = "analysis.stages=[{id: Crash, op: custom.crash, execution: {timeout: 1h}}]"
    finished = desk.cenote(
        *("run", str(flow), "--out", "out", "--workers", "1", "--set", stages, "--set", "plugins=[crash.py]", *limits)
    )
    assert finished.returncode == 21, finished.stdout + finished.stderr
    assert f"kills its worker: {workers} workers crashed while running it" in finished.stdout + finished.stderr
    assert "SIGSEGV" in finished.stdout + finished.stderr


def test_a_task_whose_workers_are_always_killed_fails_with_those_words(desk: Desk, flow: Path) -> None:
    stages = "analysis.stages=[{id: Die, op: custom.die_always, execution: {timeout: 1h}}]"
    finished = desk.cenote("run", str(flow), "--out", "out", "--workers", "2", "--set", stages)
    assert finished.returncode == 21, finished.stdout + finished.stderr
    assert "4 workers were lost while running it" in finished.stdout + finished.stderr
    assert "SIGKILL" in finished.stdout + finished.stderr


def test_every_event_in_the_journal_is_one_json_line(desk: Desk, flow: Path) -> None:
    cenote.load(flow).run(desk.folder / "out", workers=1)
    for line in (desk.folder / "out" / "journal.jsonl").read_bytes().splitlines():
        assert msgspec.json.decode(line)["type"]


def test_a_run_goes_on_when_the_process_that_its_workers_come_from_is_killed(desk: Desk, flow: Path) -> None:
    out = desk.folder / "out"
    with desk.started("run", str(flow), "--out", str(out), "--workers", "2", "--quiet") as process:
        wait_for(has_done(out, 2))
        (template,) = [
            one for one in descendants(process.pid) if "cenote.execution.worker.process.template" in words_of(one)
        ]
        workers = [one for one in descendants(template) if is_alive(one)]
        assert {parent_of(worker) for worker in workers} == {template}
        os.kill(template, signal.SIGKILL)
        assert process.wait(PATIENCE) == 0
    assert not any(is_alive(worker) for worker in workers)
    fresh = cenote.load(flow).run(desk.folder / "fresh", workers=1)
    assert cenote.open_run(out).product("H") == fresh.product("H")
