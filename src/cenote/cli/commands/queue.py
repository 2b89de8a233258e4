"""Show what waits for the pools of the service, and why."""

from __future__ import annotations

import click

from cenote.cli.options import JSON_OPTION, SERVICE_OPTION


@click.command("queue")
@click.argument("pool", required=False)
@SERVICE_OPTION
@JSON_OPTION
def command(pool: str | None, *, service: str | None, as_json: bool) -> None:
    """Show what waits for the pools of the service, in the order in which it would start, and why it waits."""
    from cenote.cli.console import output
    from cenote.cli.views.tables.service import queue_rows
    from cenote.planning.record import json_text
    from cenote.service.client.connection import connect

    with connect(service, start=False) as connection:
        found = connection.queue(pool)
    if as_json:
        click.echo(json_text({"queue": found}))
    else:
        output().print(queue_rows(found))
