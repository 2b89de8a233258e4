"""Let the list of processes show a forked process as what it is.

`/proc` keeps the words and variables that a process was started with; one that was forked has those of the process that
it came from. They lie in its memory, where it may write over them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOM = " " * 4000
"""A last word for the command of a process that others are forked from: room for theirs."""
_STAT = Path("/proc/self/stat")
_FIRST = 45
"""Where `/proc/…/stat` has the beginning and end of words and variables in memory, counted after the name."""


def show_as(words: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    """From now on this process is listed with these words, and with these variables before those it had; as much of
    both as there is room for. Nothing happens where the system does not say where they lie."""
    with suppress(OSError, ValueError, IndexError):
        facts = _STAT.read_text().rpartition(")")[2].split()[_FIRST : _FIRST + 4]
        begin, end, first, last = (int(fact) for fact in facts)
        _write("\0".join(words).encode(errors="surrogateescape"), begin, end - begin)
        if variables:
            before = ctypes.string_at(first, last - first)
            text = "".join(f"{name}={value}\0" for name, value in variables.items())
            _write(text.encode(errors="surrogateescape") + before, first, last - first)


def _write(text: bytes, address: int, room: int) -> None:
    """The last byte stays a NUL: it tells the system that the text ends here."""
    if address and room > 0:
        ctypes.memmove(address, text[: room - 1].ljust(room, b"\0"), room)
