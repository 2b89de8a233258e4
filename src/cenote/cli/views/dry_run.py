"""Tell what a run would do: the plan, and which of its tasks would run or be reused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from rich.text import Text

from cenote.api import Preview
from cenote.cli.console import output, print_lines
from cenote.cli.views.problems import show_warnings
from cenote.cli.views.tables.plan import show_plan, titled, written_stages
from cenote.cli.views.verbose import dataset_lines
from cenote.plan.record import PlanRecord, as_json
from cenote.runs.changed.rows import causes_in_words
from cenote.runtime.spared import SparedStage
from cenote.text import plural
from cenote.units import format_bytes, format_seconds


def tell_preview(preview: Preview, *, verbose: int, as_json: bool) -> None:
    """On stdout; warnings on stderr."""
    if as_json:
        click.echo(json.dumps(preview_as_json(preview), indent=2, ensure_ascii=False))
        return
    console = output()
    show_plan(preview.plan, console)
    print_lines(console, dataset_lines(preview.plan, level=verbose) if verbose else ())
    print_lines(console, preview_lines(preview))
    show_warnings(preview.plan.warnings)


def preview_lines(preview: Preview) -> Iterator[Text]:
    """How many tasks would run, stage by stage where some would be reused, and why."""
    tasks, reused = len(preview.plan.tasks), len(preview.reused)
    kept = f", {reused:,} would be reused" if reused else ""
    yield titled("dry run", f"{plural(tasks - reused, 'task')} would run{kept}; the run would go to {preview.folder}")
    stages = preview.stages() if reused or preview.why else {}
    written = {one.stage for one in written_stages(preview.plan)}
    causes = causes_in_words([row for row in preview.why if row.stage in written])
    for stage in (one for one in stages if one in written):
        all_of_it, kept_of_it = stages[stage]
        why = f": {causes[stage]}" if stage in causes else ""
        yield titled("", f"{stage}: {all_of_it - kept_of_it:,} of {plural(all_of_it, 'task')} would run{why}")
    for position, row in enumerate(one for one in preview.spared if one.stage in written):
        yield titled("" if position else "kept", spared_in_words(row))


def spared_in_words(row: SparedStage) -> str:
    """`Slow: its columns are kept, 3.2 MB instead of 12 s`."""
    costs = f", {format_bytes(row.bytes)} instead of {format_seconds(row.seconds)}" if row.bytes else ""
    kept = "its columns are kept" if row.what == "columns" else "the events that leave it are kept"
    return f"{row.stage}: {kept} for {plural(row.tasks, 'task')}{costs}"


def preview_as_json(preview: Preview) -> dict[str, Any]:
    """What `--dry-run --json` prints."""
    stages = [{"id": stage, "tasks": tasks, "reused": reused} for stage, (tasks, reused) in preview.stages().items()]
    return {
        "out": str(preview.folder),
        "tasks": len(preview.plan.tasks),
        "reused": len(preview.reused),
        "stages": stages,
        "why": [as_json(row) for row in preview.why],
        "spared": [vars(row) for row in preview.spared],
        "plan": as_json(PlanRecord.of(preview.plan)),
    }
