"""Follow a run for people: a live table on a terminal, a line elsewhere, packing, one line in notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Self, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cenote.cli.console import print_lines
from cenote.cli.views.problems import show_warnings
from cenote.cli.views.progress.silence import Shown, Silence
from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.common.text import format_estimate, format_rate, plural
from cenote.common.units import format_bytes, format_seconds
from cenote.engine.messages import WhyRow
from cenote.execution.packing.archive import PackingStep
from cenote.execution.runs.changed.code import lines_of_why
from cenote.execution.runs.explain import waiting_in_words
from cenote.execution.runs.summary import StageRecord
from cenote.execution.runs.view.pool_words import pool_word
from cenote.execution.runs.view.task_names import stages_for_people
from cenote.execution.runs.view.view import RunView

# Show how far the packing of an environment is: a bar on a terminal, a line now and then elsewhere.


_LINE_EVERY = 5.0
"""Seconds between two lines about the same."""


def packing_line(step: PackingStep) -> str:
    """`packed-conda: compressing, 120 MB of 467 MB`."""
    return step.what + (f", {format_bytes(step.done)} of {format_bytes(step.total)}" if step.total else "")


def packing_bar(title: str, step: PackingStep) -> RenderableType:
    """The same for a terminal."""
    words = Text.assemble((f"{title} ", "bold"), packing_line(step), no_wrap=True, overflow="ellipsis")
    table = Table.grid(padding=(0, 2, 0, 0))
    bar = (ProgressBar(total=step.total, completed=step.done, width=24),) if step.total else ()
    table.add_row(words, *bar)
    return table


class PackingLines:
    """Where nothing can be drawn anew: a line for what begins, and now and then for what takes long."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._what, self._last = "", 0.0

    def __call__(self, step: PackingStep) -> None:
        """Perhaps print it."""
        if step.what != self._what or self._clock() - self._last >= _LINE_EVERY:
            self._what, self._last = step.what, self._clock()
            self._console.print(packing_line(step), soft_wrap=True)


# Lay out a run's state in rows: stages with bars and rates, pools with their workers, warnings.


MOST_WARNINGS = 3
STATE_STYLES = {
    **dict.fromkeys(("working", "PartiallyExecuting", "FullyExecuting"), "green"),
    **dict.fromkeys(("no worker yet", "Submitted", "PartiallyDispatched", "FullyDispatched"), "yellow"),
    **dict.fromkeys(("workers lost", "Failure"), "red"),
    **dict.fromkeys(("waiting", "idle", "done", "Closing", "Closed"), "dim"),
}
_STAGE_COLUMNS = (
    TableColumn("stage"),
    TableColumn("", rank=4),
    TableColumn("done", rank=1, right=True),
    TableColumn("running", rank=3, right=True),
    TableColumn("failed", rank=2, right=True),
    TableColumn("events", rank=6, right=True),
    TableColumn("left", rank=5, right=True),
    TableColumn("memory", rank=7, right=True),
)
_POOL_COLUMNS = (
    TableColumn("pool"),
    TableColumn("state", rank=1),
    TableColumn("workers", rank=2, right=True),
    TableColumn("requested", rank=5, right=True),
    TableColumn("lost", rank=4, right=True),
    TableColumn("running", rank=3, right=True),
    TableColumn("done", rank=6, right=True),
    TableColumn("left", rank=7, right=True),
)


def stage_rows(view: RunView, *, most: int) -> FittedTable:
    """Stages with how far, how fast and how long; the ones at work come first when not all fit."""
    table = FittedTable(_STAGE_COLUMNS)
    rows = stages_for_people(view.stages)
    shown = {stage.id for stage in shown_stages([stage for _, stage in rows], most=most)}
    for words, stage in [row for row in rows if row[1].id in shown]:
        table.add_row(
            name(words, style="bold" if stage.running else ""),
            ProgressBar(total=max(1, stage.tasks), completed=stage.done + stage.failed, width=12),
            f"{stage.done:,}/{stage.tasks:,}",
            f"{stage.running or ''}",
            Text(f"{stage.failed or ''}", style="red"),
            format_rate(stage.rate),
            format_estimate(stage.time_left),
            format_bytes(stage.peak_memory) if stage.peak_memory else "",
        )
    if len(shown) < len(rows):
        table.add_row(name(f"… {plural(len(rows) - len(shown), 'more stage')}", style="dim"))
    return table


