"""Make the three standard streams usable, whatever the command was started with.

Answers that nothing can take end a command. Messages that nothing can take are lost, and the command goes on: a run
does not depend on who watches it. Names and messages come from workflows, folders and servers of others: what would
command a terminal is shown instead, but for colours and the cursor of a progress display.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TextIO, cast

from cenote.common.text import TURNING

STDOUT = "the standard output"
_IN, _OUT, _ERR = 0, 1, 2
_COMMANDS = re.compile(rf"(\x1b\[(?:[0-9;]*[AKm]|\?25[hl]))|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{TURNING}]")
"""What terminals obey; the group holds what our own displays use."""
_ANY_COMMAND = re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{TURNING}]")


def make_ready() -> None:
    """For the whole process, before anything is opened or printed."""
    for descriptor in (_IN, _OUT, _ERR):
        if not _is_open(descriptor):
            _fill(descriptor)
    if sys.stdout is None:  # closed from the start
        sys.stdout = open(_OUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # for the whole process
    if sys.stderr is None:
        sys.stderr = open(_ERR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # for the whole process
    if not isinstance(sys.stdout, _Answers):
        sys.stdout = cast(TextIO, _Answers(sys.stdout))
        sys.stderr = cast(TextIO, _Messages(sys.stderr))


def user_code_aside() -> AbstractContextManager[None]:
    """While it lasts, what the user's code prints in this process goes to stderr: stdout is for our answers."""
    from cenote.execution.worker.process.user_output import diverted

    return diverted(sys.stderr)


def give_back() -> None:
    """At the very end: Python closes its own streams, and what was lost has been told."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    sys.stdout, sys.stderr = _own(sys.stdout), _own(sys.stderr)


def _own(stream: TextIO) -> TextIO:
    return stream.inner if isinstance(stream, _Stream) else stream


def without_commands(text: str) -> str:
    """With everything that a terminal would obey shown instead, but for tabs and new lines."""
    return _ANY_COMMAND.sub(_shown, text)


def let_go(descriptor: int) -> None:
    """What is still written to it goes nowhere, so that Python does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class ReaderGoneError(Exception):
    """Whatever read our output went away. Under its own name click and rich would catch it and exit with 1."""


class _Stream:
    """A stream that knows what to do when it cannot be written to."""

    def __init__(self, stream: TextIO) -> None:
        self.inner = stream

    def __getattr__(self, name: str) -> Any:  # whatever else a stream has
        return getattr(self.inner, name)

    def write(self, text: str) -> int:
        """As every stream does."""
        with self._watched():
            self.inner.write(_COMMANDS.sub(_harmless, text))
        return len(text)

    def flush(self) -> None:
        """As every stream does."""
        with self._watched():
            self.inner.flush()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            let_go(self.inner.fileno())
            self._lose(problem)

    def _lose(self, problem: OSError) -> None:
        """Something that was written is lost."""


class _Messages(_Stream):
    """Never raises: there is nowhere to tell it."""


class _Answers(_Stream):
    """Raises as soon as something is lost, and whenever it is used afterwards: libraries try, and keep silent."""

    _lost: Exception | None = None

    def _lose(self, problem: OSError) -> None:
        gone = isinstance(problem, BrokenPipeError)
        self._lost = ReaderGoneError() if gone else OSError(problem.errno, problem.strerror, STDOUT)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        with super()._watched():
            yield
        if self._lost is not None:
            raise self._lost


def _harmless(command: re.Match[str]) -> str:
    return command[1] or _shown(command)


def _shown(command: re.Match[str]) -> str:
    number = ord(command[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _fill(descriptor: int) -> None:
    """Put something under a free number, before some other file gets it and is written over."""
    if descriptor == _OUT:  # as if the reader had gone away
        end, other = os.pipe()
        os.close(end)
    else:
        other = os.open(os.devnull, os.O_RDWR)
    if other != descriptor:
        os.dup2(other, descriptor)
        os.close(other)
