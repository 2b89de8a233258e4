"""The warm Python process: it has imported what is common, and becomes another process each time that it is asked to.

Started as `python -m cenote.execution.worker.process.template DESCRIPTOR WHAT …`: the socket to whoever asks, and
what to import, modules (`cenote.execution.worker.process.main`) and plugins (`source:root_tree`); where those have a
function `warm_up`, it is called. It never runs code of a task itself: each process is forked from it, in the state in
which it is, and runs a module as `python -m` would. When what it has imported is no longer what is installed, it ends
in place of forking: whoever asked starts another one.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import runpy
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import msgspec

from cenote.execution.worker.process.imported_software import ImportedSoftware
from cenote.execution.worker.process.whereabouts import show_as

LENGTH_BYTES = 4
MOST_DESCRIPTORS = 8
_DEFAULTS = (signal.SIGTERM, signal.SIGHUP)
_PID_BYTES = 8
_NOT_FLUSHED = 120
"""The exit code of a Python that could not write what was printed."""
_SET_DEATH_SIGNAL = 1
"""Of prctl, by linux/prctl.h."""


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    words: tuple[str, ...]
    """A module and its arguments, as after `python -m`. Numbers of the descriptors that come along are added."""
    folder: str
    variables: dict[str, str]
    """All that it has."""
    stdout: str
    stderr: str
    path: tuple[str, ...] = ()
    """Folders that it imports from first."""
    shown: tuple[str, ...] = ()
    """Names of variables that others look for in the list of processes."""
    watched: bool = False
    """Whether its end is told, and comes with the end of this process. Otherwise it becomes an orphan at once, for
    whoever reaps those above this process."""


class Warm(msgspec.Struct, frozen=True, tag=True):
    """All is imported."""

    threads: int
    """Of Python that run here: with one alone is it safe to fork."""


class Forked(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The process, or why there is none. Of one that is watched a handle (pidfd) comes along."""

    pid: int = 0
    problem: str = ""


class ProcessEnded(msgspec.Struct, frozen=True, tag=True):
    """A process that is watched is gone."""

    pid: int
    code: int
    """As Popen has it: below zero for a signal."""


Answer = Warm | Forked | ProcessEnded


def main() -> None:
    """Returns in forked processes only, at their end."""
    asker = socket.socket(fileno=int(sys.argv[1]))
    asker.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    what = sys.argv[2:-1]  # the last word is room for what forked processes are called
    show_as([*sys.orig_argv[:4], *what])
    _warm_up(what)
    server = _Server(asker)
    asked = server.serve()
    if asked is None:
        server.end_watched()
    else:
        _end(_code_of(*asked))


class _Server:
    """Answers until the other end is gone."""

    def __init__(self, asker: socket.socket) -> None:
        self._asker = asker
        self._watched: dict[int, int] = {}
        """Handle of a process → its number."""
        self._waiting = select.poll()
        self._waiting.register(asker, select.POLLIN)
        self._software = ImportedSoftware()

    def serve(self) -> tuple[ForkRequest, list[int]] | None:
        """What this process is to become, in a forked one, with descriptors; None when nobody will ask any more."""
        with suppress(OSError):
            self._tell(Warm(threading.active_count()))
            while True:
                for descriptor, _ in self._waiting.poll():
                    if descriptor in self._watched:
                        self._reap(descriptor)
                    elif (asked := self._received()) is None or self._is_outdated(asked[0]):
                        return None
                    elif self._fork(*asked):
                        return asked
        return None

    def end_watched(self) -> None:
        """Ask those that end with this process to do so, and what they started."""
        for pid in self._watched.values():
            _signal_group(pid, signal.SIGTERM)

    def _is_outdated(self, asked: ForkRequest) -> bool:
        """Those that are watched would end with this process; they belong to one run, which has one software."""
        return not asked.watched and self._software.has_changed

    def _fork(self, asked: ForkRequest, given: Sequence[int]) -> bool:
        """Whether this is the new process."""
        try:
            pid = _fork_watched() if asked.watched else _fork_apart()
        except OSError as problem:
            self._tell(Forked(problem=problem.strerror or str(problem)))
        else:
            if pid == 0:
                for descriptor in (self._asker.detach(), *self._watched):
                    os.close(descriptor)
                return True
            self._tell_of(pid, watched=asked.watched)
        for descriptor in given:
            os.close(descriptor)
        return False

    def _tell_of(self, pid: int, *, watched: bool) -> None:
        handles = [os.pidfd_open(pid)] if watched else []
        for handle in handles:
            self._watched[handle] = pid
            self._waiting.register(handle, select.POLLIN)
        self._tell(Forked(pid=pid), handles)

    def _reap(self, handle: int) -> None:
        pid = self._watched.pop(handle)
        self._waiting.unregister(handle)
        os.close(handle)
        _signal_group(pid, signal.SIGKILL)  # what it started ends with it; it is not reaped, so that the number is its
        _, status = os.waitpid(pid, 0)
        self._tell(ProcessEnded(pid, os.waitstatus_to_exitcode(status)))

    def _tell(self, answer: Answer, descriptors: Sequence[int] = ()) -> None:
        data = msgspec.msgpack.encode(answer)
        socket.send_fds(self._asker, [len(data).to_bytes(LENGTH_BYTES, "big") + data], descriptors)

    def _received(self) -> tuple[ForkRequest, list[int]] | None:
        received = receive(self._asker)
        return None if received is None else (msgspec.msgpack.decode(received[0], type=ForkRequest), received[1])


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def receive(line: socket.socket) -> tuple[bytes, list[int]] | None:
    """A message and the descriptors that came along; None where the other end is gone."""
    length, descriptors, _, _ = socket.recv_fds(line, LENGTH_BYTES, MOST_DESCRIPTORS)
    with suppress(EOFError):
        length += _exactly(line, LENGTH_BYTES - len(length))
        return _exactly(line, int.from_bytes(length, "big")), descriptors
    return None


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = line.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _warm_up(what: Sequence[str]) -> None:
    for name in what:
        with suppress(Exception):  # it is missing or broken here: a process that needs it says so
            _import(name)
    gc.collect()
    gc.freeze()  # what is here is never looked at again, so that its memory stays shared


