"""This file is `cenote plan`: what would run, where, and why there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cenote.cli.options import JSON_OPTION, Choices, workflow_choices
from cenote.errors import USAGE, error

if TYPE_CHECKING:  # what `cenote plan --help` must not pay for
    from cenote.plan.plan import Plan


@click.command("plan")
@workflow_choices
@JSON_OPTION
@click.option("--graph", type=click.Choice(["mermaid", "svg", "png"]), help="Draw the stages and their pools instead.")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead of the terminal."
)
@click.option("--show-jobs", is_flag=True, help="Print the jobs that would be submitted for each pool instead.")
@click.option("--strict", is_flag=True, help="Missing hardware is an error, not a warning.")
def command(
    choices: Choices,
    *,
    as_json: bool,
    graph: str | None,
    output: Path | None,
    show_jobs: bool,
    strict: bool,
) -> None:
    """Show what would run, where, and why there; nothing is run.

    Stages, their pools with the reason, segments and tasks; the pools and who set what; data, products, warnings.
    """
    from cenote.cli.console import messages, user_code_aside
    from cenote.cli.progress import progress_on

    if graph == "png" and output is None:
        raise error(USAGE, "a picture in png needs a file", hint="add --output plan.png")
    if sum((as_json, graph is not None, show_jobs)) > 1:
        raise error(USAGE, "--json, --graph and --show-jobs are different answers: choose one")
    with user_code_aside(), progress_on(messages(), title=choices.file.name) as progress:
        plan = choices.load().plan(strict=strict, progress=progress.planning)
    if graph:
        _graph(plan, graph, output)
    elif show_jobs:
        _deliver(_jobs(plan), output)
    elif as_json:
        from cenote.plan.as_json import plan_as_json

        _deliver(json.dumps(plan_as_json(plan), indent=2, ensure_ascii=False) + "\n", output)
    else:
        _table(plan, output)


def _table(plan: Plan, output: Path | None) -> None:
    from rich.console import Console

    from cenote.cli.console import PIPED_WIDTH
    from cenote.cli.console import output as answers
    from cenote.cli.plan_table import show_plan
    from cenote.cli.problems import show_warnings

    if output is None:
        show_plan(plan, answers())
    else:
        with output.open("w", encoding="utf-8") as file:
            show_plan(plan, Console(file=file, highlight=False, markup=False, width=PIPED_WIDTH))
    show_warnings(plan.warnings)


def _jobs(plan: Plan) -> str:
    from cenote.cli.amounts import plural
    from cenote.runtime.job_texts import job_texts

    pools = job_texts(plan, Path("out") / plan.workflow.file.stem)
    if not pools:
        return f"# backend '{plan.workflow.execution.backend}' runs everything on this machine and submits no jobs\n"
    blocks = []
    for jobs in pools:
        blocks.append(f"# pool '{jobs.pool}': {plural(jobs.workers, 'worker')} from {jobs.strategy}\n")
        blocks += [text if text.endswith("\n") else f"{text}\n" for text in jobs.texts]
    return "\n".join(blocks)


def _graph(plan: Plan, form: str, output: Path | None) -> None:
    from cenote.plan import picture

    if form == "png" and output is not None:
        picture.png(plan, output)
    else:
        _deliver(picture.svg(plan) if form == "svg" else picture.mermaid(plan), output)


def _deliver(text: str, output: Path | None) -> None:
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
