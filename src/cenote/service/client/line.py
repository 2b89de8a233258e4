"""Talk to a service: one request and one answer at a time, over its Unix socket or over HTTPS."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

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
    create,
    get,
    post,
    problem_of,
    with_query,
)
from cenote.service.client.records import EventReader, HeardEvent

_IDLE = 20.0
"""Seconds after which a connection is not used again: the service may be closing it just now."""


class _OverSocket(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        super().__init__("service", timeout=timeout, blocksize=CHUNK)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def __del__(self) -> None:
        self.close()  # programs that forget to end their connection are not told off for it


class _OverTls(http.client.HTTPSConnection):
    """HTTPS to a service that is recognised before anything is sent."""

    def __init__(self, address: NetworkAddress, *, timeout: float) -> None:
        super().__init__(address.host, address.port, timeout=timeout, context=address.context(), blocksize=CHUNK)
        self._address = address

    def connect(self) -> None:
        super().connect()
        assert isinstance(self.sock, ssl.SSLSocket), "it is connected"
        try:
            self._address.recognise(self.sock.getpeercert(binary_form=True))
        except ssl.SSLError:
            self.close()
            raise

    def __del__(self) -> None:
        self.close()


class _LostError(Exception):
    """The connection was lost on the way."""


class Line:
    """The way to one service. Threads may share it: each has a connection of its own."""

    def __init__(self, where: Path | NetworkAddress) -> None:
        self.where = where
        self._local = threading.local()

    def get(self, path: str, kind: type[Answer], *, wait: float = 0.0, **query: str | float | None) -> Answer:
        """Read something; `wait` is how long the service may take until it answers."""
        return self.ask(get(path, kind, wait=wait, **query))

    def post(self, path: str, kind: type[Answer], body: object = None) -> Answer:
        """Ask for something to be done."""
        return self.ask(post(path, kind, body))

    def create(self, path: str, kind: type[Answer], body: object) -> Answer:
        """Ask for something to be made, once, even where the connection is lost on the way."""
        return self.ask(create(path, kind, body))

    def delete(self, path: str, kind: type[Answer]) -> Answer:
        """Ask for something to be gone."""
        return self.ask(Ask("DELETE", path, kind))

    def read(self, path: str, **query: str | float) -> bytes:
        """The bytes of a file."""
        return self.ask(Ask("GET", with_query(path, **query), bytes))

    def carry_out(self, flow: Flow[Answer]) -> Answer:
        """Ask what a flow asks, until its end."""
        try:
            step = next(flow)
            while True:
                try:
                    answer: Any = step.work() if isinstance(step, Compute) else self.ask(step)
                except errors.CenoteError as problem:
                    step = flow.throw(problem)
                else:
                    step = flow.send(answer)
        except StopIteration as end:
            found: Answer = end.value
            return found

    def ask(self, ask: Ask[Answer]) -> Answer:
        """The answer to one request, which is sent again where that is safe."""
        patience, attempts = MOST_PATIENCE, iter(PAUSES)
        while True:
            try:
                status, later, content = self._asked(ask)
            except _LostError as lost:
                pause = next(attempts, None)
                if pause is None:
                    raise self._unreachable(lost.__cause__ or lost) from lost.__cause__
                time.sleep(pause)
                continue
            if status == http.client.TOO_MANY_REQUESTS and 0 < later <= patience:
                patience -= later
                time.sleep(later)
                continue
            if status >= http.client.BAD_REQUEST:
                raise problem_of(status, content)
            return ask.read(content)

    def events(
        self, *, task: str | None = None, pool: str | None = None, after: str | None = None
    ) -> Iterator[HeardEvent]:
        """What happens, as it happens; a connection that is lost is made again, and nothing is missed."""
        path, attempts = with_query("/events", task=task, pool=pool), iter(PAUSES)
        while True:
            connection, reader = self._made(), EventReader()
            try:
                headers = {LAST_EVENT_ID: after} if after else {}
                connection.request("GET", API + path, headers={**headers, **self._headers})
                answer = connection.getresponse()
                if answer.status >= http.client.BAD_REQUEST:
                    raise problem_of(answer.status, answer.read())
                while line := answer.readline():
                    attempts = iter(PAUSES)
                    if (event := reader.read(line.decode())) is not None:
                        after = event.id
                        yield event
            except (http.client.HTTPException, OSError) as problem:
                lost: Exception = problem
            else:
                lost = ConnectionResetError("the service ended the connection")
            finally:
                connection.close()
            if (pause := next(attempts, None)) is None:
                raise self._unreachable(lost) from lost
            time.sleep(pause)

    def close(self) -> None:
        """End this thread's connection."""
        found: http.client.HTTPConnection | None = getattr(self._local, "found", None)
        if found is not None:
            found.close()
            self._local.found = None

    def _asked(self, ask: Ask[Any]) -> tuple[int, float, bytes]:
        """The number of the answer, seconds to wait, and its body. Raises _LostError where it may be asked again."""
        fresh, sent = not self._is_connected(), False
        connection = self._connected(ask.wait)
        try:
            with ExitStack() as opened:
                body: Any = opened.enter_context(ask.source.open("rb")) if ask.source else ask.body
                length = {"Content-Length": str(ask.source.stat().st_size)} if ask.source else {}
                try:
                    connection.request(
                        ask.method, API + ask.path, body=body, headers={**ask.headers, **length, **self._headers}
                    )
                except (BrokenPipeError, ConnectionResetError):
                    if ask.source is None or fresh is False:
                        raise
                    # an upload that is refused is not read to its end: the answer may be there
                sent = True
                answer = connection.getresponse()
                content = self._read(answer, ask)
        except (http.client.HTTPException, ConnectionError) as problem:
            self.close()  # of a service that ended, or was started again: what was not sent whole was not read
            if (isinstance(problem, ConnectionRefusedError) and fresh) or (sent and not ask.may_be_repeated):
                raise self._unreachable(problem) from problem
            raise _LostError from problem
        except OSError as problem:
            self.close()
            raise self._unreachable(problem) from problem
        self._local.used = time.monotonic()
        if answer.will_close:
            self.close()
        return answer.status, float(answer.getheader("Retry-After") or 0), content

    @staticmethod
    def _read(answer: http.client.HTTPResponse, ask: Ask[Any]) -> bytes:
        if ask.target is None or answer.status >= http.client.BAD_REQUEST:
            return answer.read()
        with storage.appearing(ask.target) as unfinished, unfinished.open("wb") as file:
            while data := answer.read(CHUNK):
                file.write(data)
        return b""

    @property
    def _headers(self) -> dict[str, str]:
        return dict(self.where.headers) if isinstance(self.where, NetworkAddress) else {}

    def _made(self) -> http.client.HTTPConnection:
        if isinstance(self.where, NetworkAddress):
            return _OverTls(self.where, timeout=SECONDS)
        return _OverSocket(self.where, timeout=SECONDS)

    def _is_connected(self) -> bool:
        found: http.client.HTTPConnection | None = getattr(self._local, "found", None)
        return found is not None and found.sock is not None

    def _connected(self, wait: float) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._local, "found", None)
        if found is None or self._local.process != os.getpid():
            found = self._local.found = self._made()
            self._local.process, self._local.used = os.getpid(), time.monotonic()
        if time.monotonic() - self._local.used > _IDLE:
            found.close()
        found.timeout = wait + SECONDS
        if found.sock is not None:
            found.sock.settimeout(wait + SECONDS)
        return found

    def _unreachable(self, problem: BaseException) -> errors.CenoteError:
        return unreachable(self.where, problem)


def unreachable(where: Path | NetworkAddress, problem: BaseException) -> errors.CenoteError:
    """No service answers there, and why."""
    words = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    if isinstance(where, Path):
        return errors.error(
            errors.NO_SERVICE, f"no service answers at {where}: {words}", hint="`cenote serve` starts one"
        )
    if isinstance(problem, ssl.SSLCertVerificationError):
        said = getattr(problem, "verify_message", "") or words
        return errors.error(
            errors.NO_SERVICE,
            f"what answers at {where.url} cannot be trusted: {said}",
            hint=f"compare its certificate with the service's fingerprint: `cenote login {where.url}`",
        )
    return errors.error(errors.NO_SERVICE, f"no service answers at {where.url}: {words}")
