"""Lay out a run's state in rows: stages with bars and rates, pools with their workers, warnings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.progress_bar import ProgressBar
from rich.text import Text

from cenote.cli.views.tables.fitted import FittedTable, TableColumn, name
from cenote.runs.counting.pool_words import pool_word
from cenote.runs.explain import waiting_in_words
from cenote.runs.summary import StageRecord
from cenote.runs.varied_stages import stages_for_people
from cenote.runs.view import RunView
from cenote.text import format_estimate, format_rate, plural
from cenote.units import format_bytes

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
