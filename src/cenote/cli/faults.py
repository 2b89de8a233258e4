"""Report a fault of our own: shortly, with the full story in a file."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback

import click

from cenote import __version__


def show_fault(fault: BaseException) -> None:
    """Say what happened and where the traceback is; with CENOTE_DEBUG=1 print it."""
    story = "".join(traceback.format_exception(fault))
    if os.environ.get("CENOTE_DEBUG", "0") not in {"", "0"}:
        click.echo(story, err=True, nl=False)
        return
    message = (str(fault).splitlines() or ["(no message)"])[0]
    click.echo(f"cenote: an unexpected {type(fault).__name__}: {message}", err=True)
    try:
        where = _kept(story)
    except OSError as problem:
        click.echo(f"  the traceback could not be kept ({problem}); CENOTE_DEBUG=1 prints it", err=True)
        return
    click.echo(f"  this is an internal error of cenote, not of your workflow; the traceback is in {where}", err=True)
    click.echo("  hint: CENOTE_DEBUG=1 prints it", err=True)


def _kept(story: str) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="cenote-fault-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(f"cenote {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        file.write(f"{' '.join(sys.argv)}\n\n{story}")
        return file.name
