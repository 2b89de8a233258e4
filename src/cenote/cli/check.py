"""This file is `cenote check`: everything that is wrong with a workflow, at once."""

from __future__ import annotations

import json

import click

from cenote.cli.options import JSON_OPTION, Choices, workflow_choices
from cenote.errors import CenoteError, Problem


@click.command("check")
@workflow_choices
@click.option("--data/--no-data", default=True, help="Also compare with the columns of the data (the default).")
@JSON_OPTION
def command(choices: Choices, *, data: bool, as_json: bool) -> int:
    """Say everything that is wrong with a workflow, with file, line and column."""
    from cenote.cli.console import user_code_aside
    from cenote.cli.problems import show_warnings

    with user_code_aside():
        result = choices.load().check(read_files=data)
    if as_json:
        told = {
            "ok": result.ok,
            "problems": [problem_as_json(problem) for problem in result.problems],
            "warnings": list(result.warnings),
        }
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return 0 if result.ok else CenoteError(result.problems).exit_code
    show_warnings(result.warnings)
    if not result.ok:
        raise CenoteError(result.problems)
    click.echo(f"{choices.name}: no problems")
    return 0


def problem_as_json(problem: Problem) -> dict[str, object]:
    """For editors and scripts."""
    return {
        "kind": problem.kind.name,
        "message": problem.message,
        "file": problem.place.file if problem.place else None,
        "line": problem.place.line if problem.place else None,
        "column": problem.place.column if problem.place else None,
        "details": list(problem.details),
        "hint": problem.hint,
    }
