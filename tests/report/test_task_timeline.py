"""Test the rows of tasks in the report: who ran what, when, and how very many stay readable."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from cenote.engine.messages import (
    AnyEvent,
    FailureInfo,
    FellBack,
    RunFinished,
    RunStarted,
    TaskDone,
    TaskFailed,
    TaskStarted,
)
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.view.task_names import TaskNames
from cenote.execution.runs.view.timeline import Timeline, read_timeline
from cenote.planning.record import InputFile, PartitionBlock, PlannedSegment, PlanRecord, TaskBlock
from cenote.report.render import render_part
from cenote.report.timeline import MOST_BARS, MOST_LANES, task_timeline

PLAN = PlanRecord(
    workflow="flow.yaml",
    segments=(
        PlannedSegment(0, "Index", ("Index",)),
        PlannedSegment(1, "Infer … MuonPt", ("Infer", "Select", "MuonPt")),
    ),
    task_blocks=(TaskBlock(2, 0, False), TaskBlock(2, 1, False), TaskBlock(1, 1, True)),
    input_files=(InputFile("dy", "events", "dy.root", [0, 500, 900]),),
    partition_blocks=(PartitionBlock(0, 0, 2), PartitionBlock(2, 0, 2)),
)


def ran(task: int, start: float, end: float, *, worker: str = "default-1", error: str | None = None) -> list[AnyEvent]:
    pool = worker.partition("-")[0]
    failure = FailureInfo(cause="error", message=error or "")
    ended: AnyEvent = TaskDone(at=end, task=task, pool=pool, worker=worker, seconds=end - start)
    if error is not None:
        ended = TaskFailed(at=end, task=task, pool=pool, worker=worker, seconds=end - start, failure=failure)
    return [TaskStarted(at=start, task=task, pool=pool, worker=worker), ended]


def a_journal(folder: Path, *events: AnyEvent, end: float = 10.0) -> RunFolder:
    begun = RunStarted(at=0.0, run="r", tasks=5)
    ordered = sorted(events, key=lambda event: event.at)
    lines = [begun, *ordered, RunFinished(at=end, status="succeeded", seconds=end)]
    run = RunFolder(folder)
    run.journal.write_bytes(b"\n".join(msgspec.json.encode(line) for line in lines) + b"\n")
    return run


def drawn(run: RunFolder, plan: PlanRecord = PLAN) -> str:
    return figure_of(read_timeline(run), plan)


def figure_of(work: Timeline, plan: PlanRecord) -> str:
    lanes = task_timeline(work, TaskNames(plan))
    assert lanes is not None
    return render_part("timeline.svg.j2", "of_tasks", work=lanes)


def bars(figure: str) -> list[str]:
    return re.findall(r"<rect .*?</rect>", figure, flags=re.DOTALL)


def test_a_bar_names_task_stages_partition_worker_and_time(tmp_path: Path) -> None:
    (bar,) = bars(drawn(a_journal(tmp_path, *ran(3, 2.0, 5.0))))
    for words in (
        "task 3: Infer … MuonPt",
        "dy, dy.root, events 500 to 900",
        "default-1 of pool default",
        "took 3.0 s",
    ):
        assert words in bar
    assert "lane1" in bar


def test_a_merge_has_no_partition(tmp_path: Path) -> None:
    (bar,) = bars(drawn(a_journal(tmp_path, *ran(4, 2.0, 5.0))))
    assert "task 4: merge" in bar
    assert "dy.root" not in bar


def test_tasks_that_run_at_once_on_a_worker_have_a_row_each(tmp_path: Path) -> None:
    events = [*ran(0, 0.0, 4.0), *ran(1, 1.0, 3.0), *ran(2, 4.0, 6.0), *ran(3, 3.0, 4.0, worker="gpu-1")]
    slots = read_timeline(a_journal(tmp_path, *events)).slots
    assert [(slot.worker, slot.slot, [span.task for span in slot.spans]) for slot in slots] == [
        ("default-1", 0, [0, 2]),
        ("default-1", 1, [1]),
        ("gpu-1", 0, [3]),
    ]


def test_what_failed_and_what_was_cut_off_are_marked(tmp_path: Path) -> None:
    cut = TaskStarted(at=6.0, task=1, pool="default", worker="default-1")
    moved = FellBack(at=6.0, stage="Index", task=None, tasks=2, from_pool="gpu", to_pool="default", reason="none")
    figure = drawn(a_journal(tmp_path, *ran(0, 0.0, 4.0, error="no <key>\nmore"), cut, moved))
    failed, open_end = bars(figure)
    assert "failed: no &lt;key&gt;" in failed
    assert "failed-task" in failed
    assert "its end was not reported" in open_end
    assert "cut-off" in open_end


def test_workers_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    events = [event for number in (10, 2, 1) for event in ran(number, 0.0, 4.0, worker=f"default-{number}")]
    slots = read_timeline(a_journal(tmp_path, *events)).slots
    assert [slot.worker for slot in slots] == ["default-1", "default-2", "default-10"]


@pytest.mark.parametrize("workers", [3, 200])
def test_twenty_thousand_tasks_are_joined_and_the_page_says_so(tmp_path: Path, workers: int) -> None:
    events: list[AnyEvent] = []
    for task in range(20_000):
        row = task // workers
        error = "no" if task == 777 else None
        events += ran(task, float(row), row + 0.9, worker=f"default-{task % workers}", error=error)
    figure = drawn(a_journal(tmp_path, *events, end=20_000 / workers))
    found = bars(figure)
    assert len(found) <= MOST_BARS + MOST_LANES
    assert "20,000 tasks, each in the slot" in figure
    assert "neighbours in a slot are drawn as one bar" in figure
    assert ("busy the longest are drawn, of 200" in figure) == (workers > MOST_LANES)
    assert len(figure) < 3_000_000
    if workers <= MOST_LANES:
        assert sum("failed-task" in bar for bar in found) == 1


def test_a_run_without_tasks_has_no_such_picture(tmp_path: Path) -> None:
    assert task_timeline(read_timeline(a_journal(tmp_path)), TaskNames(PLAN)) is None


def test_a_run_without_its_plan_names_less(tmp_path: Path) -> None:
    assert "task 3" in drawn(a_journal(tmp_path, *ran(3, 2.0, 5.0)), PlanRecord(workflow=""))
