"""This file tests what people see while a run goes on."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from cenote.cli.progress import LiveTable, PlainLines, Silence, progress_line, progress_on
from cenote.cli.progress_table import shown_stages
from cenote.engine.messages import (
    FailureInfo,
    RunFinished,
    RunStarted,
    StageStats,
    TaskDone,
    TaskGivenUp,
    TaskStarted,
    WorkerJoined,
)
from cenote.runtime.run_facts import PoolFacts, RunFacts, SegmentFacts, StageFacts, TaskBlock
from cenote.runtime.run_view import RunView

TASKS = 20


def some_facts(stages: int = 1) -> RunFacts:
    return RunFacts(
        stages=tuple(StageFacts(f"Stage{number}", "hep.hist", number) for number in range(stages)),
        segments=tuple(SegmentFacts((f"Stage{number}",), ("default",), shared=False) for number in range(stages)),
        blocks=tuple(TaskBlock(TASKS, number, False) for number in range(stages)),
        pools=(PoolFacts("default", "local", 1, 2),),
        warnings=("no GPU here",),
    )


def a_view(*, done: int = 0, failed: int = 0, running: int = 0, stages: int = 1) -> RunView:
    """A run at one task per second, 1000 events each."""
    view = RunView(some_facts(stages))
    view.apply(RunStarted(at=0.0, run="r", plan_digest="", tasks=TASKS * stages))
    view.apply(WorkerJoined(at=0.0, worker="w", pool="default", slots=1))
    for task in range(done):
        stats = {"Stage0": StageStats(seconds=1.0, events_in=1000)}
        view.apply(TaskStarted(at=float(task), task=task, pool="default", worker="w"))
        view.apply(
            TaskDone(at=task + 1.0, task=task, pool="default", worker="w", seconds=1.0, events=1000, stages=stats)
        )
    for task in range(done, done + failed):
        failure = FailureInfo(cause="error", message="no")
        view.apply(TaskGivenUp(at=float(done), task=task, pool="default", worker="w", failure=failure))
    for task in range(done + failed, done + failed + running):
        view.apply(TaskStarted(at=float(done), task=task, pool="default", worker="w"))
    return view


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def a_console(*, terminal: bool, width: int = 80) -> tuple[Console, StringIO]:
    file = StringIO()
    return Console(file=file, force_terminal=terminal, width=width, highlight=False, markup=False), file


def test_a_line_says_how_far_how_long_and_how_fast() -> None:
    line = progress_line(a_view(done=5, failed=1, running=2))
    assert line == "   5.0 s  5 of 20 tasks (25 %), about 14s left, 2 running, 1 failed, 1000 events/s"


def test_plain_lines_come_at_the_start_each_tenth_and_every_few_seconds() -> None:
    console, file = a_console(terminal=False)
    clock = Clock()
    lines = PlainLines(console, clock)
    for clock.now, done in ((0.0, 0), (0.1, 1), (1.5, 1), (2.0, 2), (2.5, 4), (3.0, 4), (6.0, 4), (8.1, 4)):
        lines(a_view(done=done))
    told = file.getvalue().splitlines()
    assert told[0] == "warning: no GPU here"
    assert [line.split("of")[0].split()[-1] for line in told[1:]] == ["0", "2", "4", "4"]


def test_plain_lines_are_silent_after_the_end() -> None:
    console, file = a_console(terminal=False)
    view = a_view(done=20)
    view.apply(RunFinished(at=21.0, status="succeeded", seconds=21.0))
    PlainLines(console, Clock())(view)
    assert file.getvalue() == "warning: no GPU here\n"


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_table_shows_stages_pools_and_warnings(width: int) -> None:
    console, file = a_console(terminal=True, width=width)
    with LiveTable(console, "flow.yaml") as live:
        live.planning(1, 3)
        live(a_view(done=5, running=1))
    told = file.getvalue()
    for words in ("flow.yaml", "Stage0", "5/20", "1000/s", "15s", "default", "working", "no GPU here"):
        assert words in told
    assert all(len(line) <= width for line in told.replace("\x1b", "\n").splitlines())


def test_when_stages_do_not_fit_those_at_work_are_shown() -> None:
    stages = a_view(running=1, stages=50).stages
    assert len(shown_stages(stages, most=5)) == 5
    assert shown_stages(stages, most=5)[0].id == "Stage0"
    assert len(shown_stages(stages, most=50)) == 50


def test_the_console_decides_which_progress() -> None:
    assert isinstance(progress_on(a_console(terminal=True)[0]), LiveTable)
    assert isinstance(progress_on(a_console(terminal=False)[0]), PlainLines)
    assert type(progress_on(a_console(terminal=True)[0], quiet=True)) is Silence
