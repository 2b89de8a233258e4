"""Open the doors of a service: its Unix socket, and HTTPS where that is wanted."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from cenote.common import errors, storage
from cenote.common.values import dataclass
from cenote.execution.worker.process.reach import bracketed
from cenote.service.access.certificate import EVERYWHERE, DoorCertificate, own_certificate
from cenote.service.client.home import ServiceHome
from cenote.service.http.limits import RequestLimits
from cenote.service.server.newcomers import Newcomers, listen

_HANDSHAKE = 10.0
"""Seconds for TLS."""
_HERE = "127.0.0.1"
_LOG = logging.getLogger("cenote.service.server.doors")


@dataclass(frozen=True)
class NetworkDoor:
    """Where to listen for others, and what to show them."""

    host: str
    port: int
    certificate: Path | None = None
    """Of the site, with its key; None for the service's own."""
    key: Path | None = None


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether it is a fault of the service. What others send that is no HTTP is theirs, and may hold their tokens."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOG.addFilter(_is_ours)


class Doors:
    """All ways to one app."""

    def __init__(self, home: ServiceHome, app: web.Application, limits: RequestLimits, newcomers: Newcomers) -> None:
        self._home, self._limits, self._newcomers = home, limits, newcomers
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=_LOG,
            handle_signals=False,
            keepalive_timeout=limits.idle,  # also ends those that send their headers too slowly
            max_line_size=limits.header,
            max_field_size=limits.header,
            shutdown_timeout=1.0,
        )
        self._network: list[asyncio.Server] = []
        self._shown: DoorCertificate | None = None
        self.url = ""
        """Of the network's door, where it is open."""

    @property
    def fingerprint(self) -> str:
        """Of the certificate that is shown; empty where none is."""
        return "" if self._shown is None else self._shown.fingerprint

    async def open_socket(self) -> None:
        """For programs of the service's user on this machine."""
        await self._runner.setup()
        path = self._home.socket()
        with suppress(FileNotFoundError):
            path.unlink()
        before = os.umask(0o177)
        try:
            await web.UnixSite(self._runner, str(path)).start()
        finally:
            os.umask(before)
        storage.write_text(self._home.address, f"{path}\n")

    async def open_network(self, door: NetworkDoor) -> None:
        """For everybody with a token."""
        if door.certificate is None or door.key is None:
            self._shown = own_certificate(self._home.path / "door", door.host)
        else:
            self._shown = DoorCertificate(door.certificate, door.key)
        context = self._shown.listening()
        try:
            lines = listen(door.host, door.port, self._newcomers)
            self._network = [
                await asyncio.get_running_loop().create_server(
                    self._protocol, sock=line, ssl=context, ssl_handshake_timeout=_HANDSHAKE
                )
                for line in lines
            ]
        except OSError as problem:
            raise errors.error(
                errors.NETWORK,
                f"the service cannot listen on {door.host}:{door.port}: {problem.strerror or problem}",
                hint="name an address of this machine and a port that is free",
            ) from problem
        port = lines[0].getsockname()[1]
        host = socket.getfqdn() if door.host in EVERYWHERE else door.host
        self.url = f"https://{bracketed(host)}:{port}"

    async def open_page(self) -> str:
        """Where browsers find the page: the network's door, else one for this machine alone."""
        if not self.url:
            await self.open_network(NetworkDoor(_HERE, 0))
        return self.url

    def _protocol(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None, "it is set up"
        lines = [one.transport.get_extra_info("socket") for one in server.connections if one.transport is not None]
        others = [line for line in lines if line is not None and line.family != socket.AF_UNIX]
        return _Refusing() if len(others) >= self._limits.connections else server()

    async def close(self) -> None:
        """All of them."""
        for server in self._network:
            server.close()
        await self._runner.cleanup()


class _Refusing(asyncio.Protocol):
    """For a connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "as servers make them"
        transport.abort()  # to close it politely would keep it open for as long as the other side likes
