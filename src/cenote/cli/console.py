"""Make the consoles: colours on terminals only, and never without NO_COLOR's leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TextIO

from rich.console import Console
from rich.text import Text

PIPED_WIDTH = 160
"""Columns when nobody's terminal decides: tables stay whole for grep."""


def output() -> Console:
    """Where answers go."""
    return _console(sys.stdout)


def messages() -> Console:
    """Where progress, warnings and errors go."""
    return _console(sys.stderr)


def user_code_aside() -> AbstractContextManager[None]:
    """While it lasts, what the user's code prints in this process goes to stderr: stdout is for our answers."""
    from cenote.worker.process.user_output import diverted

    return diverted(sys.stderr)


def print_lines(console: Console, lines: Iterable[str | Text]) -> None:
    """Each on a line of its own, however long."""
    for line in lines:
        console.print(line, soft_wrap=True)


def _console(file: TextIO) -> Console:
    terminal = file.isatty()
    width = None if terminal or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)
