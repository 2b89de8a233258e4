"""Define what agents and the service say to each other, and how it travels: frames of msgpack, each with its length
before it.

Nothing here is trusted: a frame has a largest size, a message its fields, and a name of a file stays within its folder.
Light, because every agent imports it.
"""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import msgspec

from cenote.service.client.definitions import TaskTerms

VERSION = 2
"""Of this language; the service turns others away."""
LARGEST_FRAME = 8 * 1024 * 1024
"""Bytes of one message."""
CHUNK = 256 * 1024
"""Bytes of a file, or of output, in one message."""
_LENGTH_BYTES = 4

Cause = Literal["exit", "signal", "timeout", "stopped", "lost", "refused", "evicted", "unkept"]
"""Why an attempt is over: by itself, by a signal, by its time limit, because it was asked to, because its worker lost
it, because it could not be begun, because its worker had to go, by itself with results that cannot be collected."""
StreamName = Literal["stdout", "stderr"]
STREAMS: tuple[StreamName, ...] = ("stdout", "stderr")


class AttemptKey(NamedTuple):
    """Which start of which instance of which task."""

    task: str
    instance: int
    attempt: int


class PlacedFile(msgspec.Struct, frozen=True):
    """A file that is put into a folder of the agent under this name."""

    name: str
    """Relative, with `/` between folders."""
    digest: str
    """SHA-256 of its content, in hexadecimal digits: the agent fetches each content once."""
    size: int
    executable: bool = False


class _OfAttempt(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    instance: int
    attempt: int

    @property
    def key(self) -> AttemptKey:
        """Which attempt it is about."""
        return AttemptKey(self.task, self.instance, self.attempt)


# from the service to an agent


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer to Hello: how much of the output of its attempts the service has already."""

    outputs: tuple[tuple[AttemptKey, int, int], ...] = ()
    """Bytes of stdout and of stderr; attempts that are not here are sent from their beginning."""


class TurnedAway(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The other answer to Hello."""

    reason: str
    again: bool = False
    """Whether it may help to try again, for a while."""


class Start(_OfAttempt, frozen=True, kw_only=True, tag=True):
    """Run this. What is known already is never run twice; what finds no free slot waits for one, in order."""

    terms: TaskTerms
    files: tuple[PlacedFile, ...] = ()
    """The `resources` of its terms, as they are put into its working folder."""
    job: str
    """Its JOB_UUID, of this attempt alone: names its working folder."""


class Stop(_OfAttempt, frozen=True, kw_only=True, tag=True):
    """End it: SIGTERM, and SIGKILL once its grace is over. What has not come yet will not be begun."""

    reason: str = ""


class Acknowledge(_OfAttempt, frozen=True, kw_only=True, tag=True):
    """Its end is recorded: the agent forgets its output and removes its folder."""


class PoolFiles(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Files for all instances, one folder above theirs. Starts that come after it wait for them."""

    files: tuple[PlacedFile, ...]


class FileChunk(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A part of a file that the agent asked for."""

    digest: str
    offset: int
    data: bytes
    last: bool


class FileRefused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The service cannot send it."""

    digest: str
    reason: str


class DrainAgent(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Begin nothing more; end when what runs is over and acknowledged."""


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """End everything, now."""


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Are you there?"""

    number: int


# from an agent to the service


class HeldAttempt(_OfAttempt, frozen=True, kw_only=True):
    """What an agent has when it connects."""

    state: Literal["waiting", "running", "ended"]
    pid: int | None = None


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first message of an agent, each time that it connects."""

    version: int = VERSION
    name: str
    pool: str
    slots: int
    session: str
    """Of this process: an agent that comes back has the same, another of the same name has not."""
    host: str
    pid: int
    versions: dict[str, str] = {}
    """Of Python and Cenote."""
    leaves_in: float | None = None
    """Seconds until it begins nothing more, because its walltime is nearly over; None where it has none."""
    held: tuple[HeldAttempt, ...] = ()
    """All that is not acknowledged. Ends are told again after Welcome."""
    over: tuple[AttemptKey, ...] = ()
    """The last of those whose end was acknowledged: it tells it again when it is to start them."""


class Started(_OfAttempt, frozen=True, kw_only=True, tag=True):
    """It runs."""

    pid: int
    at: float
    """By the clock of the node."""


class Output(_OfAttempt, frozen=True, kw_only=True, tag=True):
    """What it wrote, as bytes; a connection that broke may bring some of it again."""

    stream: StreamName
    offset: int
    data: bytes


class ResultFile(_OfAttempt, frozen=True, kw_only=True, tag=True):
    """A part of a result, in order; offset 0 begins the file anew."""

    name: str
    offset: int
    data: bytes
    last: bool
    executable: bool = False


class AttemptEnded(_OfAttempt, frozen=True, kw_only=True, tag=True):
    """It is over, and all its output and results were sent before. Told again until it is acknowledged."""

    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory: int = 0
    """Bytes of its largest process; never less than what the agent itself has, because Linux counts from before
    `exec`."""


class NeedFile(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Send this content, please."""

    digest: str


class Leaving(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The agent begins nothing more and will be gone."""

    reason: str
    walltime: bool = False
    """Whether it goes because the time that the batch system gave it is nearly over."""


class Hindered(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The agent has no room to begin anything, for now."""

    reason: str
    """Empty when it has again."""


class Pong(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Yes."""

    number: int


ToAgent = (
    Welcome
    | TurnedAway
    | Start
    | Stop
    | Acknowledge
    | PoolFiles
    | FileChunk
    | FileRefused
    | DrainAgent
    | Shutdown
    | Ping
)
ToService = Hello | Started | Output | ResultFile | AttemptEnded | NeedFile | Leaving | Hindered | Pong


class ProtocolError(Exception):
    """What came is no message: in words."""


_encoder = msgspec.msgpack.Encoder()
_for_agents: msgspec.msgpack.Decoder[ToAgent] = msgspec.msgpack.Decoder(ToAgent)
_for_service: msgspec.msgpack.Decoder[ToService] = msgspec.msgpack.Decoder(ToService)


def frame(message: ToAgent | ToService) -> bytes:
    """A message as it travels. Raises ProtocolError where it is too large."""
    body = _encoder.encode(message)
    if len(body) > LARGEST_FRAME:
        raise ProtocolError(f"a message of {len(body)} bytes is larger than {LARGEST_FRAME}")
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


async def read_for_agent(reader: asyncio.StreamReader) -> ToAgent:
    """The next message of the service. Raises EOFError at its end, ProtocolError where it is none."""
    try:
        return _for_agents.decode(await _body(reader))
    except msgspec.MsgspecError as problem:
        raise ProtocolError(f"a message that is none: {problem}") from problem


async def read_for_service(reader: asyncio.StreamReader) -> ToService:
    """The next message of an agent. Raises EOFError at its end, ProtocolError where it is none."""
    try:
        message = _for_service.decode(await _body(reader))
    except msgspec.MsgspecError as problem:
        raise ProtocolError(f"a message that is none: {problem}") from problem
    if isinstance(message, ResultFile) and not stays_within(message.name):
        raise ProtocolError(f"a result that leaves its folder: {message.name!r}")
    return message


async def _body(reader: asyncio.StreamReader) -> bytes:
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        if length > LARGEST_FRAME:
            raise ProtocolError(f"a frame of {length} bytes is larger than {LARGEST_FRAME}")
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as problem:
        raise EOFError("the connection is closed") from problem


def stays_within(name: str) -> bool:
    """Whether it names a file below a folder, whatever the folder is."""
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name