def shown_stages(stages: Sequence[StageRecord], *, most: int) -> list[StageRecord]:
    """All if they fit; else those at work, then those with failures, then those to come, in their order."""
    if len(stages) <= most:
        return list(stages)
    ranked = sorted(stages, key=lambda s: (not s.running, not s.failed, s.done == s.tasks))[: max(1, most)]
    chosen = {stage.id for stage in ranked}
    return [stage for stage in stages if stage.id in chosen]


def pool_rows(view: RunView) -> FittedTable:
    """Pools with what they are doing and their workers: how many are there of as many as there may be, or came."""
    table = FittedTable(_POOL_COLUMNS)
    wanted = {pool.name: pool.most_workers for pool in view.plan.pools}
    for pool in view.pools:
        table.add_row(
            name(pool.name),
            Text(pool_word(pool.state).short, style=STATE_STYLES.get(pool.state, "")),
            f"{pool.workers_started}" if view.finished else f"{pool.workers}/{wanted[pool.name]}",
            f"{pool.awaited or ''}",
            Text(f"{pool.workers_lost or ''}", style="red"),
            f"{pool.running}/{pool.workers * pool.slots}" if pool.workers else f"{pool.running}",
            f"{pool.tasks:,}",
            format_estimate(pool.time_left),
        )
    return table


def waiting_lines(view: RunView) -> list[Text]:
    """Why stages wait that have waited for more than a moment."""
    return [Text(line, style="yellow", overflow="ellipsis", no_wrap=True) for line in waiting_in_words(view)]


def warning_lines(view: RunView) -> list[Text]:
    """The latest few warnings."""
    latest = view.warnings[-MOST_WARNINGS:]
    lines = [Text.assemble(("warning: ", "yellow"), warning, overflow="ellipsis", no_wrap=True) for warning in latest]
    if len(latest) < len(view.warnings):
        lines.insert(0, Text(f"… {len(view.warnings) - len(latest)} more warnings", style="dim"))
    return lines


LINE_EVERY = 5.0
"""Seconds between plain lines, unless a tenth of the work went by sooner."""
LINE_APART = 1.0
"""Seconds between plain lines at the least."""


class LiveProgress(Silence[Shown]):
    """Something on a terminal that is redrawn in place."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._live = Live(console=console, refresh_per_second=5, transient=True)

    def planning(self, done: int, files: int) -> None:
        """Shown until the first news."""
        self._live.update(Text.assemble((f"{self._title} ", "bold"), planning_line(done, files)))

    def packing(self, step: PackingStep) -> None:
        """Shown until the next news."""
        self._live.update(packing_bar(self._title, step))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def is_live(console: Console) -> bool:
    """Whether lines can be drawn anew there."""
    return console.is_terminal and not console.is_dumb_terminal


def progress_on(console: Console, *, quiet: bool = False, title: str = "") -> Silence[RunView]:
    """The kind of progress that suits this console."""
    if quiet:
        return Silence()
    return LiveTable(console, title) if is_live(console) else PlainLines(console)


class PlainLines(Silence[RunView]):
    """A line at the start, and every few seconds or tenth of the work."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._last = clock()
        self._tenth = -1
        self._warned = 0
        self._packing = PackingLines(console, clock)
        self._why = Reasons(console)

    def __call__(self, view: RunView) -> None:
        self._why(view)
        for warning in view.warnings[self._warned :]:
            self._console.print(f"warning: {warning}", soft_wrap=True)
        self._warned = len(view.warnings)
        tasks = view.tasks
        tenth = 10 * tasks.done // max(1, tasks.total)
        since = self._clock() - self._last
        due = self._tenth < 0 or (tenth > self._tenth and since >= LINE_APART) or since >= LINE_EVERY
        if due and view.started is not None and not view.finished:
            self._console.print(progress_line(view), soft_wrap=True)
            for line in waiting_in_words(view):
                self._console.print(f"          {line}", soft_wrap=True)
            self._last, self._tenth = self._clock(), tenth

    def planning(self, done: int, files: int) -> None:
        """Only when it takes long: most workflows have few files."""
        if self._clock() - self._last >= LINE_EVERY:
            self._console.print(planning_line(done, files))
            self._last = self._clock()

    def packing(self, step: PackingStep) -> None:
        """It takes long."""
        self._packing(step)


