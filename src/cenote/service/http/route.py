"""Define what a route is: how it is asked, who may, what it takes and gives, and what answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web

from cenote.common.values import dataclass
from cenote.service.access.tokens import Access
from cenote.service.client.home import ServiceHome
from cenote.service.http.caller import Caller, Who
from cenote.service.http.feed import Feed
from cenote.service.run_views import KnownRuns
from cenote.service.server.kept_output import Uploads
from cenote.service.server.requests import ServiceRequests

Query = TypeVar("Query")
Body = TypeVar("Body")
JSON, BYTES, EVENTS, PAGE = "application/json", "application/octet-stream", "text/event-stream", "text/html"


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A path that takes nothing after its `?`."""


@dataclass(frozen=True)
class Asked(Generic[Query, Body]):
    """One request, read and allowed."""

    caller: Caller
    names: Mapping[str, str]
    """The blanks of the path."""
    query: Query
    body: Body
    key: str
    """Made by the client: the same request sent again has the same. Empty where it made none."""
    request: web.Request


@dataclass
class Desk:
    """What those who answer have at hand."""

    home: ServiceHome
    requests: ServiceRequests
    access: Access
    uploads: Uploads
    feed: Feed
    stop: Callable[[], None]
    open_page: Callable[[], Awaitable[str]]
    """Where the page is, over HTTPS; the door is opened where there is none."""
    fingerprint: Callable[[], str]

    def __post_init__(self) -> None:
        self._change: asyncio.Future[None] | None = None
        self.runs = KnownRuns(self.requests)
        self.forecasting = asyncio.Lock()
        """Held by the one forecast that is made: of a long queue it takes seconds of all that the service can compute,
        and several at once would stop it."""

    def changed(self) -> None:
        """Wake those who wait for something to be different."""
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    def next_change(self) -> asyncio.Future[None]:
        """Done when something is different from now."""
        if self._change is None or self._change.done():
            self._change = asyncio.get_running_loop().create_future()
        return self._change


Answerer = Callable[[Desk, Asked[Any, Any]], Awaitable[object]]
"""Gives the body of the answer, or the parts of a list one by one, or a response that it wrote itself. Any: each route
has its own query and body."""


@dataclass(frozen=True)
class HttpRoute:
    """One way to ask."""

    method: str
    path: str
    """Below `/v1`. A blank is `{name}`, or `{name:one|other}` where it is one of these words."""
    answer: Answerer
    words: str
    """What it is for, in a sentence."""
    who: Who
    gives: Any = None
    """The type of the answer's body: Any, because types have no type of their own. None for bytes and events."""
    takes: type[msgspec.Struct] | None = None
    """The type of the request's body."""
    query: type[msgspec.Struct] = NoQuery
    status: int = 200
    media: str = JSON
    """Of the answer."""
    uploads: bool = False
    """Whether its body is a file, which the answerer reads as it comes."""
