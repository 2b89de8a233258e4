"""Check a workflow and list every problem."""

from __future__ import annotations

import click

from cenote.cli.options import JSON_OPTION, Choices, workflow_choices
from cenote.common.errors import CenoteError


@click.command("check")
@workflow_choices
@click.option("--data/--no-data", default=True, help="Also compare with the columns of the data (the default).")
@JSON_OPTION
def command(choices: Choices, *, data: bool, as_json: bool) -> int:
    """Check a workflow and list every problem with file, line and column.

    Of each dataset, it opens the first file; `cenote data check` opens every file, and so does `cenote plan`.
    """
    from cenote.cli.streams import user_code_aside
    from cenote.cli.views.problems import problems_as_json, show_warnings

    with user_code_aside():
        result = choices.load().check(read_files=data)
    if as_json:
        click.echo(problems_as_json(result.problems, result.warnings))
        return 0 if result.ok else CenoteError(result.problems).exit_code
    show_warnings(result.warnings)
    if not result.ok:
        raise CenoteError(result.problems)
    for note in result.notes:
        click.echo(note)
    click.echo(f"{choices.name}: no problems")
    return 0
