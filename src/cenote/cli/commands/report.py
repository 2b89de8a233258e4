"""Write the report page of a run again."""

from __future__ import annotations

from pathlib import Path

import click

from cenote.cli.completions import complete_run


@click.command("report")
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=complete_run)
def command(folder: Path) -> None:
    """Write report.html of a run again. FOLDER is the run's output folder (`cenote run --out`)."""
    from cenote.report.page import write_report

    click.echo(f"{write_report(folder)}")
