"""This file lays out a run's state in rows: stages with bars and rates, pools with their workers, warnings."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cenote.cli.amounts import duration_in_words, plural, rate_in_words
from cenote.runtime.explain import waiting_in_words
from cenote.runtime.run_summary import PoolView, StageView
from cenote.runtime.run_view import RunView
from cenote.units import format_bytes

MOST_WARNINGS = 3
STATE_STYLES = {
    "working": "green",
    "idle": "dim",
    "done": "dim",
    "no worker yet": "yellow",
    "workers lost": "red",
    "waiting": "dim",
    "Submitted": "yellow",
    "PartiallyDispatched": "yellow",
    "FullyDispatched": "yellow",
    "PartiallyExecuting": "green",
    "FullyExecuting": "green",
    "Closing": "dim",
    "Closed": "dim",
    "Failure": "red",
}


def stage_rows(view: RunView, *, most: int) -> Table:
    """Stages with how far, how fast and how long; the ones at work come first when not all fit."""
    table = _table("stage", "", "done", "running", "failed", "events", "left", "memory")
    for column in table.columns[2:]:
        column.justify = "right"
    stages = view.stages
    shown = shown_stages(stages, most=most)
    for stage in shown:
        table.add_row(
            _name(stage.id, style="bold" if stage.running else ""),
            ProgressBar(total=max(1, stage.tasks), completed=stage.done + stage.failed, width=12),
            f"{stage.done:,}/{stage.tasks:,}",
            f"{stage.running or ''}",
            Text(f"{stage.failed or ''}", style="red"),
            rate_in_words(stage.rate),
            duration_in_words(stage.time_left),
            format_bytes(stage.peak_memory) if stage.peak_memory else "",
        )
    if len(shown) < len(stages):
        table.add_row(Text(f"… {plural(len(stages) - len(shown), 'more stage')}", style="dim"))
    return table


def shown_stages(stages: Sequence[StageView], *, most: int) -> list[StageView]:
    """All if they fit; else those at work, then those with failures, then those to come, in their order."""
    if len(stages) <= most:
        return list(stages)
    ranked = sorted(stages, key=lambda s: (not s.running, not s.failed, s.done == s.tasks))[: max(1, most)]
    chosen = {stage.id for stage in ranked}
    return [stage for stage in stages if stage.id in chosen]


def pool_rows(view: RunView) -> Table:
    """Pools with what they are doing and their workers: how many are there of as many as there may be, or came."""
    table = _table("pool", "state", "workers", "asked for", "lost", "running", "done", "left")
    for column in table.columns[2:]:
        column.justify = "right"
    wanted = {pool.name: pool.workers for pool in view.facts.pools}
    for pool in view.pools:
        table.add_row(
            _name(pool.name),
            Text(pool.state, style=STATE_STYLES.get(pool.state, "")),
            f"{pool.workers_started}" if view.finished else f"{pool.workers}/{wanted[pool.name]}",
            f"{pool.awaited or ''}",
            Text(f"{pool.workers_lost or ''}", style="red"),
            _slots(pool),
            f"{pool.done:,}",
            duration_in_words(pool.time_left),
        )
    return table


def _slots(pool: PoolView) -> str:
    return f"{pool.running}/{pool.workers * pool.slots}" if pool.workers else f"{pool.running}"


def waiting_lines(view: RunView) -> Group | None:
    """Why stages wait that have waited for more than a moment."""
    lines = [Text(line, style="yellow", overflow="ellipsis", no_wrap=True) for line in waiting_in_words(view)]
    return Group(*lines) if lines else None


def warning_lines(view: RunView) -> Group | None:
    """The latest few warnings."""
    if not view.warnings:
        return None
    latest = view.warnings[-MOST_WARNINGS:]
    lines = [Text.assemble(("warning: ", "yellow"), warning, overflow="ellipsis", no_wrap=True) for warning in latest]
    if len(latest) < len(view.warnings):
        lines.insert(0, Text(f"… {len(view.warnings) - len(latest)} more warnings", style="dim"))
    return Group(*lines)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for position, column in enumerate(columns):
        table.add_column(column, no_wrap=position > 0)  # where it is narrow, the names give way
    return table


def _name(name: str, style: str = "") -> Text:
    return Text(name, style=style, no_wrap=True, overflow="ellipsis")
