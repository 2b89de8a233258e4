"""Look into a data file, or open every file of a workflow."""

from __future__ import annotations

import click

from cenote.cli.options import JSON_OPTION, Choices, workflow_choices


@click.group("data")
def command() -> None:
    """Look into a data file, or open every file of a workflow."""


@command.command("inspect", short_help="Show the trees of a file, their columns, types and sizes.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--tree", metavar="NAME", help="Show only this tree.")
@click.option(
    "--kind", metavar="SOURCE", help="How it is read, where its name does not say: root_tree, parquet, csv, …"
)
@JSON_OPTION
def inspect(files: tuple[str, ...], *, tree: str | None, kind: str | None, as_json: bool) -> None:
    """Show the trees of a file, their columns, types, events and sizes.

    FILE is a path or an address: root://, https://. The JSON of several files is a list.
    """
    from cenote.cli.console import output
    from cenote.cli.views.tables.data import files_as_json, show_file
    from cenote.planning.inputs.inspect import inspect_file

    described = (inspect_file(file, kind=kind, tree=tree) for file in files)
    if as_json:
        click.echo(files_as_json(list(described)))
        return
    for number, found in enumerate(described):
        show_file(found, output(), after_another=number > 0)


@command.command("check", short_help="Open every file of a workflow, count events, and list bad files.")
@workflow_choices
@JSON_OPTION
def check(choices: Choices, *, as_json: bool) -> int:
    """Open every file of a workflow, count its events, and list the files that cannot be used.

    Stages are not looked at. The answer is 0 where every file can be used.
    """
    from cenote.cli.console import messages, output
    from cenote.cli.streams import user_code_aside
    from cenote.cli.views.problems import show_warnings
    from cenote.cli.views.progress.live import progress_on
    from cenote.cli.views.tables.data import report_as_json, show_report
    from cenote.common.errors import CenoteError

    with user_code_aside(), progress_on(messages(), quiet=as_json, title=choices.name.name) as progress:
        report = choices.load().check_data(progress=progress.planning)
    problems = report.all_problems
    if as_json:
        click.echo(report_as_json(report))
        return CenoteError(problems).exit_code if problems else 0
    show_warnings(report.warnings)
    show_report(report, output())
    if report.problems:
        raise CenoteError(report.problems)
    return CenoteError(problems).exit_code if problems else 0
