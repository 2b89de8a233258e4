"""Local work begins in the driver, and goes to processes where they pay."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

import cenote
from cenote.backends.interface import SessionRequest
from cenote.backends.local import backend, processes
from cenote.engine.messages import TaskDone
from cenote.runs.journal import read_events
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


def test_much_work_goes_to_processes_and_the_numbers_are_the_same(flow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = cenote.load(flow).run("alone", workers=1)
    started = forks(monkeypatch)
    expecting(monkeypatch, seconds=1e6, events=2000)  # each task looks long, so that none begins here
    run = cenote.load(flow).run("out")
    assert run.status == "succeeded"
    assert len(started) == 2
    done = [event.task for event in read_events(run.folder) if isinstance(event, TaskDone)]
    assert len(done) == len(set(done))
    assert run.product("H").view(flow=True).tobytes() == alone.product("H").view(flow=True).tobytes()
