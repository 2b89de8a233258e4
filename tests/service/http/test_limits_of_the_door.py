"""What the door over the network bears: attempts, connections, slowness; and what it shows."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from cenote.common.errors import CenoteError
from cenote.service.access.certificate import own_certificate
from cenote.service.client.connection import connect

from .conftest import OpenService, serving, wait_for

_PROGRAM = """
import sys
from pathlib import Path
from cenote.service.http.doors import NetworkDoor
from cenote.service.http.limits import Rate, RequestLimits
from cenote.service.server.serve import ServeOptions, serve
limits = RequestLimits(user=Rate(1.0, 20), attempts=Rate(0.01, 5), connections=20, newcomers=5, idle=1.0)
door = NetworkDoor("127.0.0.1", 0, *map(Path, sys.argv[2:]))
serve(ServeOptions(home=Path(sys.argv[1]), door=door, limits=limits))
"""


@pytest.fixture(scope="module")
def strict(place: Path) -> Iterator[OpenService]:
    site = own_certificate(place / "site", "site.example")
    words = (str(place / "home"), str(site.certificate), str(site.key))
    with serving(place, ("-c", _PROGRAM, *words)) as found:
        assert found.fingerprint == site.fingerprint
        yield found


def a_line(doors: OpenService) -> ssl.SSLSocket:
    host, _, port = doors.url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((host, int(port)), timeout=60))


def test_those_who_send_too_slowly_are_let_go(strict: OpenService) -> None:
    with a_line(strict) as slow:
        slow.sendall(b"GET /v1/service HTTP/1.1\r\nHost: x\r\nX-")
        assert slow.recv(100) == b""
    with a_line(strict) as slow:
        token = strict.token("slow")
        head = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 9"
        slow.sendall(f"{head}\r\n\r\n{{".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def begins(line: ssl.SSLSocket, token: str) -> bytes:
    """How the answer to a request begins that stays open."""
    try:
        line.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        return line.recv(15)
    except OSError:  # it was closed before
        return b""


def test_so_many_connections_are_open_at_once_and_no_more(strict: OpenService) -> None:
    tokens = [strict.token("many"), strict.token("more")]
    lines = []
    try:
        for number in range(20):
            lines.append(a_line(strict))
            assert begins(lines[-1], tokens[number % 2]) == b"HTTP/1.1 200 OK"
        with a_line(strict) as late:
            assert begins(late, tokens[0]) == b""
    finally:
        for line in lines:
            line.close()

    def is_let_in() -> bool:
        with a_line(strict) as again:
            return begins(again, tokens[1]) != b""

    wait_for(is_let_in)


def test_who_asks_too_often_is_told_when_to_come_again_and_does(strict: OpenService) -> None:
    token = strict.token("busy")
    found = [strict.ask("GET", "/v1/caller", token=token) for _ in range(60)]
    late = [one for one in found if one.status == 429]
    assert late
    assert int(late[0].headers["Retry-After"]) >= 1
    with connect(strict.url, token=token, ca=strict.ca) as busy:
        assert [busy.caller.user for _ in range(3)] == ["busy"] * 3


def test_an_address_that_tried_too_often_waits_and_those_who_are_known_there_do_not(strict: OpenService) -> None:
    known = strict.token("known")
    assert strict.ask("GET", "/v1/caller", token=known).status == 200
    found = [strict.ask("GET", "/v1/caller", token=f"cenote_x_{number}").status for number in range(8)]
    assert (found[0], found[-1]) == (401, 429)
    assert strict.ask("GET", "/v1/caller", token=strict.token("new")).status == 429
    assert strict.ask("POST", "/v1/session", body=b'{"token": "x"}').status == 429
    assert strict.ask("GET", "/v1/caller", token=known).status == 200


def test_its_own_certificate_stays_the_same_and_is_private(tmp_path: Path) -> None:
    made = own_certificate(tmp_path / "door", "127.0.0.1")
    first = made.fingerprint
    assert own_certificate(tmp_path / "door", "127.0.0.1").fingerprint == first
    assert own_certificate(tmp_path / "door", "0.0.0.0").fingerprint == first
    assert made.key.stat().st_mode & 0o077 == 0
    assert own_certificate(tmp_path / "door", "other.example").fingerprint != first
    made.key.write_text("nonsense")
    with pytest.raises(CenoteError, match="not a certificate and its key"):
        made.listening()
