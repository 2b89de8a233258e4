"""Explain what a run or a stage is waiting for."""

from __future__ import annotations

from pathlib import Path

import click

from cenote.cli.completions import complete_run, complete_stage


@click.command("why")
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("stage", required=False, shell_complete=complete_stage)
def command(folder: Path, stage: str | None) -> None:
    """Explain what a run, or one STAGE of it, is waiting for: which pool, which workers, until when.

    FOLDER is the run's output folder (`cenote run --out`).
    """
    from cenote.execution.runs.explain import explain_run, explain_stage
    from cenote.execution.runs.follow import FollowedRun

    run = FollowedRun(folder)
    view = run.catch_up_to_now()
    if run.silence:
        click.echo(f"{run.silence[0].upper()}{run.silence[1:]}.\n")
    status = run.status
    click.echo(explain_run(view, status=status) if stage is None else explain_stage(view, stage, status=status))
