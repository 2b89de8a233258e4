"""Local work begins in the driver, and goes to threads or processes where they pay."""

from __future__ import annotations

import textwrap
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cenote
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.engine.messages import TaskDone
from cenote.execution.backends.interface import SessionRequest
from cenote.execution.backends.local import backend, in_process, processes
from cenote.execution.runs.journal import read_events
from cenote.execution.worker.compiled_group import CompiledGroup
from cenote.execution.worker.compiled_programs import CompiledPrograms
from cenote.testing.muons import write_muons

FLOW = """
    data: {datasets: [{name: d, files: ["a.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 20}}
    analysis:
      stages:
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: MET_pt, bins: {nbins: 20, low: 0, high: 200}}]}
"""


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_muons(tmp_path / "a.root", events=2000, seed=1)
    file = tmp_path / "flow.yaml"
    file.write_text(textwrap.dedent(FLOW))
    return file


def forks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The processes that are started from now on."""
    started: list[str] = []
    start = processes.ProcessStarter.start

    def counted(starter: processes.ProcessStarter, name: str, shared: list[int]) -> object:
        started.append(name)
        return start(starter, name, shared)

    monkeypatch.setattr(processes.ProcessStarter, "start", counted)
    return started


def expecting(monkeypatch: pytest.MonkeyPatch, seconds: float, events: int) -> None:
    """Whatever there is to do looks like this."""
    opened = backend.LocalBackend.open

    def told(local: backend.LocalBackend, request: SessionRequest) -> object:
        work = replace(request.work, seconds=seconds, events=events)
        return opened(local, replace(request, work=work, cpus=2))

    monkeypatch.setattr(backend.LocalBackend, "open", told)


def test_little_work_starts_no_process(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = forks(monkeypatch)
    expecting(monkeypatch, seconds=0.1, events=2000)
    assert cenote.load(flow).run("out").status == "succeeded"
    assert started == []


def bits(run: cenote.Run) -> bytes:
    return bytes(run.product("H").view(flow=True).tobytes())


def tasks_done(run: cenote.Run) -> list[TaskDone]:
    """One for each task."""
    assert run.status == "succeeded", str(run.failures)
    done = [event for event in read_events(run.folder) if isinstance(event, TaskDone)]
    assert len(done) == len({event.task for event in done})
    return done


def test_much_work_of_other_kinds_goes_to_processes(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = cenote.load(flow).run("alone", workers=1)
    started = forks(monkeypatch)
    monkeypatch.setattr(in_process, "may_share_process", lambda _: False)
    expecting(monkeypatch, seconds=1e6, events=2000)  # each task looks long, so that none begins here
    run = cenote.load(flow).run("out")
    assert tasks_done(run)
    assert len(started) == 2
    assert bits(run) == bits(alone)


def test_compiled_work_goes_to_threads(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = cenote.load(flow).run("alone", workers=1)
    started = forks(monkeypatch)
    monkeypatch.setattr(CompiledGroup, "worth", 1)
    before = set(threading.enumerate())
    expecting(monkeypatch, seconds=1e6, events=2000)
    run = cenote.load(flow).run("out")
    first, *others = tasks_done(run)
    assert started == []
    assert first.peak_memory > 0
    assert {event.peak_memory for event in others} == {0}, "they shared the process: whose memory it was is not known"
    assert set(threading.enumerate()) == before
    assert bits(run) == bits(alone)


def test_what_cannot_be_compiled_after_all_goes_to_processes(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = forks(monkeypatch)
    monkeypatch.setattr(CompiledGroup, "worth", 1)
    monkeypatch.setattr(CompiledPrograms, "loop", lambda *_: None)
    expecting(monkeypatch, seconds=1e6, events=2000)
    assert tasks_done(cenote.load(flow).run("out"))
    assert len(started) == 2


def test_a_file_that_breaks_in_a_thread_fails_its_own_task(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path("a.root").read_bytes()
    for number in range(4):
        Path(f"b{number}.root").write_bytes(whole)
    monkeypatch.setattr(CompiledGroup, "worth", 1)
    expecting(monkeypatch, seconds=1e6, events=2000)
    read = RootTreeSource.read_placed

    def broken(source: RootTreeSource, url: str, *asked: Any) -> Any:
        if url.endswith("b2.root"):
            raise OSError("the disk is gone")
        return read(source, url, *asked)

    monkeypatch.setattr(RootTreeSource, "read_placed", broken)
    text = flow.read_text().replace("a.root", "b*.root").replace("chunk_size: 20", "chunk_size: 2000")
    flow.write_text(text)
    run = cenote.load(flow).run("out", keep_going=True)
    assert [Path(str(failure["file"])).name for failure in run.failures] == ["b2.root"]
    assert run.product("H").values(flow=True).sum() == 3 * 2000
