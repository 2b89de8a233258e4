"""Lay out the files of functions, calls and outcomes, and how a call can fail. Light: every agent reads it.

A function and its calls are pickles, read by the instances that run them; outcomes are pickles, read only by the
program that made the calls.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from cenote.common.values import dataclass

_PLACE = struct.Struct(">QQ")
_COUNT = struct.Struct(">Q")
_OUTCOME = struct.Struct(">Qd?")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Of this process. Functions travel as bytecode, which only the same minor version runs."""


class SentFunction(msgspec.Struct, frozen=True, kw_only=True):
    """A function as it travels, once for a task."""

    python: str
    """The version that pickled it, as `PYTHON`."""
    path: tuple[str, ...]
    """Folders in which the program finds its own modules."""
    function: bytes
    """Its pickle."""

    def write(self, file: Path) -> None:
        """To a file that is not there yet."""
        file.write_bytes(msgspec.msgpack.encode(self))

    @classmethod
    def read(cls, file: Path) -> SentFunction:
        """From such a file."""
        return msgspec.msgpack.decode(file.read_bytes(), type=cls)


@dataclass(frozen=True)
class CallOutcome:
    """How one call ended."""

    succeeded: bool
    seconds: float
    content: bytes
    """A pickle of what it returned; or of what it raised, with the traceback as text."""


def write_calls(file: Path, chunks: Sequence[bytes]) -> None:
    """Pickles of calls, one for each instance."""
    with file.open("wb") as opened:
        opened.write(_COUNT.pack(len(chunks)))
        place = _COUNT.size + len(chunks) * _PLACE.size
        for chunk in chunks:
            opened.write(_PLACE.pack(place, len(chunk)))
            place += len(chunk)
        opened.writelines(chunks)


def read_calls(file: Path, instance: int) -> bytes:
    """The pickle of the calls that this instance makes."""
    with file.open("rb") as opened:
        opened.seek(_COUNT.size + instance * _PLACE.size)
        place, length = _PLACE.unpack(opened.read(_PLACE.size))
        opened.seek(place)
        return opened.read(length)


def write_outcome(file: BinaryIO, outcome: CallOutcome) -> None:
    """To the end of an unbuffered file, so that it outlives a process that dies in its next call."""
    data = memoryview(_OUTCOME.pack(len(outcome.content), outcome.seconds, outcome.succeeded) + outcome.content)
    while data:
        data = data[file.write(data) :]


def read_outcomes(data: bytes) -> Iterator[CallOutcome]:
    """All that are whole, in the order of the calls: one that is not was cut off with its process."""
    place, view = 0, memoryview(data)
    while place + _OUTCOME.size <= len(data):
        length, seconds, succeeded = _OUTCOME.unpack_from(data, place)
        place += _OUTCOME.size
        if place + length > len(data):
            return
        yield CallOutcome(succeeded, seconds, bytes(view[place : place + length]))
        place += length


# Define how a call on a pool can fail that did not raise anything itself.


class ProcessEndedError(RuntimeError):
    """A call ended its process, or its process was ended: by a signal, by `os._exit`, with its worker."""


class NotPicklableError(TypeError):
    """A function, an argument or a result that cannot travel."""


class RemoteError(RuntimeError):
    """Stands for an exception of a call that cannot be put together again here; has its words."""


class RemoteTraceback(Exception):  # noqa: N818  # the cause of an exception, and none that is raised
    """The traceback of an exception where it was raised, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"
