"""Leave a run to a service, which drives it."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cenote.cli.main import INTERRUPTED
from cenote.cli.options import (
    JSON_OPTION,
    STDIN,
    Choices,
    as_typed,
    refuse_contradictions,
    run_folder,
    run_options,
    standard_input,
    workflow_choices,
)
from cenote.common.errors import MISSING_FILE, RUN_EXISTS, error

if TYPE_CHECKING:  # what `cenote submit --help` must not pay for
    from cenote.service.client.task_flows import TaskHandle

LOOK_EVERY = 0.05
"""Seconds between two looks whether the run has begun."""
TO_BEGIN = 20.0
"""Seconds that the command waits for that, to tell at once what is wrong."""
_OWN = ("as_json", "quiet", "wait")
"""Parameters of this command that are nothing to the driver."""


@click.command("submit")
@workflow_choices
@run_options
@click.option("--wait", "--follow", "wait", is_flag=True, help="Show the progress until the run ends, as `run` does.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@JSON_OPTION
@click.pass_context
def command(
    context: click.Context,
    /,
    choices: Choices,
    *,
    out: Path | None,
    service: str | None,
    wait: bool,
    quiet: bool,
    as_json: bool,
    fresh: bool,
    resume: bool,
    replace: bool,
    **_: Any,  # the driver reads the others from the words that it is given
) -> int:
    """Leave a run to a service: it drives the run, also when you log out.

    The run is like any other: `cenote status`, `why`, `cancel` and `report` take its folder. The driver has this
    folder and the variables of this shell. With `--service` its workers are leases of the service too; otherwise they
    are started as the workflow says.
    """
    from cenote.cli.warm.drivers import hand_over
    from cenote.execution.runs.folder import RunFolder, is_locked, lock_owner
    from cenote.service.client.connection import connect

    refuse_contradictions(fresh=fresh, resume=resume, replace=replace, quiet=quiet, verbose=choices.verbose)
    choices.leasing(service)
    folder = run_folder(choices, out)
    if choices.file != STDIN and not choices.file.is_file():
        raise error(MISSING_FILE, f"there is no file {choices.file}")
    RunFolder(folder).refuse()
    if is_locked(folder):
        words = f"{folder} is in use by a run in progress ({lock_owner(folder)})"
        raise error(RUN_EXISTS, words, hint="wait for it, or choose another folder for the run")
    text = standard_input() if choices.file == STDIN else None
    before = _journal(folder)
    with connect(service or None) as connection:
        task = hand_over(connection, ["run", *as_typed(context, _OWN)], out=folder, stdin=text)
        if not quiet and not as_json:
            _tell(folder, task)
        try:
            begun = _begun(folder, before, task, None if wait else TO_BEGIN)
            if wait:
                _follow(folder, task, quiet=quiet or as_json)
        except KeyboardInterrupt:
            words = f"the run continues: `cenote status {folder} --follow` shows it, `cenote cancel {folder}` ends it"
            click.echo(words, err=True)
            return INTERRUPTED
        if as_json:
            from cenote.planning.record import json_text

            click.echo(json_text({"folder": str(folder), "task": task.uuid, "begun": begun}))
        return _outcome(folder, task, choices, quiet=quiet or as_json, wait=wait)


def _tell(folder: Path, task: TaskHandle) -> None:
    click.echo(f"submitted: the service drives run {folder.name} (task {task.uuid[:8]}); its folder is {folder}")
    for what, words in (
        ("progress", f"cenote status {shlex.quote(str(folder))} --follow"),
        ("cancel", f"cenote cancel {shlex.quote(str(folder))}"),
        ("messages", f"cenote logs {task.uuid[:8]} --stderr"),
    ):
        click.echo(f"  {what:<9} {words}")


def _journal(folder: Path) -> tuple[int, int] | None:
    """Something that is different once a run has begun there."""
    from cenote.execution.runs.folder import RunFolder

    try:
        facts = RunFolder(folder).journal.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_ino


def _begun(folder: Path, before: tuple[int, int] | None, task: TaskHandle, seconds: float | None) -> bool:
    """Wait until the driver writes to the journal, or is over, or for so long; whether the run has begun."""
    until = None if seconds is None else time.monotonic() + seconds
    while (found := _journal(folder)) is None or found == before:
        if task.record.state.is_over:
            return False
        if until is not None and time.monotonic() > until:
            click.echo(f"it has not begun yet: {'; '.join(task.why) or 'its driver makes the plan'}", err=True)
            return False
        time.sleep(LOOK_EVERY)
    return True


def _follow(folder: Path, task: TaskHandle, *, quiet: bool) -> None:
    """Until its driver is over: one that lost its worker is begun again."""
    from cenote.cli.console import messages
    from cenote.cli.views.progress.live import progress_on
    from cenote.common.errors import CenoteError
    from cenote.execution.runs.follow import FollowedRun

    run: FollowedRun | None = None
    with progress_on(messages(), quiet=quiet, title=str(folder)) as progress:
        while not task.record.state.is_over:
            try:
                run = run or FollowedRun(folder)
                progress(run.catch_up())
            except CenoteError:  # it has not written its plan yet
                run = None
            time.sleep(10 * LOOK_EVERY)


def _outcome(folder: Path, task: TaskHandle, choices: Choices, *, quiet: bool, wait: bool) -> int:
    """What to say now, and the exit code: that of the run where it is over, with what its driver said."""
    if not task.record.state.is_over:
        return 0
    from cenote.api import open_run
    from cenote.cli.commands.run import tell_outcome

    (instance,) = task.instances
    code = instance.exit_code if instance.exit_code is not None else 1
    run = open_run(folder) if (folder / "summary.json").exists() else None
    if run is None or run.record is None:
        click.echo(task.stderr().rstrip() or instance.message, err=True)
    elif wait:
        tell_outcome(run, again=shlex.join(["cenote", "submit", *choices.as_arguments()]), quiet=quiet)
    return code if wait or run is None else 0
