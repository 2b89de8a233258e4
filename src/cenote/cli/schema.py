"""This file is `cenote schema`: the JSON Schema of workflow files."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("schema")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead of the terminal."
)
def command(output: Path | None) -> None:
    """Print the JSON Schema of workflow files, so that editors complete and check while typing.

    \b
    With the YAML language server, put this on the first line of a workflow:
      # yaml-language-server: $schema=cenote.schema.json
    """
    from cenote.language.json_schema import workflow_schema

    text = json.dumps(workflow_schema(), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
