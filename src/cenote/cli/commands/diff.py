"""Compare two runs: what went into them, and the numbers that came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cenote.cli.completions import complete_run
from cenote.cli.main import DIFFERS, DONE
from cenote.cli.options import JSON_OPTION

if TYPE_CHECKING:  # what `cenote diff --help` must not pay for
    from cenote.report.diff.runs import Draw
    from cenote.report.run import Run


@click.command("diff")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.argument("other", metavar="[RUN]", required=False, type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--plots",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Draw histograms that differ over each other, with their ratio, as PNG and PDF in this folder.",
)
@JSON_OPTION
def command(run: Path, other: Path | None, *, plots: Path | None, as_json: bool) -> int:
    """Compare two runs: workflow, code, data and software, and the numbers of every product.

    RUN is the output folder of a run (`cenote run --out`). The first is compared with the second; a run alone, with the
    run before it in the same folder.

    Ends with 0 where all products are the same, to the last bit, and with 1 where one is not.
    """
    from cenote.api import open_run
    from cenote.planning.record import json_text
    from cenote.report.diff.runs import compare_runs

    before, after = (_before(run), open_run(run)) if other is None else (open_run(run), open_run(other))
    found = compare_runs(before, after, draw=_drawing(after, plots) if plots else None)
    if as_json:
        click.echo(json_text(found))
    else:
        from cenote.cli.console import output
        from cenote.cli.views.tables.diff import show_diff

        show_diff(found, output())
    return DONE if found.same_numbers else DIFFERS


def _before(run: Path) -> Run:
    """What is kept of the run before; it has no journal."""
    from cenote.api import Run, open_run
    from cenote.execution.runs.folder import RunFolder
    from cenote.execution.runs.provenance import run_before

    open_run(run)  # raises where there is none at all
    return Run(run_before(RunFolder(run)))


def _drawing(run: Run, folder: Path) -> Draw:
    from cenote.execution.runs.folder import RunFolder
    from cenote.execution.runs.follow import read_if_whole
    from cenote.planning.record import PlanRecord
    from cenote.report.diff.histograms import draw_both

    plan = read_if_whole(RunFolder(run.folder).plan, PlanRecord)
    return lambda name, before, after: draw_both(name, before, after, folder, plan)
