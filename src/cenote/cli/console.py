"""Make the consoles: colours on terminals only, and never without NO_COLOR's leave.

What they print comes from others too. A name may hold the very commands that colour and redraw our displays, which
`streams` lets pass: consoles know which are theirs, and show all others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from cenote.cli.streams import without_commands

PIPED_WIDTH = 160
"""Columns when nobody's terminal decides: tables stay whole for grep."""


def output() -> Console:
    """Where answers go."""
    return _console(sys.stdout)


def messages() -> Console:
    """Where progress, warnings and errors go."""
    return _console(sys.stderr)


def to_file(file: TextIO) -> Console:
    """For an answer that is kept."""
    return _SafeConsole(file=file, highlight=False, markup=False, width=PIPED_WIDTH)


def print_lines(console: Console, lines: Iterable[str | Text]) -> None:
    """Each on a line of its own, however long."""
    for line in lines:
        console.print(line, soft_wrap=True)


def _console(file: TextIO) -> Console:
    terminal = file.isatty()
    width = None if terminal or "COLUMNS" in os.environ else PIPED_WIDTH
    return _SafeConsole(file=file, highlight=False, markup=False, emoji=False, soft_wrap=False, width=width)


class _SafeConsole(Console):
    """Obeys its own displays, and no text that they show."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As every console does."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(without_commands(segment.text), segment.style)
