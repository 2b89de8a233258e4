"""Show how far the packing of an environment is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cenote.packing.progress import PackingStep
from cenote.units import format_bytes

_LINE_EVERY = 5.0
"""Seconds between two lines about the same."""


def packing_line(step: PackingStep) -> str:
    """`packed-conda: compressing, 120 MB of 467 MB`."""
    return step.what + (f", {format_bytes(step.done)} of {format_bytes(step.total)}" if step.total else "")


def packing_bar(title: str, step: PackingStep) -> RenderableType:
    """The same for a terminal."""
    words = Text.assemble((f"{title} ", "bold"), packing_line(step), no_wrap=True, overflow="ellipsis")
    table = Table.grid(padding=(0, 2, 0, 0))
    bar = (ProgressBar(total=step.total, completed=step.done, width=24),) if step.total else ()
    table.add_row(words, *bar)
    return table


class PackingLines:
    """Where nothing can be drawn anew: a line for what begins, and now and then for what takes long."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        self._what, self._last = "", 0.0

    def __call__(self, step: PackingStep) -> None:
        """Perhaps print it."""
        if step.what != self._what or self._clock() - self._last >= _LINE_EVERY:
            self._what, self._last = step.what, self._clock()
            self._console.print(packing_line(step), soft_wrap=True)
