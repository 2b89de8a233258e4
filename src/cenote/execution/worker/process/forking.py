"""Start processes of this machine by forking them from a warm one, which takes milliseconds instead of a second."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cenote.common.shell import ALONE, Process, end_processes, start_process
from cenote.common.values import dataclass
from cenote.execution.worker.process.template import (
    LENGTH_BYTES,
    Answer,
    Forked,
    ForkRequest,
    ProcessEnded,
    Warm,
    receive,
)
from cenote.execution.worker.process.whereabouts import ROOM

MODULE = "cenote.execution.worker.process.template"
_TO_ANSWER = 60.0
"""Seconds for a warm process to import everything, and to fork; without an answer it is given up."""
_TO_TELL = 5.0
"""Seconds for it to say how a process ended that is gone."""
_ENDED_WITH_TEMPLATE = -int(signal.SIGTERM)
"""How the system ends those whose warm process is gone."""
_PATIENCE = 1.0


class NoForkError(Exception):
    """This warm process cannot fork: whatever was wanted has to be started in full."""


def template_command(descriptor: int, what: Iterable[str]) -> list[str]:
    """Starts a warm process that listens there and has imported this."""
    return [sys.executable, *ALONE, "-m", MODULE, str(descriptor), *what, ROOM]


def can_fork() -> bool:
    """Whether this system has handles of processes (Linux 5.3): without them a number may be another's by now."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


@dataclass(frozen=True)
class ForkedOutput:
    """Files that what a process says is added to."""

    stdout: Path
    stderr: Path


class WarmProcess:
    """A warm process, and the way to it. Several threads may use it."""

    def __init__(self, process: Process, line: socket.socket) -> None:
        self._process, self._line = process, line
        self._started = time.monotonic()
        self._lock = threading.RLock()
        self._warm = False
        self._gone = False
        self._codes: dict[int, int] = {}
        """How processes ended, by number, until somebody asks."""
        self._forked: list[tuple[Forked, list[int]]] = []
        self.forks = 0

    @classmethod
    def start(cls, what: Iterable[str], variables: Mapping[str, str], log: Path) -> WarmProcess:
        """With this environment. Returns at once: its imports take a second."""
        ours, its = socket.socketpair()
        with its:
            process = start_process(
                template_command(its.fileno(), what), pass_fds=[its.fileno()], environment=variables, stderr=log
            )
        return cls(process, ours)

    @property
    def pid(self) -> int:
        """Of the warm process."""
        return self._process.pid

    @property
    def line(self) -> socket.socket:
        """Readable when there is news of it."""
        return self._line

    @property
    def is_usable(self) -> bool:
        """Whether it may fork, now or soon."""
        with self._lock:
            self._hear(0)
            late = not self._warm and time.monotonic() - self._started > _TO_ANSWER
            return not self._gone and not late

    @property
    def is_warm(self) -> bool:
        """Whether it would fork at once."""
        with self._lock:
            self._hear(0)
            return self._warm and not self._gone

    def fork(
        self,
        words: Sequence[str],
        *,
        variables: Mapping[str, str],
        output: ForkedOutput,
        shown: Sequence[str] = (),
        descriptors: Sequence[int] = (),
    ) -> ForkedProcess:
        """A process that runs this module with these arguments, followed by the numbers of the descriptors.

        These variables are its whole environment. Waits for the imports, where they are not done. Raises NoForkError.
        """
        asked = ForkRequest(
            words=tuple(words),
            folder=_working_directory(),
            variables=dict(variables),
            stdout=str(output.stdout),
            stderr=str(output.stderr),
            shown=tuple(shown),
            watched=True,
        )
        with self._lock:
            forked, handles = self._ask(asked, descriptors)
        if forked.problem:
            raise NoForkError(f"a process could not be forked: {forked.problem}")
        self.forks += 1
        return ForkedProcess(self, forked.pid, handles[0])

    def code_of(self, pid: int) -> int:
        """How a process ended that is gone."""
        until = time.monotonic() + _TO_TELL
        with self._lock:
            while pid not in self._codes and self._hear(until - time.monotonic()):
                pass
            return self._codes.pop(pid, _ENDED_WITH_TEMPLATE)

    def close(self) -> None:
        """End it, and with it what it forked."""
        with self._lock:
            self._gone = True
            self._line.close()
            for _, handles in self._forked:
                for handle in handles:
                    os.close(handle)
            self._forked.clear()
            end_processes([self._process], patience=_PATIENCE)

    def _ask(self, asked: ForkRequest, descriptors: Sequence[int]) -> tuple[Forked, list[int]]:
        until = time.monotonic() + _TO_ANSWER
        try:
            data = msgspec.msgpack.encode(asked)
        except UnicodeEncodeError as problem:
            raise NoForkError(f"a word or a variable is not UTF-8: {problem}") from problem
        try:
            while not self._warm and self._hear(until - time.monotonic()):
                pass
            if not self._warm:
                raise NoForkError("the process that others are forked from does not answer, or is gone")
            self._line.settimeout(_TO_ANSWER)
            socket.send_fds(self._line, [len(data).to_bytes(LENGTH_BYTES, "big")], descriptors)
            self._line.sendall(data)
        except OSError as problem:
            self._gone = True
            raise NoForkError(str(problem)) from problem
        while not self._forked and self._hear(until - time.monotonic()):
            pass
        if not self._forked:
            self._gone = True  # an answer that comes too late would be taken for the next one
            raise NoForkError("the process that others are forked from does not answer, or is gone")
        return self._forked.pop()

    def _hear(self, seconds: float) -> bool:
        """Take in what it says; False where it has said nothing for so long, or is gone."""
        heard = False
        while not self._gone and _is_readable(self._line.fileno(), 0 if heard else max(0.0, seconds)):
            received = None
            with suppress(OSError):
                self._line.settimeout(_TO_TELL)
                received = receive(self._line)
            if received is None:
                self._gone = True
            else:
                self._note(msgspec.msgpack.decode(received[0], type=Answer), received[1])
                heard = True
        return heard

    def _note(self, answer: Answer, descriptors: list[int]) -> None:
        match answer:
            case Warm(threads):
                self._warm = True
                self._gone = threads > 1  # what it has imported does more than to be imported
            case Forked():
                self._forked.append((answer, descriptors))
            case ProcessEnded(pid, code):
                self._codes[pid] = code


class ForkedProcess:
    """A process that was forked, used as one that was started is."""

    def __init__(self, template: WarmProcess, pid: int, handle: int) -> None:
        self.pid = pid
        self._template, self._handle = template, handle
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self._code is None and self._is_gone(0):
            self.wait()
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended. Raises TimeoutError."""
        if self._code is None:
            if not self._is_gone(timeout):
                raise TimeoutError(f"process {self.pid} has not ended within {timeout:g} s")
            self._code = self._template.code_of(self.pid)
            os.close(self._handle)
        return self._code

    def terminate(self) -> None:
        """Ask it to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._code is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def _is_gone(self, seconds: float | None) -> bool:
        return _is_readable(self._handle, seconds)


def _working_directory() -> str:
    try:
        return os.getcwd()  # noqa: PTH109  # Path.cwd() is this and more
    except FileNotFoundError:
        return "."  # it was removed: the warm process is in it too


def _is_readable(descriptor: int, seconds: float | None) -> bool:
    waiting = select.poll()  # `select` knows the first 1024 descriptors only
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if seconds is None else seconds * 1000))
