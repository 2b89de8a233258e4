"""Hold the connections of agents, on the service's side: who is there, what they say, what they are told.

Both sides show a certificate of the same service before anything is read. What an agent says waits in one bounded
queue, so a service that is busy slows its agents down and keeps its memory; an agent that does not read is let go and
comes back.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from cenote.common.certificates.identity import Identity
from cenote.common.values import dataclass
from cenote.service.protocol import (
    CHUNK,
    VERSION,
    AttemptEnded,
    AttemptKey,
    FileChunk,
    FileRefused,
    Hello,
    NeedFile,
    Ping,
    PlacedFile,
    Pong,
    ProtocolError,
    Started,
    ToAgent,
    ToService,
    TurnedAway,
    Welcome,
    frame,
    read_for_service,
)
from cenote.service.server.newcomers import Newcomers, listen

_FIRST_WORDS = 20.0
"""Seconds to show a certificate, and then to say Hello."""
_MOST_NEWCOMERS = 256
"""That have not shown one yet."""
_MOST_UNREAD = 64 * 1024 * 1024
"""Bytes that wait for one agent: one that lets more wait is let go."""
_ENOUGH_UNREAD = 4 * CHUNK
"""Bytes that wait for one agent before the next part of a file does."""
_MOST_EVENTS = 256
"""That wait for the service."""


@dataclass(frozen=True)
class AgentJoined:
    """An agent is there, for the first time or again: its Hello says what it has."""

    worker: str
    hello: Hello


@dataclass(frozen=True)
class AgentLeft:
    """Its connection is gone; it may come back, and goes on meanwhile."""

    worker: str
    reason: str


@dataclass(frozen=True)
class AgentSaid:
    """A message that is for the service: Started, Output, ResultFile, AttemptEnded or Leaving."""

    worker: str
    message: ToService


HubEvent = AgentJoined | AgentLeft | AgentSaid
KnownOutput = Callable[[AttemptKey], tuple[int, int]]
"""Bytes of stdout and stderr of an attempt that the service has."""


def digest_of(file: Path) -> str:
    """By which agents know its content. Raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class HubBusyError(OSError):
    """None of the ports can be listened on."""


@dataclass(frozen=True)
class HubLimits:
    """How patient a hub is, in seconds."""

    ping_every: float = 5.0
    silent_after: float = 30.0
    """Without a word an agent is let go."""


_PATIENT = HubLimits()


