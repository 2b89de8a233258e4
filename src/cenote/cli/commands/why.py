"""Explain what a run or a stage is waiting for."""

from __future__ import annotations

import time
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
    from cenote.cli.commands.status import status_word
    from cenote.engine.messages import Tick
    from cenote.runs.explain import explain_run, explain_stage
    from cenote.runs.follow import FollowedRun

    run = FollowedRun(folder)
    view = run.catch_up()
    if run.driven:
        view.apply(Tick(at=time.time()))  # a run that waits writes nothing, and time passes
    cut_off = status_word(run) == "interrupted"
    words = explain_run(view, cut_off=cut_off) if stage is None else explain_stage(view, stage, cut_off=cut_off)
    click.echo(words)
