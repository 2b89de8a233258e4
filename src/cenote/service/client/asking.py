"""Say what is asked of a service as values, and how its answers are read: the same for every way to it.

What a program does with a service is a flow: a generator that yields what it asks and is sent the answers. `line.py`
carries flows out one request after the other, `async_line.py` in an asyncio loop.
"""

from __future__ import annotations

import codecs
import hashlib
import stat
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from cenote.common import errors
from cenote.common.values import dataclass
from cenote.service.client.records import CallerRecord, ProblemRecord, UploadedFile, UploadRecord

API = "/v1"
IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header with the key of a request that must be done once, however often it is sent."""
LAST_EVENT_ID = "Last-Event-ID"
"""The header with the last event that a listener heard."""
SECONDS = 60.0
"""For an answer, beyond what the request itself waits for."""
POLL_SECONDS = 10.0
"""That one question waits for a change."""
PAUSES = (0.0, 0.2, 0.5, 1.0, 2.0)
"""Seconds before a request is sent again whose connection was lost."""
MOST_PATIENCE = 300.0
"""Seconds that a request waits in all where the service says that it comes too often."""
CHUNK = 256 * 1024
"""Bytes of a file that are in memory at once."""
Answer = TypeVar("Answer")
_KINDS = {kind.name: kind for kind in errors.KINDS}


@dataclass(frozen=True)
class Ask(Generic[Answer]):
    """One request, and the type of its answer."""

    method: str
    path: str
    """Below `/v1`, with what follows a `?`."""
    kind: type[Answer]
    """`bytes` for an answer that is no JSON."""
    body: bytes = b""
    wait: float = 0.0
    """Seconds that the service may take until it answers."""
    key: str = ""
    source: Path | None = None
    """A file that is the body of the request."""
    target: Path | None = None
    """A file that the answer is written to as it comes; the answer itself is empty then."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Besides those of HTTP itself."""
        keyed = {IDEMPOTENCY_KEY: self.key} if self.key else {}
        return {**keyed, **({"Content-Type": "application/json"} if self.body else {})}

    @property
    def may_be_repeated(self) -> bool:
        """Whether it can be sent again when nobody knows whether it arrived."""
        return self.method in ("GET", "PUT") or bool(self.key)

    def read(self, content: bytes) -> Answer:
        """The body of an answer. Raises what the service says is wrong."""
        return content if self.kind is bytes else msgspec.json.decode(content, type=self.kind)  # type: ignore[return-value]  # bytes is Answer


@dataclass(frozen=True)
class Compute(Generic[Answer]):
    """Something that takes a while and asks nobody."""

    work: Callable[[], Answer]


Flow = Generator[Ask[Any] | Compute[Any], Any, Answer]
"""Any: each step has an answer of its own type, which `asked` and `computed` restore."""


def asked(ask: Ask[Answer]) -> Flow[Answer]:
    """The answer to one request."""
    answer: Answer = yield ask
    return answer


def computed(work: Callable[[], Answer]) -> Flow[Answer]:
    """What this returns."""
    answer: Answer = yield Compute(work)
    return answer


def get(path: str, kind: type[Answer], *, wait: float = 0.0, **query: str | float | None) -> Ask[Answer]:
    """Read something."""
    return Ask("GET", with_query(path, **query), kind, wait=wait)


def post(path: str, kind: type[Answer], body: object = None) -> Ask[Answer]:
    """Have something done."""
    return Ask("POST", path, kind, body=b"" if body is None else msgspec.json.encode(body))


def create(path: str, kind: type[Answer], body: object) -> Ask[Answer]:
    """Have something made, once."""
    return Ask("POST", path, kind, body=msgspec.json.encode(body), key=uuid.uuid4().hex)


def with_query(path: str, **query: str | float | None) -> str:
    """A path with these words after its `?`, without those that are not given."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def named(text: str) -> str:
    """A name as a part of a path."""
    return quote(text, safe="")


def problem_of(status: int, content: bytes) -> errors.CenoteError:
    """What an answer with this number says."""
    try:
        found = msgspec.json.decode(content, type=ProblemRecord)
    except msgspec.MsgspecError:
        return errors.error(
            errors.NO_SERVICE, f"the service answers {status}: {content[:200].decode(errors='replace')}"
        )
    return errors.error(_KINDS.get(found.kind, errors.USAGE), found.message, hint=found.hint)


def send_files(files: Sequence[str]) -> Flow[tuple[tuple[str, ...], tuple[UploadedFile, ...]]]:
    """Files for instances, as the service takes them: by their paths where it can open them, else uploaded."""
    paths = tuple(str(Path(file).absolute()) for file in files)
    if not paths:
        return (), ()
    who = yield from asked(get("/caller", CallerRecord))
    if who.names_files:
        return paths, ()
    uploaded = []
    for path in paths:
        uploaded.append((yield from _upload(Path(path))))  # noqa: PERF401  # comprehensions cannot yield
    return (), tuple(uploaded)


def _upload(file: Path) -> Flow[UploadedFile]:
    if not file.is_file():
        raise errors.error(errors.MISSING_FILE, f"there is no file {file} to send to instances")
    digest = yield from computed(lambda: _digest(file))
    executable = bool(file.stat().st_mode & stat.S_IXUSR)
    path = with_query(f"/uploads/{digest}", executable="true" if executable else None)
    try:
        yield from asked(get(path, UploadRecord))
    except errors.CenoteError as problem:
        if problem.problems[0].kind is not errors.MISSING_FILE:
            raise
        yield from asked(Ask("PUT", path, UploadRecord, source=file))
    return UploadedFile(name=file.name, digest=digest, executable=executable)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


# Turn output that comes in pieces into text.


class ShownOutput:
    """How much of one output was shown. A piece may end within a character, whose rest comes with the next."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that came so far: where the next piece begins."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def text_of(self, piece: bytes, *, last: bool = False) -> str:
        """The next characters."""
        self.size += len(piece)
        return self._decoder.decode(piece, final=last)
