"""Declare the options that say how a workflow is run, for commands that run it here and leave it to a service."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import click

from cenote.cli.options import LEASES_OPTION, Choices, ClickCommand, part_options, stages_option
from cenote.errors import USAGE, error


def run_options(command: ClickCommand) -> ClickCommand:
    """The options, in the order in which help shows them."""
    options = (
        click.option(
            "--out",
            type=click.Path(path_type=Path, file_okay=False),
            help="Folder for all results of the run.  [default: out/<name of the file>]",
        ),
        part_options,
        stages_option("--force", "Rerun this stage and every stage that depends on it, changed or not."),
        click.option("--fresh", is_flag=True, help="Discard the run in that folder and start over."),
        click.option(
            "--resume", is_flag=True, help="Continue the run in that folder: the default unless --fresh is given."
        ),
        click.option("--replace", is_flag=True, help="The older name of --fresh."),
        click.option("--keep-going", is_flag=True, help="Process the remaining data when part of it fails."),
        click.option(
            "-j",
            "--cores",
            "--workers",
            "workers",
            type=click.IntRange(min=1),
            help="Total processes of the local backend, instead of one per core; with dask each pool has its own "
            "workers.",
        ),
        LEASES_OPTION,
        click.option("--no-report", is_flag=True, help="Write no report.html; `cenote report` makes one at any time."),
        click.option("--strict", is_flag=True, help="Treat missing hardware as an error instead of a warning."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def run_folder(choices: Choices, out: Path | None) -> Path:
    """Where the results go."""
    return out or Path("out") / choices.name.stem


def refuse_contradictions(*, fresh: bool, resume: bool, replace: bool, quiet: bool, verbose: int) -> None:
    """Options that exclude each other."""
    if resume and (fresh or replace):
        forgets = "--fresh" if fresh else "--replace"
        raise error(USAGE, f"--resume continues a run and {forgets} discards it: choose one")
    if quiet and verbose:
        raise error(USAGE, "--quiet and --verbose exclude each other: choose one")


def as_typed(context: click.Context, leaving_out: Collection[str]) -> Iterator[str]:
    """The words of this command once more, without some of its parameters: for another command that has the rest."""
    for parameter in context.command.params:
        name, value = parameter.name or "", context.params.get(parameter.name or "")
        if name in leaving_out or value in (None, False, ()):
            continue
        if isinstance(parameter, click.Argument):
            yield str(value)
        elif isinstance(parameter, click.Option):
            yield from _option(parameter, value)


def _option(option: click.Option, value: Any) -> Iterator[str]:  # Any: whatever the option holds
    word = max(option.opts, key=len)
    if option.count:
        yield from [word] * value
    elif option.is_flag:
        yield word
    else:
        for one in value if option.multiple else [value]:
            yield f"{word}={one}" if one != "" else word
