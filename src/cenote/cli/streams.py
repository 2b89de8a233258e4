"""This file makes the three standard streams usable, whatever the command was started with.

Answers that nothing can take end a command. Messages that nothing can take are lost, and the command goes on: a run
does not depend on who watches it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, TextIO, cast

STDOUT = "the standard output"
_IN, _OUT, _ERR = 0, 1, 2


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


def let_go(descriptor: int) -> None:
    """What is still written to it goes nowhere, so that Python does not complain at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


class _Stream:
    """A stream that knows what to do when it cannot be written to."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # whatever else a stream has
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As every stream does."""
        try:
            return self._stream.write(text)
        except OSError as problem:
            self._failed(problem)
            return len(text)

    def flush(self) -> None:
        """As every stream does."""
        try:
            self._stream.flush()
        except OSError as problem:
            self._failed(problem)

    def _failed(self, problem: OSError) -> None:
        raise NotImplementedError


class _Answers(_Stream):
    """Raises with a name: an error of stdout must not look like one of some file."""

    def _failed(self, problem: OSError) -> None:
        let_go(self._stream.fileno())
        raise OSError(problem.errno, problem.strerror, STDOUT) from None


class _Messages(_Stream):
    """Never raises."""

    def _failed(self, problem: OSError) -> None:  # noqa: ARG002  # there is nowhere to tell it
        let_go(self._stream.fileno())


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
