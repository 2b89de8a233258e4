"""Run a small workflow over three pools, from data to pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cenote.cli.start import TEMPLATES, check_software, make_data, text_files


@click.command("demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default="cenote-demo",
    show_default=True,
    help="Folder for the workflow, its data and the results.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
def command(out: Path, *, quiet: bool) -> int:
    """Run a small workflow over three pools, from data to pictures.

    Afterwards the folder is an analysis like any other: change its files and run it again.
    """
    from cenote.api import load
    from cenote.cli.commands.run import tell_outcome
    from cenote.cli.console import messages
    from cenote.cli.views.progress.live import progress_on

    template = TEMPLATES["three-pools"]
    check_software(template)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in text_files(template):
        if not (out / name).exists():  # what somebody changed is theirs
            (out / name).write_text(content, encoding="utf-8")
    if not (out / "data").is_dir():
        make_data(out)
    flow = out / template.workflow
    folder = out / "out"
    with progress_on(messages(), quiet=quiet, title=flow.name) as progress:
        run = load(flow).run(
            folder, fresh=True, listen=progress, progress=progress.planning, command=["cenote", *sys.argv[1:]]
        )
    again = f"cenote run {flow} --out {folder}"
    tell_outcome(run, again=again, quiet=quiet)
    if not quiet:
        click.echo(f"\nthe workflow is {flow}; change it, then `{again}`")
    return run.exit_code
