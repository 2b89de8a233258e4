"""Print the JSON Schema of workflow files, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cenote.cli.options import OUTPUT_OPTION, deliver

if TYPE_CHECKING:  # what `cenote schema --help` must not pay for
    from cenote.language.schema.json_schema import Purpose


@click.command("schema")
@click.option(
    "--of",
    "purpose",
    type=click.Choice(["workflow", "profile", "site"]),
    default="workflow",
    show_default=True,
    help="Which files: workflows, profiles, or site configuration files.",
)
@OUTPUT_OPTION
def command(purpose: Purpose, output: Path | None) -> None:
    """Print the JSON Schema of workflow files, for completion and checks in editors.

    `--of` selects the schema for profiles and included files, or for site configuration files.

    \b
    With the YAML language server, put this on the first line of a workflow:
      # yaml-language-server: $schema=cenote.schema.json
    """
    from cenote.language.schema.json_schema import workflow_schema

    deliver(json.dumps(workflow_schema(purpose), indent=2, ensure_ascii=False) + "\n", output)
