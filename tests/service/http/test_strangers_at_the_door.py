"""What those who have no token, or have it no longer, can do to a service over the network: nothing."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .conftest import OpenService, serving, wait_for

_PROGRAM = """
import sys
from pathlib import Path
from cenote.service.http.doors import NetworkDoor
from cenote.service.http.limits import RequestLimits
from cenote.service.server.serve import ServeOptions, serve
limits = RequestLimits(connections=20, newcomers=5, idle=600.0)
serve(ServeOptions(home=Path(sys.argv[1]), door=NetworkDoor("127.0.0.1", 0), limits=limits))
"""


@pytest.fixture(scope="module")
def narrow(place: Path) -> Iterator[OpenService]:
    with serving(place, ("-c", _PROGRAM, str(place / "home"))) as found:
        yield found


def connected(doors: OpenService) -> socket.socket:
    host, _, port = doors.url.removeprefix("https://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def a_line(doors: OpenService) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connected(doors))


def request_of_events(token: str) -> bytes:
    return f"GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def test_those_who_connect_and_say_nothing_keep_nobody_out(narrow: OpenService) -> None:
    token = narrow.token("ada")
    with ExitStack() as open_lines:
        listening = open_lines.enter_context(a_line(narrow))
        listening.sendall(request_of_events(token))
        assert listening.recv(15) == b"HTTP/1.1 200 OK"
        silent = [open_lines.enter_context(a_line(narrow)) for _ in range(30)]
        assert narrow.ask("GET", "/v1/caller", token=token).status == 200
        assert silent[0].recv(1) == b""
        while b"event: service" not in listening.recv(65536):  # whoever is known stays
            pass


def test_handshakes_that_do_not_end_use_up_no_files(narrow: OpenService) -> None:
    files = Path(f"/proc/{narrow.owner().service.pid}/fd")
    before = len(list(files.iterdir()))
    with ExitStack() as open_lines:
        silent = [open_lines.enter_context(connected(narrow)) for _ in range(100)]
        for early in silent[:90]:
            assert early.recv(1) == b""
        wait_for(lambda: len(list(files.iterdir())) <= before + 10)
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[-1].recv(1)


def test_who_listens_hears_nothing_more_once_the_token_is_revoked(narrow: OpenService) -> None:
    token = narrow.token("eve")
    with a_line(narrow) as listening, narrow.owner() as owner:
        listening.sendall(request_of_events(token))
        heard = b""
        while b"event: service" not in heard:
            heard += listening.recv(65536)
        owner.revoke_token(narrow.id_of(token))
        owner.create_pool("secret_of_others", "local", 1).submit()
        while more := listening.recv(65536):
            heard += more
        owner.pool("secret_of_others").close()
    assert b"secret_of_others" not in heard


def test_what_is_no_http_is_not_in_the_log_with_the_token_that_it_shows(narrow: OpenService, place: Path) -> None:
    token = narrow.token("bob")
    with a_line(narrow) as line:
        line.sendall(f"GET /v1/caller HTTP/1.1\nAuthorization: Bearer {token}\n\n".encode())
        assert b"400" in line.recv(65536)
    assert narrow.ask("GET", "/v1/caller", token=token).status == 200
    printed = (place / "printed").read_text(encoding="utf-8")
    assert token not in printed
    assert "Traceback" not in printed


def test_a_wait_that_is_no_number_is_none(narrow: OpenService) -> None:
    with narrow.owner() as owner:
        pool = owner.create_pool("steady", "local", 1)
        pool.submit()
        wait_for(lambda: owner.pool("steady").state == "FullyExecuting")
    path = "/v1/pools/steady?changed_from=FullyExecuting&seconds="
    for seconds in ("nan", "-1", "-inf"):
        assert narrow.ask("GET", path + seconds, token=narrow.token("ada")).status == 200
