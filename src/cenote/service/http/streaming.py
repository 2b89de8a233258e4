"""Send files and events as they are read, and take files as they come: in bounded memory, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec
from aiohttp import web

from cenote.common import errors
from cenote.service.http.feed import Feed, FeedEvent, Interest
from cenote.service.http.route import BYTES, EVENTS, JSON

FIRST_BYTE = "Cenote-First-Byte"
"""Header: which byte of the file comes first."""
_CHUNK = 256 * 1024
_PATIENCE = 60.0
"""Seconds in which the other side must take, or send, the next part."""
_MOST_TOGETHER = 32
"""Events that are sent at once."""
_HEARTBEAT = 15.0
"""Seconds after which a listener that heard nothing hears that the service is there."""


async def send_file(request: web.Request, file: Path, since: int = 0) -> web.StreamResponse:
    """From this byte, or from so many before its end, to what is its end now; a file that is not there is empty."""
    try:
        whole = file.stat().st_size
    except FileNotFoundError:
        whole = 0
    first = since if since >= 0 else max(0, whole + since)
    size = max(0, whole - first)
    headers = {"Content-Type": BYTES, "Content-Length": str(size), FIRST_BYTE: str(first)}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    if size:
        with file.open("rb") as opened:
            opened.seek(first)
            while size and (data := opened.read(min(size, _CHUNK))):
                size -= len(data)
                await _written(response, data)
    await response.write_eof()
    return response


async def send_list(
    request: web.Request,
    values: AsyncIterator[object],
    *,
    status: int = 200,
    before: bytes = b"[",
    after: bytes = b"]",
) -> web.StreamResponse:
    """Values as JSON, as they come. A short list is one piece. Where a long one cannot be continued, the connection
    ends before the list does."""
    piece, response = bytearray(before), web.StreamResponse(status=status, headers={"Content-Type": JSON})
    comma = b""
    try:
        async for value in values:
            piece += comma + msgspec.json.encode(value)
            comma = b","
            if len(piece) > _CHUNK:
                if not response.prepared:
                    await response.prepare(request)
                await _written(response, bytes(piece))
                piece.clear()
        piece += after
        if not response.prepared:
            return web.Response(body=bytes(piece), status=status, content_type=JSON)
        await _written(response, bytes(piece))
        await response.write_eof()
    except (errors.CenoteError, TimeoutError):
        if not response.prepared:
            raise
        if request.transport is not None:
            request.transport.abort()
    return response


async def received(request: web.Request) -> AsyncIterator[bytes]:
    """The body of a request, part by part."""
    while True:
        try:
            async with asyncio.timeout(_PATIENCE):
                data = await request.content.read(_CHUNK)
        except TimeoutError:
            raise errors.error(errors.BAD_VALUE, f"no more of the upload came in {_PATIENCE:g} s") from None
        if not data:
            return
        yield data


async def send_events(
    request: web.Request, feed: Feed, interest: Interest, *, after: str | None, is_welcome: Callable[[], bool]
) -> web.StreamResponse:
    """What happens, until the listener or the service ends, or the listener is not welcome any more."""
    response = web.StreamResponse(headers={"Content-Type": EVENTS})
    with feed.listening():
        first = feed.now(interest)
        await response.prepare(request)
        try:
            if after is None:
                await _written(response, _told(feed, interest, [first]))
            place = first.number if after is None else feed.number_of(after)
            while is_welcome():
                place = await _sent(response, feed, interest, place)
        except (ConnectionError, TimeoutError):
            pass  # it left, or does not read
    return response


async def _sent(response: web.StreamResponse, feed: Feed, interest: Interest, place: int | None) -> int:
    """Send what happened after a place, or wait for it; the new place."""
    news = None if place is None else feed.since(place)
    if place is None or news is None:
        await _written(response, _head(feed.id_of(feed.end), "reset"))
        return feed.end
    if not news:
        await feed.more(_HEARTBEAT)
        if feed.end == place:
            await _written(response, b":\n\n")
        return place
    few = news[:_MOST_TOGETHER]
    if told := _told(feed, interest, few):
        await _written(response, told)
    return few[-1].number


def _told(feed: Feed, interest: Interest, events: Sequence[FeedEvent]) -> bytes:
    bodies = ((event, interest.body(event)) for event in events)
    return b"".join(_head(feed.id_of(event.number), event.kind, body) for event, body in bodies if body is not None)


def _head(name: str, kind: str, body: bytes = b"{}") -> bytes:
    return f"id: {name}\nevent: {kind}\ndata: ".encode() + body + b"\n\n"


async def _written(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(_PATIENCE):
        await response.write(data)
