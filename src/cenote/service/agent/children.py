"""Wait for child processes and end them, with everything that they started.

The agent is the reaper of all that is below it: what an instance leaves behind becomes a child of the agent, and is
found here however it detached itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from cenote.client.constants import JOB
from cenote.values import dataclass

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
