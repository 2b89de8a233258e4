"""`cenote cancel`: it ends a run that goes on, from another terminal."""

from __future__ import annotations

from pathlib import Path

import click

from cenote.cli.completions import complete_run
from cenote.cli.options import JSON_OPTION


@click.command("cancel")
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the end.",
)
@JSON_OPTION
def command(folder: Path, *, wait: float, as_json: bool) -> None:
    """End a run that goes on, as Ctrl-C would: its workers end, what is finished stays, the next run goes on.

    FOLDER is what was given to `cenote run --out`. Comes back when the run has ended, and says how.
    """
    from cenote.runs.cancel import cancel_run
    from cenote.units import format_seconds

    ended = cancel_run(folder, patience=wait)
    tasks = ended.view.tasks
    status = ended.view.status if ended.view.finished else "interrupted"
    if as_json:
        import json

        told = {"status": status, "seconds": round(ended.seconds, 3), "done": tasks.done, "tasks": tasks.total}
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(
        f"{status} after {format_seconds(ended.seconds)}: {tasks.done:,} of {tasks.total:,} tasks are done and kept"
    )
    if status != "succeeded":
        click.echo(f"next: continue with `cenote run … --out {folder}`")
