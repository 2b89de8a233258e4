"""Run a command for somebody's terminal, in a process of the service that has its imports already.

Started as `python -m cenote.cli.warm.lent SOCKET`. The command that was typed listens there (`lend_terminal`): it
sends its three standard streams and all that this process has to take on to be what it would have been itself. Where
that cannot be, this process says so and ends, and the command is run where it was typed.
"""

from __future__ import annotations

import locale
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import NoReturn, TextIO

import msgspec

from cenote.cli.main import main as run_command
from cenote.execution.worker.process.template import receive
from cenote.service.client.constants import JOB

ACCEPTED, REFUSED = b"\1", b"\0"
_AT_START = ("PYTHON", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "MKL_", "NUMEXPR_", "NUMBA_", "DASK_", "HOME", "XDG_")
"""How variables begin that count when Python or one of its libraries starts: a process that runs has taken them in."""
_STREAMS = ("stdin", "stdout", "stderr")


class StreamFacts(msgspec.Struct, frozen=True):
    """How a standard stream is written."""

    encoding: str
    errors: str


class LentTerminal(msgspec.Struct, frozen=True, kw_only=True):
    """What a command is run with."""

    arguments: tuple[str, ...]
    """Of `cenote`."""
    folder: str
    variables: dict[str, str]
    umask: int
    streams: tuple[StreamFacts, ...]
    identity: tuple[str, ...]
    """What a process cannot change of itself, in words."""
    limits: dict[int, tuple[int, int]]
    niceness: int
    cpus: frozenset[int]


def identity() -> tuple[str, ...]:
    """What a process cannot change of itself: its user and groups, its view of the files, and how it writes names."""
    mounts = os.readlink("/proc/self/ns/mnt")  # noqa: PTH115  # it is not a file
    users = (os.getresuid(), os.getresgid(), sorted(os.getgroups()))
    return (*map(str, users), mounts, sys.getfilesystemencoding(), sys.version)


def limits() -> dict[int, tuple[int, int]]:
    """Of this process (`ulimit`)."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {number: resource.getrlimit(number) for number in {getattr(resource, name) for name in names}}


def main() -> NoReturn:
    """Be the command."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        try:
            line.connect(sys.argv[1])
            received = receive(line)
        except OSError:  # the command was run elsewhere meanwhile
            sys.exit(0)
        if received is None:
            sys.exit(0)
        lent = msgspec.json.decode(received[0], type=LentTerminal)
        if not _can_be(lent):
            line.sendall(REFUSED)
            sys.exit(0)
        _take_on(lent, received[1])
        line.sendall(ACCEPTED)
        threading.Thread(target=_end_with, args=(line,), name="cenote-terminal", daemon=True).start()
        code = _code_of(lent)
        with suppress(OSError):
            line.sendall(bytes([code]))
    sys.exit(code)


def _can_be(lent: LentTerminal) -> bool:
    """Whether this process can be what the command would have been; takes on what the system may refuse."""
    if lent.identity != identity() or _at_start(lent.variables) != _at_start(dict(os.environ)):
        return False
    try:
        for number, limit in lent.limits.items():
            resource.setrlimit(number, limit)
        os.sched_setaffinity(0, lent.cpus)
        os.nice(lent.niceness - os.nice(0))
        os.chdir(lent.folder)
    except (OSError, ValueError):
        return False
    return True


def _at_start(variables: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_AT_START)}


def _take_on(lent: LentTerminal, descriptors: list[int]) -> None:
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.umask(lent.umask)
    kept = {JOB: os.environ[JOB]} if JOB in os.environ else {}  # by it the agent finds what the run left behind
    os.environ.clear()
    os.environ.update({**lent.variables, **kept})
    time.tzset()
    tempfile.tempdir = None  # it is looked for again
    with suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, "")
    for place, (name, facts) in enumerate(zip(_STREAMS, lent.streams, strict=True)):
        stream = _opened(place, facts)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv[:] = ["cenote", *lent.arguments]


def _opened(descriptor: int, facts: StreamFacts) -> TextIO:
    """As Python opens its own: lines go to terminals at once, and messages go anywhere at once."""
    name = _STREAMS[descriptor]
    by_lines = name == "stderr" or (name == "stdout" and os.isatty(descriptor))
    return open(
        descriptor,
        "r" if name == "stdin" else "w",
        buffering=1 if by_lines else -1,
        encoding=facts.encoding,
        errors=facts.errors,
        closefd=False,
    )


def _code_of(lent: LentTerminal) -> int:
    try:
        run_command(lent.arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1


def _end_with(line: socket.socket) -> None:
    """Nothing comes from the other end until it is gone: killed, or closed with its terminal."""
    with suppress(OSError):
        line.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
