"""List operations and other plugins, or the settings of one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from cenote.cli.completions import complete_plugin_of_any_kind
from cenote.cli.options import JSON_OPTION
from cenote.language.plugins.kinds import PluginKind


@click.command("ops")
@click.argument("name", required=False, shell_complete=complete_plugin_of_any_kind)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in PluginKind]),
    default=PluginKind.OPERATION.value,
    show_default=True,
    help="Which kind of plugin.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A Python file with plugins of your own to look at too.",
)
@JSON_OPTION
def command(name: str | None, *, kind: str, plugins: tuple[Path, ...], as_json: bool) -> None:
    """List operations and other plugins, or show the settings of one with types, defaults and an example."""
    from cenote.cli.console import output
    from cenote.cli.views.plugin_pages import described, list_lines, page_lines, rows
    from cenote.language.plugins import registry

    for file in plugins:
        registry.add_file(file.absolute())
    if name is None:
        found = list(rows(PluginKind(kind)))
        if as_json:
            click.echo(json.dumps([asdict(row) for row in found], indent=2, ensure_ascii=False))
            return
        for line in list_lines(PluginKind(kind), found):
            output().print(line)
        return
    page = described(PluginKind(kind), name)
    if as_json:
        click.echo(json.dumps(asdict(page), indent=2, ensure_ascii=False))
        return
    for line in page_lines(page):
        output().print(line)
    click.echo("\n".join(f"  {line}" for line in page.example.splitlines()), nl=bool(page.example))