class Hub:
    """Listens for agents. Everything happens in the loop that `open` was called in."""

    def __init__(
        self, identity: Identity, *, known_output: KnownOutput = lambda _: (0, 0), limits: HubLimits = _PATIENT
    ) -> None:
        self._context = identity.listening()
        self._known_output = known_output
        self._limits = limits
        self._peers: dict[str, _Peer] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._files: dict[str, Path] = {}
        self._servers: list[asyncio.Server] = []
        self._newcomers = Newcomers(_MOST_NEWCOMERS)
        self.events: asyncio.Queue[HubEvent] = asyncio.Queue(_MOST_EVENTS)
        """What happened, in order. Whoever has the hub takes from here."""
        self.port = 0

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of agents that are connected."""
        return tuple(self._peers)

    def running_here(self, pid: int) -> Mapping[int, AttemptKey] | None:
        """Instances of the agent that is this process of this machine, by their own; None where it is none."""
        here = socket.gethostname()
        found = [peer for peer in self._peers.values() if (peer.hello.pid, peer.hello.host) == (pid, here)]
        return found[0].running if found else None

    async def open(self, host: str, ports: Iterable[int] = (0,)) -> None:
        """Listen on the first of these ports that is free. Raises HubBusyError where none is."""
        problem: OSError | None = None
        for port in ports:
            try:
                lines = listen(host, port, self._newcomers)
            except OSError as taken:
                problem = taken
                continue
            self._servers = [
                await asyncio.start_server(
                    self._take, sock=line, ssl=self._context, ssl_handshake_timeout=_FIRST_WORDS, limit=2 * CHUNK
                )
                for line in lines
            ]
            self.port = lines[0].getsockname()[1]
            return
        raise HubBusyError(f"there is no free port for agents at {host}: {problem or 'none was named'}") from problem

    async def close(self) -> None:
        """Let all agents go; they look for the service again."""
        for server in self._servers:
            server.close()
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def send(self, worker: str, message: ToAgent) -> bool:
        """Tell an agent; False where it is not connected and greeted: it says what it has before it is told anything.

        Raises ProtocolError where the message is too large.
        """
        peer = self._peers.get(worker)
        return peer is not None and peer.greeted and peer.put(frame(message))

    def let_go(self, worker: str, reason: str) -> None:
        """Close the connection of an agent; it comes back, and tells again what was not acknowledged."""
        if (peer := self._peers.get(worker)) is not None:
            peer.let_go(reason)

    def greet(self, worker: str) -> None:
        """From now on this agent can be told something: what it has is known. Once for each AgentJoined."""
        if (peer := self._peers.get(worker)) is not None:
            peer.greeted = True

    def offer(self, file: Path, name: str | None = None, *, digest: str = "") -> PlacedFile:
        """Have the content of a file ready for agents that need it. Raises OSError where it cannot be read.

        It must stay as it is: what changed is not sent. Where its digest is known, it is not read.
        """
        digest = digest or digest_of(file)
        facts = file.stat()
        self._files[digest] = file
        return PlacedFile(name or file.name, digest, facts.st_size, executable=bool(facts.st_mode & 0o100))

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "asyncio calls it in one"
        self._connections.add(task)
        self._newcomers.know(writer.get_extra_info("socket").fileno())  # by its certificate
        try:
            await self._meet(reader, writer)
        except (OSError, EOFError, ProtocolError, asyncio.CancelledError):
            pass  # strangers, and those that left before they said who they are
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_FIRST_WORDS):
            hello = await read_for_service(reader)
        if not isinstance(hello, Hello):
            raise ProtocolError("an agent begins with Hello")
        if (refusal := await self._refusal(hello)) is not None:
            writer.write(frame(refusal))
            with suppress(ssl.SSLError):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
            return
        peer = _Peer(hello, reader, writer)
        self._peers[hello.name] = peer
        reason = "the service ends"
        try:
            await self.events.put(AgentJoined(hello.name, hello))
            peer.put(frame(self._welcome(hello)))
            reason = await self._attend(peer)
        finally:
            del self._peers[hello.name]
            peer.gone.set()
            left = AgentLeft(hello.name, reason)
            with suppress(asyncio.QueueFull):  # only when the hub is closed, and nobody takes events any more
                await self.events.put(left) if reason != "the service ends" else self.events.put_nowait(left)

    async def _refusal(self, hello: Hello) -> TurnedAway | None:
        if hello.version != VERSION:
            return TurnedAway(reason=f"it speaks version {hello.version}, the service {VERSION}: use one Cenote")
        other = self._peers.get(hello.name)
        if other is not None and other.hello.session == hello.session:  # it noticed first that its connection is dead
            other.let_go("it connected again")
            await other.gone.wait()
            other = self._peers.get(hello.name)
        if other is not None:
            where = f"process {other.hello.pid} on {other.hello.host}"
            return TurnedAway(reason=f"a worker named {hello.name} is connected already: {where}", again=True)
        return None

    def _welcome(self, hello: Hello) -> Welcome:
        return Welcome(outputs=tuple((held.key, *self._known_output(held.key)) for held in hello.held))

    async def _attend(self, peer: _Peer) -> str:
        """Until the connection is gone; why it is."""
        work = [
            asyncio.ensure_future(job)
            for job in (self._listen(peer), peer.write(), self._watch(peer), self._post(peer))
        ]
        try:
            either: list[asyncio.Future[Any]] = [*work, peer.end]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if peer.end.done():
                return peer.end.result()
            return next((str(job.exception() or "its connection is closed") for job in work if job.done()), "")
        finally:
            for job in work:
                job.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _listen(self, peer: _Peer) -> None:
        while True:
            message = await read_for_service(peer.reader)
            peer.heard = asyncio.get_running_loop().time()
            match message:
                case Pong():
                    pass
                case NeedFile():
                    peer.wants.put_nowait(message.digest)
                case Hello():
                    raise ProtocolError("an agent says Hello once")
                case _:
                    peer.note(message)
                    peer.heard = float("inf")  # while the service is busy, it is not the agent that is silent
                    await self.events.put(AgentSaid(peer.hello.name, message))
                    peer.heard = asyncio.get_running_loop().time()

    async def _watch(self, peer: _Peer) -> None:
        loop, number = asyncio.get_running_loop(), 0
        while True:
            await asyncio.sleep(self._limits.ping_every)
            if loop.time() - peer.heard > self._limits.silent_after:
                raise EOFError(f"it sent nothing for {self._limits.silent_after:g} s")
            peer.put(frame(Ping(number=(number := number + 1))))

    async def _post(self, peer: _Peer) -> None:
        """Files that the agent asked for, one after the other."""
        while True:
            digest = await peer.wants.get()
            try:
                await self._send_file(peer, digest)
            except OSError as problem:
                peer.put(frame(FileRefused(digest=digest, reason=problem.strerror or str(problem))))

    async def _send_file(self, peer: _Peer, digest: str) -> None:
        path = self._files.get(digest)
        if path is None:
            peer.put(frame(FileRefused(digest=digest, reason="the service does not have it any more")))
            return
        offset, last = 0, False
        with path.open("rb") as file:
            while not last:
                data = file.read(CHUNK)
                last = len(data) < CHUNK
                await peer.room.wait()
                peer.put(frame(FileChunk(digest=digest, offset=offset, data=data, last=last)))
                offset += len(data)


@dataclass(eq=False)
class _Peer:
    """One connected agent."""

    hello: Hello
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    wants: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    """Whether the next part of a file may wait here."""
    heard: float = 0.0
    greeted: bool = False
    """Whether the service knows what it has."""

    def __post_init__(self) -> None:
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.heard = asyncio.get_running_loop().time()
        self._outbox: deque[bytes] = deque()
        self._unread = 0
        self._filled = asyncio.Event()
        self.room.set()
        self.running = {held.pid: held.key for held in self.hello.held if held.pid and held.state == "running"}

    def note(self, message: ToService) -> None:
        """Which processes its instances are."""
        if isinstance(message, Started):
            self.running[message.pid] = message.key
        elif isinstance(message, AttemptEnded):
            self.running = {pid: key for pid, key in self.running.items() if key != message.key}

    def put(self, data: bytes) -> bool:
        """Have it sent; False where the agent is being let go."""
        if self.end.done():
            return False
        self._unread += len(data)
        if self._unread > _MOST_UNREAD:
            self.let_go("it does not read its messages")
            return False
        self._outbox.append(data)
        self._filled.set()
        if self._unread > _ENOUGH_UNREAD:
            self.room.clear()
        return True

    def let_go(self, reason: str) -> None:
        """Close its connection."""
        if not self.end.done():
            self.end.set_result(reason)

    async def write(self) -> None:
        """Until the connection is gone."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._outbox:
                data = self._next_part()
                self.writer.write(data)
                await self.writer.drain()
                self._unread -= len(data)
                if self._unread <= _ENOUGH_UNREAD:
                    self.room.set()

    def _next_part(self) -> bytes:
        """Messages that go together: what is said in one turn is one packet, and wakes the agent once."""
        parts = [self._outbox.popleft()]
        size = len(parts[0])
        while self._outbox and size < CHUNK:
            parts.append(self._outbox.popleft())
            size += len(parts[-1])
        return b"".join(parts)
