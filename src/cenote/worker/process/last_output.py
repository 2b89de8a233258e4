"""Read what a worker wrote last: the lines that tell why it ended."""

from __future__ import annotations

import os
from pathlib import Path

_LAST_LINES = 8
_CRASH = "Fatal Python error:"
"""How the interpreter begins when a library crashes: the stack comes after it, innermost first."""
_LAST_BYTES = 20_000
"""Of which the last lines are taken: a worker's output may be very long."""


def last_lines(*files: Path) -> str:
    """The telling lines of the first of these files that has any."""
    return next((lines for file in files if (lines := last_words(tail(file)))), "")


def last_words(text: str) -> str:
    """The lines of a worker's output that tell why it ended: a crash from its first line on, else the last ones."""
    lines = [line for line in text.splitlines() if line.strip()]
    crashes = [number for number, line in enumerate(lines) if line.startswith(_CRASH)]
    return "\n".join(lines[crashes[-1] :][:_LAST_LINES] if crashes else lines[-_LAST_LINES:])


def tail(file: Path) -> str:
    """The end of a file, whole lines or not; nothing where it cannot be read."""
    try:
        with file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _LAST_BYTES))
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
