"""Read the command line of an agent, connect it to its service, and report attempts there."""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cenote.common.values import dataclass
from cenote.service.agent.attempts import HeldRun
from cenote.service.agent.folders import AgentFolders, matching, readable_name
from cenote.service.client.python_call import RETURNED
from cenote.service.protocol import (
    CHUNK,
    STREAMS,
    Output,
    ResultFile,
    StreamName,
    ToAgent,
    ToService,
    frame,
    read_for_agent,
)

DEFAULT_WARM = ("numpy", "numpy.random", "awkward", "cenote.execution.worker.run_task")


@dataclass(frozen=True)
class AgentOptions:
    """Who an agent is, and whom it belongs to."""

    host: str
    port: int
    """Where the service listens for agents."""
    identity: Path
    """The private file with its certificate."""
    name: str
    pool: str
    slots: int
    scratch: str
    """The folder of the node, with `$VARIABLES`, in which it makes one of its own."""
    orphan: float = 600.0
    """Seconds without the service after which it ends itself."""
    walltime: int | None = None
    """Seconds from the start of its job until the batch system ends it."""
    warm: tuple[str, ...] | None = None
    """Modules that Python instances find imported; the process that has them starts with the agent. Without them it
    starts with the first Python instance, and has the usual ones."""


def read_options(words: Sequence[str]) -> AgentOptions:
    """Ends the process where they are wrong, with the reason on stderr."""
    parser = argparse.ArgumentParser("cenote.service.agent.main", description="Run instances of tasks on this node.")
    parser.add_argument("--hub", required=True, metavar="HOST:PORT", help="where the service listens for agents")
    parser.add_argument("--identity", required=True, type=Path, metavar="FILE", help="the agent's certificate")
    parser.add_argument("--name", required=True, help="of the worker")
    parser.add_argument("--pool", required=True, help="that it belongs to")
    parser.add_argument("--slots", required=True, type=_at_least_one, help="instances at once")
    parser.add_argument("--scratch", required=True, metavar="DIR", help="folder for the instances' files")
    parser.add_argument(
        "--orphan", type=float, default=AgentOptions.orphan, metavar="SECONDS", help="to wait for a lost service"
    )
    parser.add_argument("--walltime", type=_at_least_one, metavar="SECONDS", help="until the batch system ends it")
    parser.add_argument("--warm", action="append", metavar="MODULE", help="imported before Python instances start")
    read = parser.parse_args(words)
    host, colon, port = read.hub.rpartition(":")
    if not colon or not port.isdecimal():
        parser.error(f"--hub {read.hub}: expected HOST:PORT")
    return AgentOptions(
        host=host.strip("[]"),
        port=int(port),
        identity=read.identity,
        name=read.name,
        pool=read.pool,
        slots=read.slots,
        scratch=read.scratch,
        orphan=read.orphan,
        walltime=read.walltime,
        warm=tuple(read.warm) if read.warm else None,
    )


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a number of at least 1")
    return int(text)


# Connect an agent to its service, by certificates of both.


_CONNECT_WITHIN = 20.0
"""Seconds."""
SILENT_AFTER = 30.0
"""Seconds without a word, after which the service is taken for gone: it pings more often."""


class ServiceLink:
    """One connection. Its methods raise OSError or EOFError once it is broken."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int, context: ssl.SSLContext) -> ServiceLink:
        """Raises OSError where nothing of the same service answers."""
        async with asyncio.timeout(_CONNECT_WITHIN):
            return cls(*await asyncio.open_connection(host, port, ssl=context, limit=2 * CHUNK))

    def post(self, message: ToService) -> None:
        """Send a short message, whenever it goes; where the link is broken, it is lost with it."""
        if not self._writer.is_closing():
            self._writer.write(frame(message))

    async def send(self, message: ToService) -> None:
        """Send, when what was sent before has gone."""
        await self._writer.drain()
        self.post(message)
        if self._writer.is_closing():
            raise EOFError("the connection is closed")

    async def receive(self) -> ToAgent:
        """The next message."""
        async with asyncio.timeout(
            SILENT_AFTER
        ):  # wait_for of Python 3.11 goes on if a message comes as it is cancelled
            return await read_for_agent(self._reader)

    async def close(self) -> None:
        """What was sent before still goes, if the other side reads."""
        with suppress(OSError, EOFError):
            self._writer.close()
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()


# Tell the service of an attempt: what it prints, its results, its end, in this order.


async def tell_news(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    """What is new of one that runs."""
    async with held.telling:
        if held.ended is None:
            await _tell_output(link, held, folders)
            await _tell_periodic_results(link, held, folders)


async def tell_end(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    """All that was not told, and the end."""
    assert held.ended is not None, "it has ended"
    async with held.telling:
        await _tell_output(link, held, folders)
        if (words := await _tell_results(link, held, folders)) and held.ended.cause == "exit":
            held.ended = msgspec.structs.replace(held.ended, cause="unkept", message=words)
        link.post(held.ended)


async def _tell_output(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    for stream in STREAMS:
        path = folders.output(held.start.job, stream)
        try:
            if path.stat().st_size <= held.sent[stream]:
                continue
            with path.open("rb") as file:
                file.seek(held.sent[stream])
                while data := file.read(CHUNK):
                    await link.send(_output(held, stream, data))
                    held.sent[stream] += len(data)
        except FileNotFoundError:
            continue


def _output(held: HeldRun, stream: StreamName, data: bytes) -> Output:
    start = held.start
    return Output(
        task=start.task,
        instance=start.instance,
        attempt=start.attempt,
        stream=stream,
        offset=held.sent[stream],
        data=data,
    )


async def _tell_periodic_results(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> None:
    now = asyncio.get_running_loop().time()
    if held.start.terms.results_period is None or now < held.results_due:
        return
    held.results_due = now + held.start.terms.results_period
    await _tell_results(link, held, folders)


async def _tell_results(link: ServiceLink, held: HeldRun, folders: AgentFolders) -> str:
    """Those that changed since they were sent; why they cannot be collected, or nothing."""
    if held.pid is None or not (held.start.terms.results or held.start.terms.python):
        return ""
    folder = folders.job(held.start.job)
    try:
        names = await asyncio.to_thread(matching, folder, held.start.terms.results) if held.start.terms.results else []
    except OSError as problem:
        return f"its results cannot be collected: {(problem.strerror or str(problem)).lower()}"
    for name in (*names, RETURNED) if held.start.terms.python else names:
        await _tell_result(link, held, folder, name)
    return ""


async def _tell_result(link: ServiceLink, held: HeldRun, folder: Path, name: str) -> None:
    try:
        file = os.fdopen(os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK), "rb")  # a pipe would keep us waiting
    except OSError:  # gone meanwhile, or not to be read: it is not a result
        return
    with file:
        facts = os.fstat(file.fileno())
        state = (facts.st_mtime_ns, facts.st_size)
        if held.results.get(name) == state:
            return
        offset, last = 0, False
        while not last:
            data = file.read(min(CHUNK, facts.st_size - offset))
            last = offset + len(data) >= facts.st_size or not data
            start = held.start
            await link.send(
                ResultFile(
                    task=start.task,
                    instance=start.instance,
                    attempt=start.attempt,
                    name=readable_name(name),
                    offset=offset,
                    data=data,
                    last=last,
                    executable=bool(facts.st_mode & 0o100),
                )
            )
            offset += len(data)
        held.results[name] = state
