"""Start and end child processes: Python instances forked from warm processes, and everything that they start.

The agent is the reaper of all that is below it: what an instance leaves behind becomes a child of the agent, and is
found here however it detached itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cenote.common.shell import Process, end_processes, start_process
from cenote.common.values import dataclass
from cenote.execution.worker.process.forking import template_command
from cenote.execution.worker.process.template import LENGTH_BYTES, Answer, Forked, ForkRequest
from cenote.service.agent.guard import MARK
from cenote.service.client.constants import JOB

_SET_CHILD_SUBREAPER = 36
"""Of prctl, by linux/prctl.h."""
PATIENCE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_KILLED_WITHIN = 2.0
"""Seconds in which a process that got SIGKILL is gone, unless the system holds it."""
_ROUNDS = 100
"""Of ending what is left: each may find what those started that it ended."""


@dataclass(frozen=True)
class ChildEnd:
    """How a child ended, and what it used, with those of its own children that it waited for."""

    exit_code: int | None
    signal: int | None
    cpu_seconds: float
    peak_memory: int
    """Bytes, of the largest process."""


def reap_descendants() -> bool:
    """Make orphans below this process its children; whether the system can."""
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    return False


async def exit_of(pid: int) -> None:
    """Wait until a child has ended. It is not reaped: its number stays its own."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):  # Linux before 5.3

        def wait() -> None:
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=wait, daemon=True).start()
        await ended.wait()
        return
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def signal_group(leader: int, number: signal.Signals) -> None:
    """To a child and its process group, for as long as the child is not reaped."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def ask_to_end(leader: int, *, alone: bool) -> None:
    """SIGTERM, to a child alone or with its process group, for as long as the child is not reaped."""
    if alone:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(leader, signal.SIGTERM)
    else:
        signal_group(leader, signal.SIGTERM)


def reap(pid: int) -> ChildEnd:
    """Of a child that ended; its process group ends with it."""
    signal_group(pid, signal.SIGKILL)
    try:
        _, status, used = os.wait4(pid, 0)
    except ChildProcessError:  # somebody's library waited for it
        return ChildEnd(None, None, 0.0, 0)
    code = os.waitstatus_to_exitcode(status)
    return ChildEnd(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        cpu_seconds=used.ru_utime + used.ru_stime,
        peak_memory=used.ru_maxrss * 1024,
    )


async def end_strays(known: Callable[[], Collection[int]], job: Callable[[], str | None]) -> None:
    """End what an ended instance left behind outside its process group; without a job, all that is there.

    `known` are the agent's own children. Both are asked for again in each round, for others begin and end meanwhile.
    Only children of the main thread are looked at: all are.
    """
    for _ in range(_ROUNDS):
        ours, ended = known(), job()
        strays = [pid for pid in _children() if pid not in ours and _is_of(pid, ended)]
        if not strays:
            return
        for pid in strays:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with suppress(TimeoutError):
                async with asyncio.timeout(_KILLED_WITHIN):
                    await exit_of(pid)
            _forget(pid)


def _children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:  # a kernel without it: process groups have been ended already
        return []
    return [int(word) for word in text.split()]


def _is_of(pid: int, job: str | None) -> bool:
    """One that has ended is nobody's any more, and is reaped here."""
    if job is None:
        return True
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        variables = b""
    if not variables:
        _forget(pid)
        return False
    return f"{JOB}={job}".encode() in variables.split(b"\0")


def _forget(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


# Start Python instances by the warm process, which is started when it is first needed, and again when it died.


class NoTemplateError(Exception):
    """Why no Python instance can be started, in words."""


class PythonChildren:
    """The warm process and the way to it."""

    def __init__(self, modules: Sequence[str], folder: Path, log: Path) -> None:
        self._modules, self._folder, self._log = modules, folder, log
        self._process: Process | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._one_at_a_time = asyncio.Lock()

    @property
    def pid(self) -> int:
        """Of the warm process; 0 where there is none."""
        return self._process.pid if self._process else 0

    async def warm_up(self) -> None:
        """Start the warm process now: the first instance need not wait for its imports."""
        async with self._one_at_a_time:
            await self._connected()

    async def start(self, asked: ForkRequest) -> int:
        """The process of a new instance, which is a child of this one. Raises NoTemplateError."""
        async with self._one_at_a_time:
            for _ in range(2):  # it may have died since it was last asked
                with suppress(EOFError, OSError):
                    answer = await self._ask(asked)
                    if answer.problem:
                        raise NoTemplateError(f"Python could not be forked: {answer.problem}")
                    return answer.pid
                self._end()
        last = self._log.read_text(errors="replace").strip().splitlines()[-1:] if self._log.exists() else []
        raise NoTemplateError(": ".join(("the process that Python instances come from ended", *last)))

    def close(self) -> None:
        """End the warm process; instances go on."""
        self._end()

    async def _ask(self, asked: ForkRequest) -> Forked:
        reader, writer = await self._connected()
        data = msgspec.msgpack.encode(asked)
        writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
        await writer.drain()
        try:
            while True:
                length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
                answer = msgspec.msgpack.decode(await reader.readexactly(length), type=Answer)
                if isinstance(answer, Forked):
                    return answer
        except asyncio.IncompleteReadError as problem:
            raise EOFError("it ended") from problem

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            ours, its = socket.socketpair()
            with its:
                self._process = start_process(
                    template_command(its.fileno(), self._modules),
                    pass_fds=[its.fileno()],
                    variables={MARK: str(self._folder)},
                    stderr=self._log,
                )
            self._streams = await asyncio.open_connection(sock=ours)
        return self._streams

    def _end(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None
        if self._process is not None:
            end_processes([self._process], patience=1.0)
            self._process = None


# Keep the warm processes of an agent: one for each set of modules that Python instances want to find imported.


_CALLS = "cenote.service.agent.function_calls"
"""What instances run that make calls of a function."""
_OURS = "cenote."
"""How modules begin that may be imported beforehand: code of others runs in instances alone."""


class Templates:
    """Each is started when it is first needed."""

    def __init__(self, usual: Sequence[str], folder: Path) -> None:
        self._usual, self._folder = tuple(usual), folder
        self._known: dict[tuple[str, ...], PythonChildren] = {}

    @property
    def pids(self) -> set[int]:
        """Of the warm processes."""
        return {one.pid for one in self._known.values()}

    async def warm_up(self) -> None:
        """Start the one with the usual modules."""
        await self._of(()).warm_up()

    async def start(self, asked: ForkRequest, warm: tuple[str, ...]) -> int:
        """The process of a new instance, which finds these modules imported. Raises NoTemplateError."""
        return await self._of(warm).start(asked)

    def close(self) -> None:
        """End them; instances go on."""
        for one in self._known.values():
            one.close()

    def _of(self, modules: tuple[str, ...]) -> PythonChildren:
        wanted = tuple(name for name in modules if name.startswith(_OURS))
        if wanted not in self._known:
            log = self._folder / f"template-{len(self._known) + 1}.err"
            self._known[wanted] = PythonChildren((_CALLS, *self._usual, *wanted), self._folder, log)
        return self._known[wanted]
