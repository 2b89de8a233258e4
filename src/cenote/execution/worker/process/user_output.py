"""Take care of what the user's code prints, within bounds, and read what a worker wrote last."""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import Any, TextIO, cast

_STDOUT = 1
_LINE_BUFFERED = 1
"""glibc's and musl's _IOLBF."""
MOST_SAID = 20_000_000
"""Characters that Python code of one process may print to each log: a loop may print for every event."""


def say_lines_at_once() -> None:
    """Of a process whose output goes to a file: each line is written as it is said, also by C code.

    Workers are killed, or end without cleaning up; what was printed before must be in their logs.
    """
    for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
            setattr(sys, name, _Limited(stream))
    with suppress(OSError, ValueError, AttributeError):
        stdout = ctypes.c_void_p.in_dll(_libc(), "stdout")
        _libc().setvbuf(stdout, None, _LINE_BUFFERED, ctypes.c_size_t(0))


@contextmanager
def diverted(out: TextIO, err: TextIO | None = None) -> Iterator[None]:
    """While it lasts, what is printed in this process goes to `out`, also what C code writes to descriptor 1, and what
    Python writes to stderr to `err`, if that is given."""
    _flush(sys.stdout)
    with redirect_stdout(out), redirect_stderr(err or sys.stderr), _descriptor_to(out):
        yield


@contextmanager
def _descriptor_to(out: TextIO) -> Iterator[None]:
    """Descriptor 1 is where `out` goes; where either has none, nothing changes."""
    try:
        target, kept = out.fileno(), os.dup(_STDOUT)
    except (OSError, ValueError):  # a stream of a notebook, or of a process without a stdout
        yield
        return
    try:
        os.dup2(target, _STDOUT)
        yield
    finally:
        _flush(out)
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _flush(stream: TextIO) -> None:
    """What Python and C hold back, while the descriptor still is what it was meant for."""
    with suppress(OSError, ValueError, AttributeError):  # closed, or set to None, by somebody's code
        stream.flush()
    with suppress(OSError, AttributeError):
        _libc().fflush(None)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


class _Limited:
    """A stream that takes so much and no more, and says so; what C code writes goes past it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._said = stream, 0

    def __getattr__(self, name: str) -> Any:  # whatever else a stream has
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As every stream does, as far as there is room."""
        room = MOST_SAID - self._said
        self._said += len(text)
        if room >= 0:
            self._stream.write(text[:room])
            if len(text) > room:
                self._stream.write(f"\n… more than {MOST_SAID:,} characters: the rest is left out\n")
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """As every stream does."""
        for line in lines:
            self.write(line)


class OutputLog:
    """The log of a process that runs tasks itself: `out/NAME` and `err/NAME`, there once something was said."""

    def __init__(self, logs: Path, name: str) -> None:
        self._files = [logs / kind / name for kind in ("out", "err")]
        for file in self._files:
            file.parent.mkdir(parents=True, exist_ok=True)
        self._out, self._err = (
            cast(TextIO, _Limited(file.open("a", encoding="utf-8", buffering=1))) for file in self._files
        )

    def open(self) -> AbstractContextManager[None]:
        """While it lasts, what is printed is kept here."""
        return diverted(self._out, self._err)

    def close(self) -> None:
        """Nothing more will be said; files without a word go."""
        for file, stream in zip(self._files, (self._out, self._err), strict=True):
            stream.close()
            with suppress(OSError):
                if not file.stat().st_size:
                    file.unlink()


# Read what a worker wrote last: the lines that tell why it ended.


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
