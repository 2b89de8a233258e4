"""Small partitions are sent together, and each is still a task of its own: named, counted, and not done twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import uproot

import cenote
from cenote.engine.messages import TaskDone, TaskStarted
from cenote.execution.backends.local import processes
from cenote.execution.runs.journal import read_events

from ..conftest import Desk

OPS = """
    import os
    from cenote import operation

    @operation("custom.die_at", reads=["MET_pt"], adds=["alive"])
    def die_at(events, *, value: float = -1.0):
        if (events["MET_pt"] == value).any():
            os.kill(os.getpid(), 9)
        return {"alive": events["MET_pt"]}
"""

FLOW = """
    plugins: [ops.py]
    data: {datasets: [{name: d, files: ["a.root"]}]}
    sources: {events: {kind: root_tree, chunk_size: 10}}
    analysis:
      stages:
        - {id: Die, op: custom.die_at, params: {}}
        - id: H
          op: hep.hist
          render: []
          params: {axes: [{name: x, type: regular, source: alive, bins: {nbins: 20, low: 0, high: 200}}]}
"""


@pytest.fixture
def flow(desk: Desk) -> Path:
    desk.muons("a.root", events=2000)
    desk.write("ops.py", OPS)
    return desk.write("flow.yaml", FLOW)


def test_each_partition_is_done_once_and_the_numbers_are_those_of_one_process(
    desk: Desk, flow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    taken = processes.SlotTable.take_more

    def counted(table: processes.SlotTable, *arguments: object) -> object:
        others = taken(table, *arguments)  # type: ignore[arg-type]
        sent.append(1 + len(others))
        return others

    with monkeypatch.context() as patched:
        patched.setattr(processes.SlotTable, "take_more", counted)
        run = cenote.load(flow).run(desk.folder / "together", workers=2)
    alone = cenote.load(flow).run(desk.folder / "alone", workers=1)

    events = list(read_events(run.folder))
    done = Counter(event.task for event in events if isinstance(event, TaskDone))
    assert done.total() == len(done) == run.summary["tasks"]["done"]
    assert {event.task for event in events if isinstance(event, TaskStarted)} == set(done)
    assert sum(sent) == len(done)
    assert len(sent) < len(done), "some of them went together"
    assert run.product("H").view(flow=True).tobytes() == alone.product("H").view(flow=True).tobytes()


def test_a_partition_that_kills_its_process_is_named_and_the_others_are_done(desk: Desk, flow: Path) -> None:
    value = float(uproot.open({desk.folder / "a.root": "events"})["MET_pt"].array(library="np")[1234])
    sets = [f"analysis.stages.Die.params={{value: {value!r}}}"]
    run = cenote.load(flow, sets=sets).run(desk.folder / "out", workers=2, keep_going=True)
    assert run.status == "partial"
    (failure,) = [one for one in run.summary["failures"] if one["stage"] == "Die"]
    assert failure["entries"] == [1230, 1240]
    assert "SIGKILL" in failure["message"]
    done = Counter(event.task for event in read_events(run.folder) if isinstance(event, TaskDone))
    assert set(done.values()) == {1}, "what was not begun went to others, what was done is not done again"
    whole = cenote.load(flow).run(desk.folder / "whole", workers=1)
    assert run.product("H").sum(flow=True) == whole.product("H").sum(flow=True) - 10
