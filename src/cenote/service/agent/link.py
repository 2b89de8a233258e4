"""Connect an agent to its service, by certificates of both."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress

from cenote.service.protocol import CHUNK, ToAgent, ToService, frame, read_for_agent

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