def _import(name: str) -> None:
    kind, is_plugin, plugin = name.partition(":")
    if not is_plugin:
        getattr(import_module(name), "warm_up", lambda: None)()
        return
    from cenote.language.plugins import registry  # agents do without
    from cenote.language.plugins.kinds import PluginKind

    registry.load(PluginKind(kind), plugin).warm_up()


def _fork_watched() -> int:
    """0 in the new process, which leads a session of its own and ends with this one. Raises OSError."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:  # it ended in between
        os._exit(1)
    return 0


def _fork_apart() -> int:
    """The same, and an orphan: a process between the two ends at once."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            forked = os.fork()
        except OSError:
            os._exit(1)
        if forked:
            os._exit(0)
        os.setsid()
        os.write(writing, os.getpid().to_bytes(_PID_BYTES, "big"))
        os.close(reading)
        os.close(writing)
        return 0
    os.close(writing)
    told = os.read(reading, _PID_BYTES)
    os.close(reading)
    os.waitpid(between, 0)
    if not told:
        raise OSError(0, "the node has no room for another process")
    return int.from_bytes(told, "big")


def _code_of(asked: ForkRequest, descriptors: Sequence[int]) -> int:
    """The exit code, as Python would have it."""
    try:
        _become(asked, descriptors)
    except SystemExit as asked_to:
        if asked_to.code is None or isinstance(asked_to.code, int):
            return (asked_to.code or 0) & 0xFF
        sys.stderr.write(f"{asked_to.code}\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
    else:
        return 0
    return 1


def _become(asked: ForkRequest, descriptors: Sequence[int]) -> None:
    """Be a fresh Python that runs this."""
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _redirect(asked)
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.variables)
    sys.path[:0] = [part for part in asked.path if part not in sys.path]
    if (numbers := sys.modules.get("numpy.random")) is not None:
        numbers.seed()  # else all of them would draw the same numbers; `random` does it itself
    module, *arguments = (*asked.words, *map(str, descriptors))
    sys.argv[:] = [module, *arguments]
    show_as([*sys.orig_argv[:3], *sys.argv], {name: asked.variables[name] for name in asked.shown})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)  # it was imported to be warm
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _redirect(asked: ForkRequest) -> None:
    for path, flags, descriptor in (
        (os.devnull, os.O_RDONLY, 0),
        (asked.stdout, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 1),
        (asked.stderr, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 2),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)


def _end(code: int) -> NoReturn:
    """As Python ends, but for its last step: to take everything apart would write to all the memory that is shared with
    the warm process, which takes longer than most of them."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # waits for threads, as Python does
        atexit._run_exitfuncs()  # noqa: SLF001  # what was registered, as Python does
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or _NOT_FLUSHED
    os._exit(code)


if __name__ == "__main__":
    main()
