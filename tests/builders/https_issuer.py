"""Serve the keys of a token issuer by https on loopback, as the real ones do."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from builders.credentials import GridAuthority, TokenIssuer

CONFIGURATION = "/.well-known/openid-configuration"


class ServedIssuer(TokenIssuer):
    """An issuer that can be asked for its keys; `answers` may be changed, and `asked` grows."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.answers: dict[str, object] = {CONFIGURATION: self.configuration(), "/jwks": self.key_set()}
        """Path → what is served there as JSON; a text is a redirect to that address."""
        self.asked: list[str] = []


@contextmanager
def served_issuer(authority: GridAuthority, folder: Path) -> Iterator[ServedIssuer]:
    """Serve until the end of the block, with a certificate of the authority."""
    certificate, key = authority.host().write(folder, "issuer")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    issuers: list[ServedIssuer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer = issuers[0]
            issuer.asked.append(self.path)
            answer = issuer.answers.get(self.path)
            self.send_response(404 if answer is None else 302 if isinstance(answer, str) else 200)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            self.end_headers()
            if answer is not None and not isinstance(answer, str):
                self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that trust nothing hang up
    issuers.append(ServedIssuer(f"https://localhost:{server.server_address[1]}"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield issuers[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
