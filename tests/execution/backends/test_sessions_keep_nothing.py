"""A session on Dask keeps neither tasks that are done with nor what was said about them."""

from __future__ import annotations

import stat
import tempfile
import time
from pathlib import Path

import pytest

import cenote
from cenote.common.shell import start_process
from cenote.engine.messages import AnyEvent, TaskDone, WorkerJoined
from cenote.execution.backends.dask.backend import Dask
from cenote.execution.backends.dask.session import DaskSession
from cenote.execution.backends.interface import ExpectedWork, SessionRequest
from cenote.execution.environments.current import CurrentEnvironment
from cenote.execution.launch import LaunchingRun
from cenote.execution.runtime.task_specs import TaskSpecs, make_run_spec
from cenote.testing.muons import write_muons

FLOW = """
data: {datasets: [{name: d, files: [a.root]}]}
sources: {events: {kind: root_tree, chunk_size: 10}}
analysis:
  stages:
    - {id: Twice, op: define, params: {variables: [{name: twice, expr: "MET_pt * 2"}]}}
    - id: H
      op: hep.hist
      render: []
      params: {axes: [{name: x, type: regular, source: twice, bins: {nbins: 20, low: 0, high: 300}}]}
      execution: {require: other}
execution: {backend: dask, pools: {default: {workers: 1}, other: {workers: 1}}}
"""
TASKS = 30


@pytest.fixture
def request_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SessionRequest, TaskSpecs]:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    write_muons(tmp_path / "a.root", events=10 * TASKS)
    (tmp_path / "flow.yaml").write_text(FLOW)
    plan = cenote.load(tmp_path / "flow.yaml").plan()
    program = make_run_spec(plan, store=tmp_path / "store", files=tmp_path)
    return (
        SessionRequest(
            run=LaunchingRun("test", tmp_path),
            run_spec=program,
            pools=plan.placement.pools,
            store=tmp_path / "store",
            cpus=1,
            work=ExpectedWork(seconds=0.0, events=0),
            processes_asked=True,
            in_process=True,
            clock=time.time,
            complete=CurrentEnvironment().complete,
        ),
        TaskSpecs(plan),
    )


def until(session: DaskSession, kind: type, count: int) -> None:
    """Wait for so many events of a kind."""
    heard: list[AnyEvent] = []
    while sum(isinstance(event, kind) for event in heard) < count:
        heard += session.events(1.0)


def test_nothing_is_kept_of_results_that_nobody_reads_any_more(
    request_of: tuple[SessionRequest, TaskSpecs], tmp_path: Path
) -> None:
    request, envelopes = request_of
    session = Dask().open(request)
    assert isinstance(session, DaskSession)
    (tmp_path / "logs").mkdir()
    command, _ = request.complete(session.launch("default")).here("default-1")
    worker = start_process(command)
    try:
        until(session, WorkerJoined, 1)
        for task in range(TASKS):
            session.run(envelopes.write(task, attempt=1), "default")
        until(session, TaskDone, TASKS)
        scheduler = session._cluster.scheduler
        assert scheduler.tasks
        for task in range(TASKS):
            session.forget([*envelopes.bundles(task), *envelopes.names_of_events(task)])
        while scheduler.tasks or session._tasks._left:
            session.events(0.1)
        (comm,) = scheduler.stream_comms.values()
        assert len(comm.recent_message_log) <= 1
        assert all(len(topic.events) <= 1 for topic in scheduler._broker._topics.values())
    finally:
        session.close()
        worker.kill()
        worker.wait()


def test_a_folder_that_a_stranger_made_where_dask_would_keep_its_files_is_left_alone(
    request_of: tuple[SessionRequest, TaskSpecs], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, precious = tmp_path / "tmp", tmp_path / "thesis.tex"
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    precious.write_text("years of work")
    (place / "dask-scratch-space").mkdir(parents=True)
    for name in ("global.lock", "a.dirlock"):  # Dask opens them to write
        (place / "dask-scratch-space" / name).symlink_to(precious)
    session = Dask().open(request_of[0])
    try:
        (own,) = place.glob("cenote-*")
        assert stat.S_IMODE(own.stat().st_mode) == stat.S_IRWXU
    finally:
        session.close()
    assert precious.read_text() == "years of work"
    assert sorted(path.name for path in place.rglob("*")) == ["a.dirlock", "dask-scratch-space", "global.lock"]
