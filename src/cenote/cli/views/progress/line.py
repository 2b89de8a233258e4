"""Show how a run goes in one line that is written over and over, where a notebook or script asks for it."""

from __future__ import annotations

import sys
from typing import TextIO

from cenote.cli.views.progress.live import progress_line
from cenote.runs.view import RunView

WIDTH = 110
"""Columns written each time, so that a short line leaves nothing of a longer one behind."""


class ProgressLine:
    """A listener for `run(..., listen=...)`; after the last update the line stays."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._ended: str | None = None

    def __call__(self, view: RunView) -> None:
        """Write the line anew."""
        if view.run is None or view.run == self._ended:
            return
        line = progress_line(view).strip()
        file = self._file or sys.stdout
        if view.finished:
            self._ended = view.run
            line = f"{line}, {view.status}"
        file.write(f"\r{line[:WIDTH]:<{WIDTH}}" + ("\n" if view.finished else ""))
        file.flush()


show_progress = ProgressLine()
"""Ready to be passed: `cenote.load("flow.yaml").run(listen=cenote.show_progress)`."""
