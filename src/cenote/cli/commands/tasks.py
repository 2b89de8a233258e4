"""Show the tasks of the service, add one, or change one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cenote.cli.options import JSON_OPTION, SERVICE_OPTION

if TYPE_CHECKING:  # what `cenote tasks --help` must not pay for
    from cenote.service.client.connection import Connection
    from cenote.service.client.records import TaskVerb


@click.command("tasks")
@click.argument("task", required=False)
@click.option(
    "--create",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Put the task that FILE describes into the queue.",
)
@click.option("--cancel", is_flag=True, help="Stop what it runs, and begin nothing more.")
@click.option("--pause", is_flag=True, help="Begin nothing more of it; what runs continues.")
@click.option("--resume", is_flag=True, help="Begin again what was paused.")
@click.option("--priority", type=int, help="Change its priority; higher ones come first.")
@click.option("--move", metavar="POOL", help="Let what waits wait for another pool.")
@click.option("--ahead-of", metavar="TASK", help="Put it before another task of the same user.")
@SERVICE_OPTION
@JSON_OPTION
def command(
    task: str | None,
    *,
    create: Path | None,
    cancel: bool,
    pause: bool,
    resume: bool,
    priority: int | None,
    move: str | None,
    ahead_of: str | None,
    service: str | None,
    as_json: bool,
) -> None:
    """Show the tasks of the service; or the one with this id, or name, instance by instance."""
    from cenote.cli.console import output
    from cenote.cli.views.tables.service import instance_rows, task_rows
    from cenote.common.errors import USAGE, error
    from cenote.planning.record import json_text
    from cenote.service.client.connection import connect

    changes: dict[TaskVerb, dict[str, str | int] | None] = {
        "cancel": {} if cancel else None,
        "pause": {} if pause else None,
        "resume": {} if resume else None,
        "priority": None if priority is None else {"priority": priority},
        "move": None if move is None else {"pool": move},
        "ahead": None if ahead_of is None else {"of": ahead_of},
    }
    wanted = {verb: given for verb, given in changes.items() if given is not None}
    if wanted and task is None:
        raise error(USAGE, "which task? name it by its id: `cenote tasks` lists them")
    if create is not None and (wanted or task is not None):
        raise error(USAGE, "`--create FILE` makes a new task: name no other, and change it afterwards")
    with connect(service, start=create is not None) as connection:
        if create is not None:
            task = _created(connection, create)
        if task is None:
            found = connection.task_records()
            if as_json:
                click.echo(json_text({"tasks": found}))
            else:
                output().print(task_rows(found))
            return
        handle = connection.task(task)
        for verb, given in wanted.items():
            handle.change(verb, **given)
        record, instances = handle.record, handle.instances
    if as_json:
        click.echo(json_text({"task": record, "instances": instances}))
    else:
        output().print(task_rows([record]))
        output().print(instance_rows(instances))


def _created(connection: Connection, file: Path) -> str:
    from cenote.service.client.task_file import task_of_file

    return task_of_file(connection, file).submit().uuid
