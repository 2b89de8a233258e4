"""A dataset may say how many of its events are read: `max_events`, which is not how many were generated."""

from __future__ import annotations

from pathlib import Path

import pytest

import cenote

from ..conftest import Desk

FLOW = """
    data: {datasets: [{name: d, files: ["*.root"], KEYS}]}
    sources: {events: {kind: root_tree, chunk_size: 200}}
    analysis:
      stages:
        - id: Count
          op: hep.hist
          params: {axes: [{name: n, source: 0 * MET_pt, type: integer, bins: [0, 1]}]}
          render: []
"""


@pytest.fixture
def files(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(desk.folder)
    desk.muons("a.root", events=1000)
    desk.muons("b.root", events=500)
    return desk


def flow(desk: Desk, keys: str) -> cenote.Analysis:
    return cenote.load(desk.write("flow.yaml", FLOW.replace("KEYS", keys)))


@pytest.mark.parametrize(
    ("keys", "read", "told"),
    [
        ("max_events: 1200", 1200, "flow.yaml:2:60: only the first 1,200 events of dataset 'd' are read"),
        ("max_events: 1500", 1500, None),
        (
            "nevents: 9000, max_events: 1200",
            1200,
            "flow.yaml:2:75: only the first 1,200 events of dataset 'd' are read",
        ),
        ("nevents: 1200, max_events: 9000", 1500, None),
        ("nevents: 1000", 1000, "if it is how many were generated, add `max_events`"),
        ("nevents: 9000", 1500, None),
    ],
)
def test_events_that_are_left_out_are_told(files: Desk, keys: str, read: int, told: str | None) -> None:
    run = flow(files, keys).run(Path("out"), workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert run.product("Count").values().tolist() == [read]
    warnings = [warning for warning in run.warnings if "only the first" in warning]
    assert len(warnings) == bool(told)
    assert all(warning.endswith(str(told)) for warning in warnings)


def test_check_tells_it_as_far_as_it_looks_at_files(files: Desk) -> None:
    [warning] = flow(files, "max_events: 600").check().warnings
    assert "only the first 600 events of dataset 'd' are read" in warning
