"""Start a new analysis that runs at once."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from cenote.cli.start import TEMPLATES, start_analysis


@click.command(
    "init", epilog="\b\nTemplates:\n" + "\n".join(f"  {name:<12} {entry.about}" for name, entry in TEMPLATES.items())
)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--template", type=click.Choice(list(TEMPLATES)), default="zmumu", show_default=True)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(folder: Path, *, template: str, force: bool) -> None:
    """Start a new analysis that runs at once: workflow, own operations, small generated data, README."""
    chosen = TEMPLATES[template]
    for path in start_analysis(folder, chosen, force=force):
        click.echo(f"wrote {path}")
    flow = shlex.quote(chosen.workflow)
    steps = [f"cenote plan {flow}", f"cenote run {flow}"]
    if folder != Path():
        steps.insert(0, f"cd {shlex.quote(str(folder))}")
    click.echo("\nnext:\n" + "\n".join(f"  {step}" for step in steps))
