"""A way between workers and driver that can be cut: a port that passes everything on, or answers nobody."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_HERE = "127.0.0.1"


def free_port() -> int:
    with socket.create_server((_HERE, 0)) as asked:
        return int(asked.getsockname()[1])


class CutRelay:
    """From one port of this machine to another."""

    def __init__(self, target: int) -> None:
        self.port, self._target = free_port(), target
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._door: socket.socket | None = None
        self.mend()

    def mend(self) -> None:
        """Pass on what comes from now on."""
        with self._lock:
            if self._door is None:
                self._door = socket.create_server((_HERE, self.port))
                threading.Thread(target=self._serve, args=(self._door,), daemon=True).start()

    def cut(self) -> None:
        """Nothing answers, and what is under way breaks off."""
        with self._lock:
            ends, self._open = [self._door, *self._open], []
            self._door = None
        for end in ends:
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def _serve(self, door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                outer, _ = door.accept()
                try:
                    inner = socket.create_connection((_HERE, self._target))
                except OSError:
                    outer.close()
                    continue
                with self._lock:
                    self._open += [outer, inner]
                for one, other in ((outer, inner), (inner, outer)):
                    threading.Thread(target=_pass, args=(one, other), daemon=True).start()


def _pass(reader: socket.socket, writer: socket.socket) -> None:
    with suppress(OSError):
        while data := reader.recv(65536):
            writer.sendall(data)
    for end in (reader, writer):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay_to(target: int) -> Iterator[CutRelay]:
    """Until the end of the block."""
    relay = CutRelay(target)
    try:
        yield relay
    finally:
        relay.cut()
