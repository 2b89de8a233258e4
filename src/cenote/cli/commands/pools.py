"""Show the pools of the service."""

from __future__ import annotations

import click

from cenote.cli.options import JSON_OPTION, SERVICE_OPTION


@click.command("pools")
@click.argument("name", required=False)
@click.option("--close", is_flag=True, help="Close the pool; its workers end after their current work.")
@click.option("--delete", is_flag=True, help="Close the pool, cancel its tasks, and forget it.")
@SERVICE_OPTION
@JSON_OPTION
def command(name: str | None, *, close: bool, delete: bool, service: str | None, as_json: bool) -> None:
    """Show the pools of the service, or close the one called NAME."""
    from cenote.cli.console import output
    from cenote.cli.views.tables.service import pool_rows
    from cenote.common.errors import USAGE, error
    from cenote.planning.record import json_text
    from cenote.service.client.connection import connect

    if (close or delete) and name is None:
        raise error(USAGE, "which pool? name it: `cenote pools NAME --close`")
    with connect(service, start=False) as connection:
        if name is not None and close:
            connection.pool(name).close()
        if name is not None and delete:
            connection.pool(name).delete()
            return
        found = connection.pool_records() if name is None else [connection.pool(name).record]
    if as_json:
        click.echo(json_text({"pools": found}))
    else:
        output().print(pool_rows(found))
