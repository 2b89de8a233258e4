"""Show what your site provides, or check a site configuration file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cenote.cli.options import JSON_OPTION
from cenote.common.errors import CenoteError


@click.group("site")
def command() -> None:
    """Show what your site provides, or check a site configuration file.

    A site keeps its defaults in one file: batch system, network, scratch folders, worker shapes. The file is searched
    in $CENOTE_SITE (a file, or `none`), then ~/.config/cenote/site.yaml, then /etc/cenote/site.yaml.
    """


@command.command("show", short_help="Show which site configuration was found, and what it provides.")
@JSON_OPTION
def show(*, as_json: bool) -> None:
    """Show which file was found and what it provides: defaults, pool profiles, network, settings of each strategy."""
    from cenote.cli.console import output
    from cenote.cli.views.site_page import nothing_found, site_lines
    from cenote.language.checks.site import check_site
    from cenote.language.layers.site import explained, find_site, site_places

    file = find_site()
    checked = check_site(file)
    if checked.site is None:
        raise CenoteError(explained(checked.problems, file, checked.root))
    if as_json:
        from cenote.cli.views.site_facts import site_as_json

        told = {"looked_in": [words for words, _ in site_places()], **site_as_json(checked.site)}
        click.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    console = output()
    for line in nothing_found() if file is None else site_lines(checked.site):
        console.print(line)


@command.command("check", short_help="Check a site configuration file and list every problem.")
@click.argument("file", type=click.Path(path_type=Path))
@JSON_OPTION
def check(file: Path, *, as_json: bool) -> int:
    """Check a site configuration file and list every problem with line and column."""
    from cenote.cli.views.problems import problems_as_json
    from cenote.language.checks.site import check_site

    problems = check_site(file).problems
    code = CenoteError(problems).exit_code if problems else 0
    if as_json:
        click.echo(problems_as_json(problems))
        return code
    if problems:
        raise CenoteError(problems)
    click.echo(f"{file}: no problems")
    return code
