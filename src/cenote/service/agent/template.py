"""The warm Python process: it has imported what is common, and becomes a Python instance each time that it is asked to.

Started as `python -m cenote.service.agent.template DESCRIPTOR MODULE …`. It never runs code of a task itself: each
instance is forked from it, in the state in which it is. Between them a process is forked that ends at once, so that the
agent, which reaps all below it, is the parent of the instance.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import msgspec

from cenote.client.python_call import RETURNED, PythonCall
from cenote.service.agent.function_calls import make_calls

LENGTH_BYTES = 4
_DEFAULTS = (signal.SIGTERM, signal.SIGHUP)
_PID_BYTES = 8
_NOT_FLUSHED = 120
"""The exit code of a Python that could not write what was printed."""


class PythonStart(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent asks for."""

    call: PythonCall
    folder: str
    variables: dict[str, str]
    stdout: str
    stderr: str
    function: str = ""
    """The file with the function, where there is one."""
    calls: str = ""
    """The file with its calls."""


class PythonStarted(msgspec.Struct, frozen=True, kw_only=True):
    """What it is told: the process, or why there is none."""

    pid: int = 0
    problem: str = ""


def main() -> None:
    """Returns in instances only, at their end."""
    agent = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm_up(sys.argv[2:])
    asked = _serve(agent)
    agent.close()
    if asked is not None:
        _end(_code_of(asked))


def _code_of(asked: PythonStart) -> int:
    """The exit code, as Python would have it."""
    try:
        return _become(asked)
    except SystemExit as asked_to:
        if asked_to.code is None or isinstance(asked_to.code, int):
            return (asked_to.code or 0) & 0xFF
        sys.stderr.write(f"{asked_to.code}\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1


def _end(code: int) -> NoReturn:
    """As Python ends, but for its last step: to take everything apart would write to all the memory that instances
    share with the warm process, which takes longer than most of them."""
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


def _warm_up(modules: Sequence[str]) -> None:
    for name in modules:
        with suppress(Exception):  # it is missing or broken here: an instance that needs it says so
            import_module(name)
    gc.collect()
    gc.freeze()  # what is here is never looked at again, so that its memory stays shared


def _serve(agent: socket.socket) -> PythonStart | None:
    """What this process is to become, in an instance; None when the agent is gone."""
    decoder = msgspec.msgpack.Decoder(PythonStart)
    while True:
        body = _read(agent)
        if body is None:
            return None
        asked = decoder.decode(body)
        try:
            pid = _fork()
        except OSError as problem:
            answer = PythonStarted(problem=problem.strerror or str(problem))
        else:
            if pid == 0:
                return asked
            answer = PythonStarted(pid=pid)
        data = msgspec.msgpack.encode(answer)
        agent.sendall(len(data).to_bytes(LENGTH_BYTES, "big") + data)


def _read(agent: socket.socket) -> bytes | None:
    length = _exactly(agent, LENGTH_BYTES)
    return None if length is None else _exactly(agent, int.from_bytes(length, "big"))


def _exactly(agent: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        try:
            part = agent.recv(count - len(data))
        except OSError:
            return None
        if not part:
            return None
        data += part
    return data


def _fork() -> int:
    """0 in the instance, which leads a session of its own; here its number. Raises OSError."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        try:
            instance = os.fork()
        except OSError:
            os._exit(1)
        if instance:
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


def _become(asked: PythonStart) -> int:
    """Be a fresh Python that runs this; returns the exit code."""
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _redirect(asked)
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.variables)
    own = [part for part in asked.variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:0] = [asked.folder, *(part for part in own if part not in sys.path)]
    if (numbers := sys.modules.get("numpy.random")) is not None:
        numbers.seed()  # else all instances would draw the same numbers; `random` does it itself
    return _function(asked) if asked.call.function else _module(asked.call)


def _redirect(asked: PythonStart) -> None:
    for path, flags, descriptor in (
        (os.devnull, os.O_RDONLY, 0),
        (asked.stdout, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 1),
        (asked.stderr, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 2),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)


def _module(call: PythonCall) -> int:
    sys.argv[:] = [call.module, *call.arguments]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)  # it was imported to be warm
        runpy.run_module(call.module, run_name="__main__", alter_sys=True)
    return 0


def _function(asked: PythonStart) -> int:
    """How its calls ended is a file in the folder."""
    sys.argv[:] = [""]
    number = int(asked.variables["INSTANCE_ID"])
    files = Path(asked.function), Path(asked.calls)
    return make_calls(*files, number, Path(asked.folder, RETURNED), asked.call.limit)


if __name__ == "__main__":
    main()
