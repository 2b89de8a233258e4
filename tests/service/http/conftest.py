"""A service with both doors open, for the tests of one file, and people with tokens for it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome
from cenote.service.client.start import answering, stop_service


@dataclass
class Answered:
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class OpenService:
    """A service that listens on its socket and on loopback."""

    home: ServiceHome
    url: str
    fingerprint: str
    _ids: dict[str, str] = field(default_factory=dict)

    @property
    def ca(self) -> str:
        return f"sha256:{self.fingerprint}"

    def owner(self) -> Connection:
        """At the socket."""
        return connect(self.home.path)

    def token(self, user: str, **more: Any) -> str:
        with self.owner() as owner:
            made = owner.create_token(user, **more)
        self._ids[made.token] = made.record.id
        return made.token

    def id_of(self, token: str) -> str:
        return self._ids[token]

    def person(self, user: str, **more: Any) -> Connection:
        """Over the network."""
        return connect(self.url, token=self.token(user, **more), ca=self.ca)

    def ask(self, method: str, path: str, *, token: str = "", body: bytes | None = None, **headers: str) -> Answered:
        """One request over the network, as anybody could write it."""
        host, _, port = self.url.removeprefix("https://").rpartition(":")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        line = http.client.HTTPSConnection(host, int(port), context=context, timeout=60)
        try:
            shown = {"Authorization": f"Bearer {token}"} if token else {}
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            line.request(method, path, body=body, headers={**shown, **given})
            answer = line.getresponse()
            return Answered(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            line.close()


def wait_for(what: Callable[[], object], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with a short name, which others may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="doors-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def doors(place: Path) -> Iterator[OpenService]:
    command = ("-m", "cenote", "serve", "--home", str(place / "home"), "--listen", "127.0.0.1:0")
    with serving(place, command) as found:
        yield found


@contextmanager
def serving(place: Path, command: Sequence[str]) -> Iterator[OpenService]:
    """A service of its own, started by these words for Python."""
    home = ServiceHome(place / "home")
    with (place / "printed").open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-P", *command],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            env={**os.environ, "CENOTE_TOKEN": "a-secret-of-the-owner"},
        )
    try:
        wait_for(lambda: process.poll() is not None or (answering(home) and connect(home.path).service.url))
        assert process.poll() is None, (place / "printed").read_text()
        found = connect(home.path).service
        yield OpenService(home, found.url, found.fingerprint)
    finally:
        if process.poll() is None and answering(home) is not None:
            stop_service(home)
        process.kill()
        process.wait()
