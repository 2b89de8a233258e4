"""Test what people see while a run goes on."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from cenote.cli.views.progress.live import (
    LiveTable,
    PlainLines,
    pool_rows,
    progress_line,
    progress_on,
    shown_stages,
    stage_rows,
)
from cenote.cli.views.progress.silence import Silence
from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.engine.messages import (
    FailureInfo,
    PoolChanged,
    RunFinished,
    RunStarted,
    StageStats,
    TaskDone,
    TaskGivenUp,
    TaskStarted,
    Tick,
    WhyRow,
    WorkerJoined,
    WorkerRequested,
)
from cenote.engine.scaling import PoolState
from cenote.execution.runs.changed.code import lines_of_why
from cenote.execution.runs.view.view import RunView
from cenote.planning.record import GrantedPool, PlannedPool, PlannedSegment, PlannedStage, PlanRecord, TaskBlock

TASKS = 20


def some_record(stages: int = 1) -> PlanRecord:
    return PlanRecord(
        workflow="flow.yaml",
        stages=tuple(PlannedStage(f"Stage{number}", "hep.hist", segment=number) for number in range(stages)),
        segments=tuple(PlannedSegment(n, stages=(f"Stage{n}",), pools=("default",)) for n in range(stages)),
        task_blocks=tuple(TaskBlock(TASKS, number, False) for number in range(stages)),
        pools=(PlannedPool("default", "local", granted=GrantedPool(workers=2)),),
        warnings=("no GPU here",),
    )


def a_view(*, done: int = 0, failed: int = 0, running: int = 0, stages: int = 1) -> RunView:
    """A run at one task per second, 1000 events each."""
    view = RunView(some_record(stages))
    view.apply(RunStarted(at=0.0, run="r", tasks=TASKS * stages))
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


@pytest.mark.parametrize("width", [40, 60, 80])
def test_names_of_stages_and_pools_stay_where_it_is_narrow(width: int) -> None:
    console, file = a_console(terminal=False, width=width)
    view = a_view(done=5, running=1, failed=1)
    console.print(stage_rows(view, most=9))
    console.print(pool_rows(view))
    told = file.getvalue()
    for words in ("Stage0 ", "5/20", "default ", "working"):
        assert words in told
    assert "…" not in told
    assert all(len(line) <= width for line in told.splitlines())


def test_a_long_name_is_cut_and_never_gone() -> None:
    console, file = a_console(terminal=False, width=40)
    table = FittedTable([TableColumn("stage"), TableColumn("done", rank=1), TableColumn("memory", rank=2)])
    table.add_row(name("AVeryLongNameOfAStageThatGoesOnAndOn"), "12,000/20,000", "1.2 GB")
    console.print(table)
    row = file.getvalue().splitlines()[1]
    assert row.startswith("AVeryLongNameOfASta")
    assert row.endswith(("12,000/20,000", "1.2 GB"))


def a_run_that_waits() -> RunView:
    """A worker was asked for long ago and has not come."""
    view = RunView(some_record())
    view.apply(RunStarted(at=0.0, run="r", tasks=TASKS))
    view.apply(PoolChanged(at=0.0, pool="default", state=PoolState.FULLY_DISPATCHED))
    view.apply(WorkerRequested(at=0.0, pool="default", worker="default-1", job="17"))
    view.apply(Tick(at=60.0))
    return view


WHY = "Stage0 waits for pool 'default': 0 of 2 workers, 1 requested and not joined yet"


def test_a_pool_is_shown_with_its_state_and_workers_there_wanted_and_requested() -> None:
    console, file = a_console(terminal=False)
    console.print(pool_rows(a_run_that_waits()))
    header, row = file.getvalue().splitlines()
    assert header.split() == ["pool", "state", "workers", "requested", "lost", "running", "done", "left"]
    assert row.split() == ["default", "all", "workers", "starting", "0/2", "1", "0", "0"]


def test_a_stage_that_waits_says_why_in_the_table_and_in_plain_lines() -> None:
    console, file = a_console(terminal=True, width=120)
    with LiveTable(console, "flow.yaml") as live:
        live(a_run_that_waits())
    assert WHY in file.getvalue()
    console, file = a_console(terminal=False)
    PlainLines(console, Clock())(a_run_that_waits())
    assert WHY in file.getvalue()


def test_when_stages_do_not_fit_those_at_work_are_shown() -> None:
    stages = a_view(running=1, stages=50).stages
    assert len(shown_stages(stages, most=5)) == 5
    assert shown_stages(stages, most=5)[0].id == "Stage0"
    assert len(shown_stages(stages, most=50)) == 50


def test_the_console_decides_which_progress() -> None:
    assert isinstance(progress_on(a_console(terminal=True)[0]), LiveTable)
    assert isinstance(progress_on(a_console(terminal=False)[0]), PlainLines)
    assert type(progress_on(a_console(terminal=True)[0], quiet=True)) is Silence


AGAIN = (
    WhyRow("Stage0", 12, 24, ('Stage0: cut changed, "pt > 20" → "pt > 25"', "numpy 2.4 → 2.5")),
    WhyRow("Stage1", 36, 0, ('Stage0: cut changed, "pt > 20" → "pt > 25"', "numpy 2.4 → 2.5")),
    WhyRow("Stage2", 1, 0, ("[b.root] is new", "two", "three", "four")),
)
SAID = """\
Stage0: 12 of 36 tasks run: cut changed, "pt > 20" → "pt > 25"; numpy 2.4 → 2.5
Stage1: 36 tasks run: as Stage0
Stage2: 1 task runs: [b.root] is new; two; three; and 1 more
"""


@pytest.mark.parametrize("terminal", [False, True])
def test_why_stages_run_again_is_said_once_before_the_first_line(terminal: bool) -> None:
    console = Console(file=StringIO(), width=120, force_terminal=terminal, color_system=None, markup=False)
    view = RunView(some_record(3))
    with progress_on(console, title="flow") as progress:
        view.apply(RunStarted(at=0.0, run="r", tasks=60, resumed=True, why=AGAIN))
        progress(view)
        view.apply(TaskStarted(at=1.0, task=0, pool="default", worker="w"))
        progress(view)
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().count("cut changed") == 1
    assert all(line in console.file.getvalue() for line in SAID.splitlines())
    assert view.summary().why == AGAIN


def test_variations_that_run_for_the_same_cause_have_no_line_of_their_own() -> None:
    planned = [PlannedStage("Mass"), *(PlannedStage(name, variation_of="Mass") for name in ("Mass_up", "Mass_down"))]
    rows = [WhyRow("Mass", 2, 0, ("x",)), WhyRow("Mass_up", 2, 0, ("x",)), WhyRow("Mass_down", 2, 0, ("y",))]
    assert lines_of_why(rows, planned) == ["Mass × 1 variation: 2 tasks run: x", "Mass_down: 2 tasks run: y"]


def test_of_many_stages_that_run_again_the_first_are_said() -> None:
    rows = [WhyRow(f"S{number}", 1, 0, (str(number),)) for number in range(100)]
    lines = lines_of_why(rows, ())
    assert len(lines) == 13
    assert lines[-1] == "… and 88 more stages"
