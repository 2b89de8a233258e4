"""List, make and revoke the tokens by which others use the service."""

from __future__ import annotations

import click

from cenote.cli.options import JSON_OPTION, SERVICE_OPTION


@click.command("tokens")
@click.option("--create", metavar="USER", help="Make a token for this user. It is shown once.")
@click.option(
    "--group", "groups", multiple=True, help="With --create: a group that the user's tasks may name. Repeatable."
)
@click.option("--expires", metavar="TIME", help="With --create: how long it is valid, such as 30d or 12h.")
@click.option("--admin", is_flag=True, help="With --create: the user may do everything, as the owner may.")
@click.option("--revoke", metavar="ID", help="Revoke the token with this id.")
@SERVICE_OPTION
@JSON_OPTION
def command(
    *,
    create: str | None,
    groups: tuple[str, ...],
    expires: str | None,
    admin: bool,
    revoke: str | None,
    service: str | None,
    as_json: bool,
) -> None:
    """List the tokens by which others use the service over the network; make one, or revoke one."""
    from cenote.cli.console import messages, output
    from cenote.cli.views.tables.service import token_rows
    from cenote.common.errors import BAD_VALUE, USAGE, error
    from cenote.common.units import parse_seconds
    from cenote.planning.record import json_text
    from cenote.service.client.connection import connect

    if create is None and (groups or expires or admin):
        raise error(USAGE, "--group, --expires and --admin are for --create USER")
    if create is not None and revoke is not None:
        raise error(USAGE, "either --create or --revoke")
    try:
        seconds = None if expires is None else parse_seconds(expires)
    except ValueError as problem:
        raise error(BAD_VALUE, f"--expires {expires}: {problem}") from problem
    with connect(service, start=False) as connection:
        if create is not None:
            made = connection.create_token(create, groups=groups, seconds=seconds, admin=admin)
            if as_json:
                click.echo(json_text({"token": made.token, "record": made.record}))
                return
            messages().print(
                f"token {made.record.id} for user '{create}'; it is not shown again:", highlight=False, markup=False
            )
            click.echo(made.token)
            return
        found = list(connection.tokens()) if revoke is None else [connection.revoke_token(revoke)]
    if as_json:
        click.echo(json_text({"revoked" if revoke is not None else "tokens": found}))
    elif revoke is not None:
        messages().print(f"token {revoke} of user '{found[0].user}' is revoked", highlight=False, markup=False)
    else:
        output().print(token_rows(found))