def planning_line(done: int, files: int) -> str:
    """What is in progress before the first task."""
    return f"reading input metadata: {done:,} of {plural(files, 'file')}"


def progress_line(view: RunView) -> str:
    """`     12s  40 of 128 tasks (31 %), about 30s left, 2 running, 1.2 M events/s`."""
    if view.saved is not None and not view.finished:
        saved, products = view.saved
        return f"{format_seconds(view.seconds):>8}  saving and drawing: {saved:,} of {plural(products, 'product')}"
    tasks = view.tasks
    parts = [f"{tasks.done:,} of {plural(tasks.total, 'task')} ({100 * tasks.done // max(1, tasks.total)} %)"]
    if left := format_estimate(view.time_left):
        parts.append(f"about {left} left")
    parts.append(f"{tasks.running:,} running")
    if tasks.failed:
        parts.append(f"{tasks.failed:,} failed")
    if view.events_read and view.seconds:
        parts.append(f"{format_rate(view.events_read / view.seconds).replace('/s', ' events/s')}")
    return f"{format_seconds(view.seconds):>8}  {', '.join(parts)}"


class Reasons:
    """Says once why stages run again; above a live table, where there is one."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: tuple[WhyRow, ...] = ()

    def __call__(self, view: RunView) -> None:
        if view.why and view.why != self._said:
            self._said = view.why
            print_lines(self._console, lines_of_why(view.why, view.plan.stages))


class LiveTable(LiveProgress[RunView]):
    """A table of stages and pools that is redrawn while the run is in progress."""

    def __init__(self, console: Console, title: str) -> None:
        super().__init__(console, title)
        self._console = console
        self._warnings: tuple[str, ...] = ()
        self._why = Reasons(console)

    def __call__(self, view: RunView) -> None:
        """Draws from values taken now: the thread that repaints never touches the view."""
        self._why(view)
        self._warnings = view.warnings
        height = max(6, self._console.size.height - 6)
        tables = (stage_rows(view, most=height - len(view.plan.pools)), pool_rows(view))
        head = Head(self._title, view.status, progress_line(view).strip().partition("  ")[2], view.seconds)
        self._live.update(Group(head, *tables, *waiting_lines(view), *warning_lines(view)))

    def __enter__(self) -> Self:
        self._live.start()
        self._live.update(Text.assemble((f"{self._title} ", "bold"), "planning"), refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        """The table goes; what was warned of stays."""
        self._live.stop()
        show_warnings(self._warnings, console=self._console)


class Head:
    """The first line; its clock runs between two updates."""

    def __init__(self, title: str, status: str, words: str, seconds: float) -> None:
        self._title, self._status, self._words = title, status, words
        self._began = time.monotonic() - seconds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        elapsed = format_estimate(max(1.0, time.monotonic() - self._began))
        yield Text.assemble(
            (f"{self._title} ", "bold"),
            ("" if self._status == "running" else f"{self._status} ", "cyan"),
            f"{elapsed}  {self._words}",
            no_wrap=True,
            overflow="ellipsis",
        )


# Show how a run goes in one line that is written over and over, where a notebook or script asks for it.


WIDTH = 110
"""Columns written each time, so that a short line leaves nothing of a longer one behind."""


class ProgressLine:
    """A listener for `run(..., listen=...)`; after the last update the line stays."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._ended: str | None = None

    def __call__(self, view: RunView) -> None:
        """Write the line anew."""
        if view.run is None or view.run == self._ended:
            return
        line = progress_line(view).strip()
        file = self._file or sys.stdout
        if view.finished:
            self._ended = view.run
            line = f"{line}, {view.status}"
        file.write(f"\r{line[:WIDTH]:<{WIDTH}}" + ("\n" if view.finished else ""))
        file.flush()


show_progress = ProgressLine()
"""Ready to be passed: `cenote.load("flow.yaml").run(listen=cenote.show_progress)`."""
