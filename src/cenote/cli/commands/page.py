"""Print a link to the service's page, which signs you in once."""

from __future__ import annotations

import click

from cenote.cli.options import SERVICE_OPTION


@click.command("page")
@click.option("--open", "opens", is_flag=True, help="Open it in your browser.")
@SERVICE_OPTION
def command(*, opens: bool, service: str | None) -> None:
    """Print a link to the service's page. It is valid for five minutes, and signs you in once."""
    from cenote.cli.console import messages
    from cenote.service.client.address import spelled
    from cenote.service.client.connection import connect

    with connect(service, start=False) as connection:
        link = connection.page_link()
    click.echo(link.url)
    messages().print(f"its certificate is {spelled(link.fingerprint)}", markup=False, highlight=False)
    if opens:
        click.launch(link.url)
