"""Keep pools that outlive runs, and a queue of tasks for them."""

from __future__ import annotations

import os
from pathlib import Path

import click

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_HIGHEST_PORT = 65535


@click.command("serve")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option(
    "--home", type=click.Path(path_type=Path, file_okay=False), help="Folder of the service; by default your own."
)
@click.option("--host", help="Address of this machine that workers on others connect to; without it, they cannot.")
@click.option("--listen", metavar="HOST:PORT", help="Let others with tokens connect here, over HTTPS.")
@click.option("--certificate", type=_FILE, help="For --listen: certificate of your site, instead of one of its own.")
@click.option("--key", type=_FILE, help="For --listen: the key of the certificate.")
@click.option("--private", is_flag=True, help="End when it has had nothing to do for ten minutes.")
@click.option("--stop", is_flag=True, help="Stop the service that has the folder, with its workers.")
@click.option("--reload", is_flag=True, help="Let the service that has the folder read its FILE again.")
@click.option("--drain", is_flag=True, help="With --stop: finish what runs, and start nothing new.")
@click.option("--systemd", type=click.Choice(["user", "system"]), help="Print a unit for systemd, and serve nothing.")
def command(
    file: Path | None,
    *,
    home: Path | None,
    host: str | None,
    listen: str | None,
    certificate: Path | None,
    key: Path | None,
    private: bool,
    stop: bool,
    reload: bool,
    drain: bool,
    systemd: str | None,
) -> None:
    """Keep pools that outlive runs, and a queue of tasks for them. FILE has pool profiles, pools to begin with,
    and the rules by which they are shared.

    Programs reach it with `cenote.connect()`, people with `cenote pools`, `queue`, `tasks` and `logs`.
    """
    from cenote.cli.console import messages
    from cenote.common.errors import USAGE, error
    from cenote.common.text import plural
    from cenote.service.client.address import spelled
    from cenote.service.client.home import ServiceHome, user_name, usual_home
    from cenote.service.client.records import ServiceRecord
    from cenote.service.client.start import reload_service, stop_service
    from cenote.service.http.doors import NetworkDoor
    from cenote.service.server.serve import ServeOptions, serve
    from cenote.service.server.systemd import unit_text

    folder = (home or usual_home()).absolute()
    if reload:
        reload_service(ServiceHome(folder))
        return
    if drain and not stop:
        raise error(USAGE, "--drain goes with --stop")
    if (certificate is None) != (key is None) or (certificate is not None and listen is None):
        raise error(USAGE, "--certificate, --key and --listen belong together")
    if systemd is not None:
        user = user_name(os.geteuid()) if systemd == "system" else None
        options = (("--listen", listen), ("--certificate", certificate), ("--key", key))
        listening = [word for option, value in options if value for word in (option, _written(value))]
        click.echo(unit_text(home=folder, file=file, host=host, listening=listening, system_user=user), nl=False)
        return
    if stop:
        if (running := stop_service(ServiceHome(folder), drain=drain)) and not drain:
            words = f"{plural(running, 'instance')} ran: the next service that has this folder begins them again"
            messages().print(words, highlight=False, markup=False)
        return
    door = None
    if listen is not None:
        name, _, port = listen.rpartition(":")
        if not name or not port.isdecimal() or int(port) > _HIGHEST_PORT:
            raise error(USAGE, f"--listen {listen}: expected HOST:PORT")
        door = NetworkDoor(name.strip("[]"), int(port), certificate, key)

    def tell(ready: ServiceRecord) -> None:
        messages().print(f"serving from {folder}; Ctrl-C stops it with its workers", highlight=False, markup=False)
        if ready.url:
            messages().print(f"others connect to {ready.url}, with tokens", highlight=False, markup=False)
            messages().print(f"its certificate is {spelled(ready.fingerprint)}", highlight=False, markup=False)

    serve(ServeOptions(home=folder, file=file, host=host, private=private, door=door), tell)


def _written(value: str | Path) -> str:
    """As another process understands it, which starts elsewhere."""
    return str(value.absolute()) if isinstance(value, Path) else value
