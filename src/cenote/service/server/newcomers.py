"""Listen, and bound the connections of those who have not shown yet who they are: for one too many, the oldest goes.

A process has a limit of open files, often 1024. Strangers who connect and say nothing must not use them up, nor keep
those out who are known; and a handshake that is not done yet is a file, too.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any


class Newcomers:
    """Connections that may be anybody's."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lines: dict[int, socket.socket] = {}
        """By their files, the oldest first."""

    def add(self, line: socket.socket) -> None:
        """Somebody connected."""
        self._lines = {file: one for file, one in self._lines.items() if one.fileno() == file != line.fileno()}
        self._lines[line.fileno()] = line
        if len(self._lines) > self._most:
            oldest = self._lines.pop(next(iter(self._lines)))
            with suppress(OSError):  # it left by itself
                oldest.shutdown(socket.SHUT_RDWR)  # whoever reads from it finds its end, and closes it

    def know(self, file: int) -> None:
        """Whoever has the connection with this file has shown who they are."""
        self._lines.pop(file, None)


class _Listening(socket.socket):
    """A socket whose connections are newcomers'."""

    newcomers: Newcomers

    def accept(self) -> tuple[socket.socket, Any]:  # Any: as the library has it
        """The next connection."""
        line, address = super().accept()
        self.newcomers.add(line)
        return line, address


def listen(host: str, port: int, newcomers: Newcomers) -> list[socket.socket]:
    """Sockets for all addresses of a host. Raises OSError where one of them cannot be had."""
    found: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ):
            line = _Listening(family, kind, protocol)
            found.append(line)
            line.newcomers = newcomers
            line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                line.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            line.bind(address)
    except OSError:
        for one in found:
            one.close()
        raise
    return found
