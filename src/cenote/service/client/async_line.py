"""Talk to a service from an asyncio loop: the same requests and answers as `line.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from cenote.common import errors, storage
from cenote.service.client.address import NetworkAddress
from cenote.service.client.asking import (
    API,
    CHUNK,
    LAST_EVENT_ID,
    MOST_PATIENCE,
    PAUSES,
    SECONDS,
    Answer,
    Ask,
    Compute,
    Flow,
    problem_of,
    with_query,
)
from cenote.service.client.line import unreachable
from cenote.service.client.records import EventReader, HeardEvent

_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError)
"""What may be asked again; ClientConnectorError, which is one of them, says that nobody was there."""

_TO_CLOSE = 0.25
"""Seconds in which the loop ends a connection that aiohttp closed and does not wait for."""


class AsyncLine:
    """The way to one service, for one loop."""

    def __init__(self, where: Path | NetworkAddress) -> None:
        self.where = where
        self._opened: aiohttp.ClientSession | None = None
        self._mistaken = False
        """Whether another certificate than the pinned one was shown."""

    async def get(self, path: str, kind: type[Answer], **query: str | float | None) -> Answer:
        """Read something."""
        return await self.ask(Ask("GET", with_query(path, **query), kind))

    async def carry_out(self, flow: Flow[Answer]) -> Answer:
        """Ask what a flow asks, until its end."""
        try:
            step = next(flow)
            while True:
                try:
                    answer: Any = (
                        await asyncio.to_thread(step.work) if isinstance(step, Compute) else await self.ask(step)
                    )
                except errors.CenoteError as problem:
                    step = flow.throw(problem)
                else:
                    step = flow.send(answer)
        except StopIteration as end:
            found: Answer = end.value
            return found

    async def ask(self, ask: Ask[Answer]) -> Answer:
        """The answer to one request, which is sent again where that is safe."""
        patience, attempts = MOST_PATIENCE, iter(PAUSES)
        lost = False
        while True:
            try:
                status, later, content = await self._asked(ask)
            except _LOST as problem:
                pause = next(attempts, None)
                nobody = isinstance(problem, aiohttp.ClientConnectorError)
                if pause is None or not ask.may_be_repeated or (nobody and not lost):
                    raise self._unreachable(problem) from problem
                lost = True
                await asyncio.sleep(pause)
                continue
            except (aiohttp.ClientError, TimeoutError, OSError) as problem:
                raise self._unreachable(problem) from problem
            if status == HTTPStatus.TOO_MANY_REQUESTS and 0 < later <= patience:
                patience -= later
                await asyncio.sleep(later)
                continue
            if status >= HTTPStatus.BAD_REQUEST:
                raise problem_of(status, content)
            return ask.read(content)

    async def _asked(self, ask: Ask[Any]) -> tuple[int, float, bytes]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=SECONDS, sock_read=ask.wait + SECONDS)
        with ExitStack() as opened:
            body: Any = opened.enter_context(ask.source.open("rb")) if ask.source else ask.body or None
            async with self._session.request(
                ask.method, self._url(ask.path), data=body, headers=dict(ask.headers), timeout=timeout
            ) as answer:
                later = float(answer.headers.get("Retry-After") or 0)
                if ask.target is None or answer.status >= HTTPStatus.BAD_REQUEST:
                    return answer.status, later, await answer.read()
                with storage.appearing(ask.target) as unfinished, unfinished.open("wb") as file:
                    async for data in answer.content.iter_chunked(CHUNK):
                        file.write(data)
                return answer.status, later, b""

    async def events(
        self, *, task: str | None = None, pool: str | None = None, after: str | None = None
    ) -> AsyncIterator[HeardEvent]:
        """What happens, as it happens; a connection that is lost is made again, and nothing is missed."""
        path, attempts = with_query("/events", task=task, pool=pool), iter(PAUSES)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=SECONDS, sock_read=SECONDS)
        while True:
            reader, headers = EventReader(), {LAST_EVENT_ID: after} if after else {}
            lost: Exception = ConnectionResetError("the service ended the connection")
            try:
                async with self._session.get(self._url(path), headers=headers, timeout=timeout) as answer:
                    if answer.status >= HTTPStatus.BAD_REQUEST:
                        raise problem_of(answer.status, await answer.read())
                    rest = b""
                    async for data in answer.content.iter_any():
                        attempts = iter(PAUSES)
                        *lines, rest = (rest + data).split(b"\n")
                        for line in lines:
                            if (event := reader.read(line.decode())) is not None:
                                after = event.id
                                yield event
            except (aiohttp.ClientError, TimeoutError, OSError) as problem:
                lost = problem
            if (pause := next(attempts, None)) is None:
                raise self._unreachable(lost) from lost
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """End the connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None
        if self._mistaken:
            await asyncio.sleep(_TO_CLOSE)

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=self._connector(),
                headers=dict(self.where.headers) if isinstance(self.where, NetworkAddress) else {},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._opened

    def _connector(self) -> aiohttp.BaseConnector:
        if isinstance(self.where, Path):
            return aiohttp.UnixConnector(str(self.where))
        if self.where.fingerprint:
            return aiohttp.TCPConnector(ssl=aiohttp.Fingerprint(bytes.fromhex(self.where.fingerprint)))
        return aiohttp.TCPConnector(ssl=self.where.context())

    def _url(self, path: str) -> Any:  # Any: yarl's, which is aiohttp's own matter
        from yarl import URL

        root = self.where.url if isinstance(self.where, NetworkAddress) else "http://service"
        return URL(f"{root}{API}{path}", encoded=True)

    def _unreachable(self, problem: Exception) -> errors.CenoteError:
        if isinstance(problem, aiohttp.ClientConnectorCertificateError):
            return unreachable(self.where, problem.certificate_error)
        if isinstance(problem, aiohttp.ServerFingerprintMismatch):
            self._mistaken = True
            return errors.error(errors.NO_SERVICE, f"{self._url('')}: its certificate is not the one that was pinned")
        return unreachable(self.where, problem)
