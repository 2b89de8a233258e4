"""Let others see what a worker process is: its stage, the marks of its run, its words in the list of processes."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_LENGTH = 4
"""Bytes that say how long the name is."""
_LONGEST = 4096


class Whereabouts:
    """A few bytes that driver and worker share by an open file; writing them takes about a microsecond."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def new(cls) -> Whereabouts:
        """Of a worker that will be started, nowhere yet."""
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("cenote-stage"))
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def write(self, stage: str) -> None:
        """Say that this stage begins; an empty one, that none runs."""
        name = stage.encode(errors="replace")[:_LONGEST]
        os.pwrite(self.descriptor, len(name).to_bytes(_LENGTH, "little") + name, 0)

    def read(self) -> str | None:
        """The stage in which the worker is, or died; None where it was in none."""
        length = int.from_bytes(os.pread(self.descriptor, _LENGTH, 0), "little")
        return os.pread(self.descriptor, length, _LENGTH).decode(errors="replace") or None

    def close(self) -> None:
        """Nobody reads it any more."""
        os.close(self.descriptor)


# Name the variables that mark processes of this machine with the run that they belong to.


RUN, POOL, WORKER, HOME = "CENOTE_RUN", "CENOTE_POOL", "CENOTE_WORKER", "CENOTE_HOME"
MARKS = (RUN, POOL, WORKER, HOME)
"""A worker that starts others for itself takes them out of its own environment first."""


# Let the list of processes show a forked process as what it is.
#
# `/proc` keeps the words and variables that a process was started with; one that was forked has those of the
# process that it came from. They lie in its memory, where it may write over them.


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
