"""Tell who is behind a Unix socket: the service's owner, or an instance of a task, which has its user's rights only.

Instances run as the owner's Unix user, so the kernel's word for the user is not enough. Agents reap whatever their
instances leave behind, so every process of an instance descends from its agent, however it detached itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from cenote.service.client.constants import JOB
from cenote.service.protocol import AttemptKey
from cenote.service.server.agent_launch import MODULE

_ROOT = 0
_AGENT = MODULE.encode()
"""In the command line of every agent."""
_MARK = f"{JOB}=".encode()
"""Of every instance's environment."""
_PATIENCE, _STEP = 2.0, 0.02
"""Seconds until an agent has said which instance a new process is, and between two looks."""
RunningHere = Callable[[int], Mapping[int, AttemptKey] | None]
"""The process of an agent on this machine → its instances by their processes; None for what is no agent of ours."""


class StrangerError(Exception):
    """Nobody whom the service knows."""


async def task_behind(line: socket.socket, running: RunningHere) -> str | None:
    """The task whose instance is at the other end; None for the owner, or root. Raises StrangerError."""
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if user not in (os.geteuid(), _ROOT):
        raise StrangerError("this service belongs to another user")
    if pid == os.getpid():
        return None
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE
    while True:
        own = set(_ancestors(os.getpid()))
        line_up = [one for one in _ancestors(pid) if one not in own]
        if not line_up and pid not in own:
            raise StrangerError("the program that asks is gone")
        agents = [place for place, one in enumerate(line_up) if running(one) is not None or _is_agent(one)]
        if not agents:
            if _job(pid) not in (b"", _job(os.getpid())):
                raise StrangerError("what instances of tasks leave behind has no access")
            return None
        found = {attempt.task for one in line_up for attempt in _known(line_up, agents, running, one)}
        if len(found) == 1:
            return found.pop()
        if loop.time() > until:
            raise StrangerError("a process of an agent that is not an instance of a task of this service has no access")
        await asyncio.sleep(_STEP)


def _known(line_up: list[int], agents: list[int], running: RunningHere, pid: int) -> list[AttemptKey]:
    """The instance that this process is, by the word of the first agent above it."""
    at = line_up.index(pid)
    above = next((place for place in agents if place > at), None)
    instances = None if above is None else running(line_up[above])
    return [instances[pid]] if instances and pid in instances else []


def _ancestors(pid: int) -> list[int]:
    """A process, its parent and so on; empty where it is gone."""
    found: list[int] = []
    while pid > 0 and pid not in found:
        try:
            facts = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            break
        found.append(pid)
        pid = int(facts[facts.rindex(b")") + 2 :].split()[1])  # after its name, which may hold anything
    return found


def _is_agent(pid: int) -> bool:
    try:
        return _AGENT in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _job(pid: int) -> bytes:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return b""
    return next((one for one in variables if one.startswith(_MARK)), b"")
