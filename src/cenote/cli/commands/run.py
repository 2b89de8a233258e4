"""Run a workflow."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cenote.cli.options import (
    JSON_OPTION,
    LEASING,
    Choices,
    refuse_contradictions,
    run_folder,
    run_options,
    workflow_choices,
)
from cenote.common.errors import CenoteError

if TYPE_CHECKING:  # what `cenote run --help` must not pay for
    from rich.console import Console

    from cenote.api import Analysis, Run
    from cenote.cli.views.progress.silence import Silence
    from cenote.engine.messages import AnyEvent
    from cenote.execution.runs.view.view import RunView
    from cenote.execution.runtime.loop import Hearer
    from cenote.planning.plan import Plan


@click.command("run")
@workflow_choices
@run_options
@click.option("-n", "--dry-run", is_flag=True, help="Show the plan and what would be reused; run and write nothing.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@JSON_OPTION
def command(
    choices: Choices,
    *,
    out: Path | None,
    fresh: bool,
    resume: bool,
    replace: bool,
    service: str | None,
    no_report: bool,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **asked: Any,  # the keywords of both `run` and `preview`
) -> int:
    """Run a workflow.

    Results of an earlier run in the same folder are reused where data, settings and code are unchanged.

    FILE may be `-`: the workflow is read from standard input, and relative names count from the current folder.
    Progress goes to stderr, the outcome to stdout. Ctrl-C ends the run cleanly; the same command continues it.
    """
    refuse_contradictions(fresh=fresh, resume=resume, replace=replace, quiet=quiet, verbose=choices.verbose)
    folder = run_folder(choices, out)
    choices = choices.leasing(service)
    if not dry_run and (code := _run_there(choices, service, folder)) is not None:
        return code
    from cenote.cli.streams import user_code_aside
    from cenote.planning.record import json_text

    analysis = choices.load()
    told = _console() if choices.verbose or not (quiet or as_json) else None
    asked["fresh"] = fresh or replace
    with user_code_aside(), _progress(told, quiet=quiet or as_json, title=choices.name.name) as progress:
        if dry_run:
            preview = analysis.preview(folder, **asked, progress=progress.planning)
        else:
            printer = _event_printer(told, choices.verbose) if told and choices.verbose else None
            run = analysis.run(
                folder,
                **asked,
                resume=resume,
                report=not no_report,
                listen=progress,
                hear=_hearer(analysis, service, printer),
                progress=progress.planning,
                packing=progress.packing,
                command=["cenote", *sys.argv[1:]],
            )
    if dry_run:
        from cenote.cli.views.verbose import tell_preview

        if not quiet:
            tell_preview(preview, verbose=choices.verbose, as_json=as_json)
        return 0
    if as_json:
        click.echo(json_text(run.record) if run.record else "{}")
    else:
        again = shlex.join(["cenote", "run", *choices.as_arguments(), "--out", str(folder)])
        tell_outcome(run, again=again, quiet=quiet)
        if not quiet and not analysis.workflow.stages:
            from cenote.cli.console import output
            from cenote.cli.views.tables.data import show_report

            show_report(analysis.check_data(), output())
    return run.exit_code


def _run_there(choices: Choices, service: str | None, folder: Path) -> int | None:
    """The exit code, where a process of the service runs this command for us."""
    from cenote.cli.warm.leases import may_lease, was_typed

    if not was_typed() or not may_lease(choices):
        return None
    from cenote.cli.warm.lend import run_there  # with all that speaks to a service

    return run_there(service, folder)


def _hearer(analysis: Analysis, service: str | None, printer: Hearer | None) -> Hearer | None:
    """Where the workers are leases, the service gets a process ready for the next command, once this run's first task
    has begun: until then its workers need the CPUs."""
    from cenote.cli.warm.leases import was_typed

    execution = analysis.workflow.execution
    if not was_typed() or LEASING not in {execution.strategy, *(pool.strategy for pool in execution.pools)}:
        return printer
    from cenote.cli.warm.drivers import warm_drivers
    from cenote.engine.messages import TaskStarted

    places = [service or execution.config.get("service")]

    def hear(plan: Plan, event: AnyEvent) -> None:
        if printer is not None:
            printer(plan, event)
        if places and isinstance(event, TaskStarted):
            with suppress(CenoteError):  # then the next command is run where it is typed, as this one
                warm_drivers(places.pop())

    return hear


def _console() -> Console:
    """For progress and events. Whoever wants to hear of neither does not pay for it."""
    from cenote.cli.console import messages

    return messages()


def _progress(console: Console | None, *, quiet: bool, title: str) -> Silence[RunView]:
    if quiet or console is None:
        from cenote.cli.views.progress.silence import Silence

        return Silence()
    from cenote.cli.views.progress.live import progress_on

    return progress_on(console, title=title)


def _event_printer(console: Console, level: int) -> Hearer:
    """Prints every event; above a live table where the console has one."""
    from cenote.cli.console import print_lines
    from cenote.cli.views.verbose import EventLines, dataset_lines
    from cenote.engine.messages import RunStarted

    lines = EventLines(level)

    def hear(plan: Plan, event: AnyEvent) -> None:
        first = dataset_lines(plan, level=level) if isinstance(event, RunStarted) else ()
        print_lines(console, (*first, *lines(plan, event)))

    return hear


def tell_outcome(run: Run, *, again: str, quiet: bool = False) -> None:
    """What came out on stdout, what went wrong on stderr."""
    if quiet and run.status == "succeeded":
        return
    from cenote.cli.console import messages, output, print_lines
    from cenote.cli.views.measured import measured_lines
    from cenote.cli.views.outcome import failure_lines, outcome_lines
    from cenote.cli.views.tables.product import product_tables, written_tables

    if (summary := run.record) is None:
        return
    if not quiet:
        print_lines(output(), outcome_lines(summary, folder=run.folder, pictures=run.plots))
        print_lines(output(), measured_lines(summary, folder=run.folder))
        print_lines(output(), product_tables(run, width=output().width))
        print_lines(output(), written_tables(run, width=output().width))
    print_lines(messages(), failure_lines(summary, folder=run.folder, again=again))
