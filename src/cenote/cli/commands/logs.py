"""Print what a task of the service printed."""

from __future__ import annotations

import sys

import click

from cenote.cli.options import SERVICE_OPTION


@click.command("logs")
@click.argument("task")
@click.option("--instance", type=int, help="Only of this instance.")
@click.option("--stderr", is_flag=True, help="What it wrote to its standard error.")
@SERVICE_OPTION
def command(task: str, *, instance: int | None, stderr: bool, service: str | None) -> None:
    """Print what TASK, an id or a name, printed so far."""
    from cenote.service.client.connection import connect

    with connect(service, start=False) as connection:
        handle = connection.task(task)
        text = handle.stderr(instance) if stderr else handle.stdout(instance)
    sys.stdout.write(text)
