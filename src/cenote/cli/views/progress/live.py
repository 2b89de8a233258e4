"""Follow a run for people: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text

from cenote.cli.console import print_lines
from cenote.cli.views.problems import show_warnings
from cenote.cli.views.progress.packing import PackingLines, packing_bar
from cenote.cli.views.progress.silence import Shown, Silence
from cenote.cli.views.progress.table import pool_rows, stage_rows, waiting_lines, warning_lines
from cenote.engine.messages import WhyRow
from cenote.packing.progress import PackingStep
from cenote.runs.changed.rows import lines_of_why
from cenote.runs.explain import waiting_in_words
from cenote.runs.view import RunView
from cenote.text import format_estimate, format_rate, plural
from cenote.units import format_seconds

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
