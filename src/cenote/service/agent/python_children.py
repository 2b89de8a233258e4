"""Start Python instances by the warm process, which is started when it is first needed, and again when it died."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cenote.service.agent.guard import MARK
from cenote.shell import Process, end_processes, start_process
from cenote.worker.process.forking import template_command
from cenote.worker.process.template import LENGTH_BYTES, Answer, Forked, ForkRequest


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
