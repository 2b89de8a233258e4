"""Show the progress of a run, or how it ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cenote.cli.completions import complete_run
from cenote.cli.options import JSON_OPTION
from cenote.execution.runs.view.pool_words import POOL_WORDS

if TYPE_CHECKING:  # what `cenote status --help` must not pay for
    from cenote.execution.runs.follow import FollowedRun
    from cenote.execution.runs.summary import Summary

LOOK_EVERY = 0.5
"""Seconds between two looks at the journal."""


def _states() -> str:
    """What the words of the table of pools mean."""
    width = max(len(word.short) for word in POOL_WORDS.values())
    rows = [f"  {word.short:<{width}}  {word.meaning}" for word in POOL_WORDS.values()]
    return "\n".join(["\b", "States of a pool:", *rows])


@click.command("status", epilog=_states())
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option("--follow", "-f", is_flag=True, help="Keep updating until the run ends.")
@JSON_OPTION
def command(folder: Path, *, follow: bool, as_json: bool) -> None:
    """Show the progress of a run, or how it ended. FOLDER is the run's output folder (`cenote run --out`)."""
    from cenote.execution.runs.follow import FollowedRun
    from cenote.planning.record import json_text

    run = FollowedRun(folder)
    run.catch_up()
    if follow:
        _follow(run, quiet=as_json)
    run.catch_up_to_now()
    if as_json:
        click.echo(json_text(_summary(run)))
    else:
        _show(run)


def _follow(run: FollowedRun, *, quiet: bool) -> None:
    from cenote.cli.console import messages
    from cenote.cli.views.progress.live import progress_on

    with progress_on(messages(), quiet=quiet, title=str(run.folder.path)) as progress:
        while run.driven and not run.view.finished:
            progress(run.catch_up())
            time.sleep(LOOK_EVERY)
        run.catch_up()


def _summary(run: FollowedRun) -> Summary:
    """What the run itself wrote at its end; before that, what its journal says so far."""
    from msgspec.structs import replace

    from cenote.execution.runs.follow import read_summary

    finished = read_summary(run.folder) if run.view.finished else None
    return finished or replace(run.view.summary(), status=run.status)


def _show(run: FollowedRun) -> None:
    from cenote.cli.console import output, print_lines
    from cenote.cli.views.outcome import failure_lines, outcome_lines
    from cenote.cli.views.problems import show_warnings
    from cenote.cli.views.progress.live import pool_rows, stage_rows, waiting_lines

    console = output()
    summary = _summary(run)
    folder = run.folder.path
    pictures = [folder / plot for product in summary.products for plot in product.plots] if run.view.finished else ()
    print_lines(console, outcome_lines(summary, folder=folder, pictures=pictures))
    if run.silence:
        console.print(run.silence, style="bold yellow", markup=False, highlight=False)
    console.print()
    console.print(stage_rows(run.view, most=200))
    console.print()
    console.print(pool_rows(run.view))
    for line in waiting_lines(run.view) if run.driven else ():
        console.print(line)
    show_warnings(run.view.warnings)
    if run.view.finished or not run.driven:
        print_lines(console, failure_lines(summary, folder=folder, again=f"cenote run … --out {folder}"))
