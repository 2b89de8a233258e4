"""Listen where a backend would, by its certificates, so that probes can show that the driver is within their reach."""

from __future__ import annotations

import queue
import socket
import socketserver
import ssl
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self

import msgspec

from cenote.common.certificates.identity import Identity
from cenote.execution.backends.interface import MeetingPoint
from cenote.execution.probe.credentials import as_answer, requested_pool
from cenote.execution.probe.report import NodeReport
from cenote.execution.worker.process.credentials import DeliveredCredential

_LONGEST = 1_000_000
"""Bytes of a report."""
_SECONDS = 20.0
"""That a probe has to show its certificate, and then to send its report."""


class ReportListener:
    """Takes reports in from whatever has a certificate of the same probe; of others nothing is read."""

    def __init__(
        self,
        point: MeetingPoint,
        identity: Identity,
        credentials: Mapping[str, Sequence[DeliveredCredential]] = MappingProxyType({}),
    ) -> None:
        """Raises OSError when it cannot listen there. `credentials` are those of each pool, for probes that ask."""
        self._reports: queue.SimpleQueue[NodeReport] = queue.SimpleQueue()
        self._server = _listening(point, _handler(self._reports, credentials))
        self._server.context = identity.listening()
        self.host, self.port = _told(point, self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reports(self) -> list[NodeReport]:
        """Those that came since the last time."""
        found = []
        while not self._reports.empty():
            found.append(self._reports.get())
        return found


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:  # Any: as the standard library has them
        """In a thread of its own: a stranger who says nothing keeps no other waiting."""
        request.settimeout(_SECONDS)
        with self.context.wrap_socket(request, server_side=True) as connection:
            super().finish_request(connection, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Strangers, and connections that end early, are of no interest."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _listening(point: MeetingPoint, handler: type[socketserver.BaseRequestHandler]) -> _Server:
    problem = OSError(f"there is no port to listen on at {point.host}")
    server = _Server6 if ":" in point.host else _Server
    for port in point.ports:
        try:
            return server((point.host, port), handler)
        except OSError as taken:
            problem = taken
    raise problem


def _told(point: MeetingPoint, port: int) -> tuple[str, int]:
    """What workers are told: another host, and perhaps another port, where somebody forwards."""
    if point.contact is None:
        return point.host, port
    host, colon, forwarded = point.contact.rpartition(":")
    if colon and not host.endswith(":") and forwarded.isdecimal():
        return host.strip("[]"), int(forwarded)
    return point.contact.strip("[]"), port


def _handler(
    reports: queue.SimpleQueue[NodeReport], credentials: Mapping[str, Sequence[DeliveredCredential]]
) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline(_LONGEST)
            pool = requested_pool(line)
            if pool is not None:
                self.wfile.write(as_answer(credentials.get(pool, ())))
                return
            report = read_report(line)
            if report is not None:
                reports.put(report)
                self.wfile.write(b"\n")

    return Handler


def read_report(line: bytes) -> NodeReport | None:
    """The report that a line holds, if it holds one."""
    try:
        return msgspec.json.decode(line, type=NodeReport)
    except msgspec.MsgspecError:
        return None
