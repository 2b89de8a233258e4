"""Let a browser reach a service that listens on a Unix socket: a port of this machine that passes everything on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def relayed(socket: Callable[[], Path]) -> Iterator[str]:
    """The address. `socket` is asked anew for each connection; where nobody listens, the connection is closed."""
    loop, relay = asyncio.new_event_loop(), _Relay(socket)
    server = loop.run_until_complete(asyncio.start_server(relay.connect, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(relay.end(server), loop).result(timeout=30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=30)
        loop.close()


class _Relay:
    """Joins each connection with one of its own to the socket."""

    def __init__(self, socket: Callable[[], Path]) -> None:
        self._socket = socket
        self._open: set[asyncio.StreamWriter] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one side ends: then both do."""
        try:
            inner_reader, inner_writer = await asyncio.open_unix_connection(self._socket())
        except OSError:
            writer.close()
            return
        both = {writer, inner_writer}
        self._open |= both
        await asyncio.gather(_pass(reader, inner_writer), _pass(inner_reader, writer))
        self._open -= both

    async def end(self, server: asyncio.Server) -> None:
        """Close every connection, and wait for that."""
        server.close()
        for one in self._open:
            one.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
