"""Test the `trace` modifier: what it writes is what Chrome and Perfetto read."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from cenote.analysis.modifiers.interface import FinishedRun, RanTask
from cenote.analysis.modifiers.trace import FILE, Trace, chrome_trace

from .conftest import Around


def ran(start: float, end: float, *, worker: str = "cpu-1", slot: int = 0, **more: Any) -> RanTask:
    return RanTask("A … B", "dy, f.root", worker.partition("-")[0], worker, slot, start, end, **more)


TASKS = [
    ran(0.0, 1.0, events=100, bytes_read=800, stages={"A": {"start": 0.25, "seconds": 0.25, "events": 100}}),
    ran(0.99, 2.0, stages={"A": {"start": 0.0, "seconds": 5.0}, "B": {"start": 0.1, "seconds": 0.1}}),
    ran(0.5, 1.5, slot=1),
    ran(0.0, 0.5, worker="gpu-1", failure="ValueError: no"),
]
"""Two of one slot seem to overlap, and notes of one do not fit together: clocks are coarse."""


def spans(entries: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        if entry["ph"] == "X":
            found[entry["pid"], entry["tid"]].append(entry)
    return found


def test_pools_are_processes_and_slots_are_threads() -> None:
    names = [(e["name"], e["pid"], e["args"]["name"]) for e in chrome_trace(TASKS) if e["ph"] == "M"]
    assert names == [
        ("process_name", 1, "pool cpu"),
        ("thread_name", 1, "cpu-1"),
        ("thread_name", 1, "cpu-1, slot 2"),
        ("process_name", 2, "pool gpu"),
        ("thread_name", 2, "gpu-1"),
    ]


def test_in_a_thread_tasks_do_not_overlap_and_stages_lie_within_them() -> None:
    lanes = spans(list(chrome_trace(TASKS)))
    assert len(lanes) == 3
    for lane in lanes.values():
        assert all(entry["ts"] >= 0 and entry["dur"] >= 0 for entry in lane)
        tasks = [entry for entry in lane if entry["cat"] != "stage"]
        for one, other in pairwise(tasks):
            assert one["ts"] + one["dur"] <= other["ts"]
        end = task_end = 0
        for entry in lane:
            if entry["cat"] == "stage":
                assert end <= entry["ts"] <= entry["ts"] + entry["dur"] <= task_end
                end = entry["ts"] + entry["dur"]
            else:
                end, task_end = entry["ts"], entry["ts"] + entry["dur"]


def test_times_are_microseconds_and_spans_say_what_they_took() -> None:
    task, stage = [entry for entry in chrome_trace(TASKS) if entry["ph"] == "X"][:2]
    assert (task["ts"], task["dur"]) == (0, 1_000_000)
    assert task["args"] == {"partition": "dy, f.root", "events": 100, "bytes read": 800}
    assert (stage["name"], stage["ts"], stage["dur"], stage["args"]) == ("A", 250_000, 250_000, {"events": 100})


def test_failures_are_marked() -> None:
    (failed,) = [entry for entry in chrome_trace(TASKS) if entry.get("cat") == "failed"]
    assert failed["name"] == "failed: A … B"
    assert failed["args"]["failure"] == "ValueError: no"


def test_the_run_ends_with_one_file(tmp_path: Path) -> None:
    written: dict[str, str] = {}
    Trace().conclude(FinishedRun("flow.yaml", {}, tmp_path, tasks=lambda: TASKS, write=written.__setitem__))
    assert list(written) == [FILE]
    assert len(json.loads(written[FILE])["traceEvents"]) == 5 + 4 + 3


def test_a_call_is_noted_with_when_it_was(around: Around) -> None:
    times = iter([1.5, 2.25])
    assert around(Trace(), seconds=lambda: next(times)).measured.values == {"start": 1.5, "seconds": 0.75, "events": 60}
