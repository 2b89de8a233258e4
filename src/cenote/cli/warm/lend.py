"""Let a process of the user's service run the command that was typed, on this terminal: it has its imports already.

Whoever typed it sees no difference but the time. This process waits, passes signals on, and ends with the exit code of
the other, which ends with it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from cenote.cli.warm.drivers import drivers_are_warm, hand_over_terminal
from cenote.cli.warm.lent import ACCEPTED, LentTerminal, StreamFacts, identity, limits
from cenote.common import errors, signals, storage
from cenote.execution.worker.process.template import LENGTH_BYTES
from cenote.service.client.connection import connect
from cenote.service.client.task_flows import TaskHandle

_TO_BEGIN = 10.0
"""Seconds for the other process to answer; it takes milliseconds, unless its node is busy."""
_LOOK_EVERY = 100
"""Milliseconds between two looks for signals to pass on."""
_OWNER = "3i"
"""Process, user and group at the other end of a socket."""


def run_there(service: str | None, out: Path) -> int | None:
    """The exit code of this command, run by a process of the service; None where it has to be run here: no service
    answers, or none of its processes is ready, or it cannot be what this one is."""
    line = None
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    with suppress(errors.CenoteError, OSError, UnicodeEncodeError):
        line = _accepted(service, out)
    if line is None:
        return None
    with line:
        return _followed(line, out)


def _accepted(service: str | None, out: Path) -> socket.socket | None:
    """The line to a process that is this command from now on."""
    with connect(service or None, start=False) as connection, ExitStack() as unless_accepted:
        if not drivers_are_warm(connection):
            return None
        with _listening() as (listener, path):
            task = hand_over_terminal(connection, path, out=out)
            unless_accepted.callback(_leave, task)
            line, _ = listener.accept()
        unless_accepted.callback(line.close)
        line.settimeout(_TO_BEGIN)
        if _other_end(line)[1] != os.geteuid() or not _is_taken(line):
            return None
        unless_accepted.pop_all()
        return line


def _is_taken(line: socket.socket) -> bool:
    """Send what this process is and has; whether the other one is the same from now on."""
    data = msgspec.json.encode(_lent())
    socket.send_fds(line, [len(data).to_bytes(LENGTH_BYTES, "big")], [0, 1, 2])
    line.sendall(data)
    return line.recv(1) == ACCEPTED


def _lent() -> LentTerminal:
    umask = os.umask(0o077)
    os.umask(umask)
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return LentTerminal(
        arguments=tuple(sys.argv[1:]),
        folder=os.getcwd(),  # noqa: PTH109  # as text
        variables=dict(os.environ),
        umask=umask,
        streams=tuple(StreamFacts(stream.encoding, stream.errors or "strict") for stream in streams),
        identity=identity(),
        limits=limits(),
        niceness=os.nice(0),
        cpus=frozenset(os.sched_getaffinity(0)),
    )


@contextmanager
def _listening() -> Iterator[tuple[socket.socket, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="cenote-terminal-")).absolute()
    try:
        path = folder / "socket"
        if len(os.fsencode(path)) > storage.LONGEST_SOCKET:
            raise OSError(f"{path} is too long a name for a socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(_TO_BEGIN)
            yield listener, path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _leave(task: TaskHandle) -> None:
    with suppress(errors.CenoteError):
        task.cancel()


def _followed(line: socket.socket, out: Path) -> int:
    """Pass signals on, until it has ended; its exit code."""
    process, _, _ = _other_end(line)
    line.setblocking(True)
    waiting = select.poll()
    waiting.register(line, select.POLLIN)
    passed = 0
    with signals.noted() as received, _stopping_both(process):
        while not waiting.poll(_LOOK_EVERY):
            for number in received.numbers[passed:]:
                passed += 1
                with suppress(OSError):
                    os.kill(process, number)
        code = line.recv(1)
    if not code:
        raise errors.error(
            errors.DRIVER_LOST,
            "the process of the service that drove this run was ended from outside, and reported nothing",
            hint=f"the same command continues it; `cenote status {out}` shows how far it came",
        )
    return code[0]


@contextmanager
def _stopping_both(process: int) -> Iterator[None]:
    """Ctrl-Z stops the other process too, and `fg` lets it go on."""

    def stop(*_: object) -> None:
        with suppress(OSError):
            os.kill(process, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(OSError):
            os.kill(process, signal.SIGCONT)

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def _other_end(line: socket.socket) -> tuple[int, int, int]:
    """Its process, user and group, as the kernel knows them."""
    facts = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_OWNER))
    process, user, group = struct.unpack(_OWNER, facts)
    return process, user, group
