"""Cancel a running run; finished results are kept."""

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
    help="How long to wait for the run to end.",
)
@JSON_OPTION
def command(folder: Path, *, wait: float, as_json: bool) -> None:
    """Cancel a running run as Ctrl-C would: its workers end, finished results are kept, the next run continues it.

    FOLDER is the run's output folder (`cenote run --out`). The command waits for the end and
    prints how the run ended.
    """
    from cenote.common.units import format_seconds
    from cenote.execution.runs.driver.cancel import cancel_run

    ended = cancel_run(folder, patience=wait)
    tasks = ended.view.tasks
    status = ended.view.status if ended.view.finished else "interrupted"
    if as_json:
        import json

        told = {"status": status, "seconds": round(ended.seconds, 3), "done": tasks.done, "tasks": tasks.total}
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(
        f"{status} after {format_seconds(ended.seconds)}: {tasks.done:,} of {tasks.total:,} tasks are finished and kept"
    )
    if status != "succeeded":
        click.echo(f"next: continue with `cenote run … --out {folder}`")
