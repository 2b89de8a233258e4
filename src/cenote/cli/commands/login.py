"""Sign in to a service of others: remember its token and certificate."""

from __future__ import annotations

import click


@click.command("login")
@click.argument("url")
@click.option("--ca", metavar="FILE", help="File with certificates to trust, instead of those of the system.")
@click.option("--fingerprint", metavar="SHA256", help="Of the service's certificate, as `cenote serve` prints it.")
@click.option("--forget", is_flag=True, help="Forget the token of this service.")
def command(url: str, *, ca: str | None, fingerprint: str | None, forget: bool) -> None:
    """Sign in to the service at URL (https://HOST:PORT). The token is read from the terminal, or from standard input.

    It is kept in a file that only you can read, with the fingerprint of the service's certificate where no authority
    vouches for it: another certificate is refused from then on.
    """
    import sys
    from pathlib import Path

    from cenote.cli.console import messages
    from cenote.common.errors import NO_SERVICE, USAGE, error
    from cenote.service.client.address import (
        NetworkAddress,
        SignedIn,
        keep_signed_in,
        plain_fingerprint,
        plain_url,
        shown_certificate,
        signed_in_file,
        spelled,
    )
    from cenote.service.client.connection import connect

    plain = plain_url(url)
    if forget:
        keep_signed_in(plain, None)
        return
    if ca is not None and fingerprint is not None:
        raise error(USAGE, "either --ca or --fingerprint")
    pinned = "" if fingerprint is None else plain_fingerprint(fingerprint)
    trusted = None if ca is None else Path(ca).absolute()
    shown, vouched = shown_certificate(NetworkAddress(plain, ca=trusted))
    if pinned and shown != pinned:
        raise error(NO_SERVICE, f"{plain} shows another certificate: {spelled(shown)}", hint="do not sign in there")
    if not pinned and not vouched:
        if ca is not None or not sys.stdin.isatty():
            raise error(
                NO_SERVICE,
                f"the certificate of {plain} is not signed by a trusted authority: {spelled(shown)}",
                hint="where that is what `cenote serve` printed, name it with --fingerprint",
            )
        messages().print(
            f"the certificate of {plain} is not signed by a trusted authority:", markup=False, highlight=False
        )
        messages().print(f"  {spelled(shown)}", markup=False, highlight=False)
        click.confirm("Is that what `cenote serve` printed there?", abort=True, err=True)
        pinned = shown
    token = click.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    kept = SignedIn(token=token.strip(), ca=str(trusted or ""), fingerprint=pinned)
    with connect(plain, token=kept.token, ca=f"sha256:{pinned}" if pinned else trusted) as connection:
        who = connection.caller
    keep_signed_in(plain, kept)
    rights = ", an admin" if who.admin else ""
    messages().print(f"signed in as '{who.user}'{rights}; kept in {signed_in_file()}", markup=False, highlight=False)
