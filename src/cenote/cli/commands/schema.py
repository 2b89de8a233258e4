"""Print the JSON Schema of files, or the OpenAPI document of services."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from cenote.cli.options import OUTPUT_OPTION, deliver

if TYPE_CHECKING:  # what `cenote schema --help` must not pay for
    from cenote.language.schema.json_schema import Purpose


@click.command("schema")
@click.option(
    "--of",
    "purpose",
    type=click.Choice(["workflow", "profile", "site", "service"]),
    default="workflow",
    show_default=True,
    help="Which files: workflows, profiles, or site configuration files; or requests to services.",
)
@OUTPUT_OPTION
def command(purpose: Purpose | Literal["service"], output: Path | None) -> None:
    """Print the JSON Schema of workflow files, for completion and checks in editors.

    `--of` selects the schema for profiles and included files, or for site configuration files. `--of service` prints
    the OpenAPI document of what can be asked of a service.

    \b
    With the YAML language server, put this on the first line of a workflow:
      # yaml-language-server: $schema=cenote.schema.json
    """
    match purpose:
        case "service":
            from cenote.service.http.answers import ROUTES
            from cenote.service.http.openapi import document_of

            schema = document_of(ROUTES)
        case _:
            from cenote.language.schema.json_schema import workflow_schema

            schema = workflow_schema(purpose)
    deliver(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", output)
