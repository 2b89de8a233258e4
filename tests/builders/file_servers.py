"""Serve a folder over HTTP or HTTPS, as servers of data do: in ranges, to who shows a token where one is wanted."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class FileServer:
    """What a server does, and what it was asked."""

    folder: Path
    accepts: Callable[[str], bool] = lambda _: True
    """Whether a request with this `Authorization` header, or with an empty one, is answered."""
    elsewhere: str = ""
    """The server that requests are redirected to, if any."""
    refusal: int = 401
    ranges: list[str] = field(default_factory=list)
    """Those that were asked for, in order; `everything` for none."""
    shown: list[str] = field(default_factory=list)
    """The `Authorization` headers that came, empty where there was none."""
    url: str = ""

    @contextmanager
    def serving(self, context: ssl.SSLContext | None = None) -> Iterator[FileServer]:
        """Answer requests on loopback, encrypted where there is a context."""
        told = self

        class Handler(_Ranges):
            server_of_files = told

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            if context is not None:
                server.socket = context.wrap_socket(server.socket, server_side=True)
            self.url = f"http{'s' if context else ''}://localhost:{server.server_port}"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join(timeout=10)


class _Ranges(SimpleHTTPRequestHandler):
    """Answers `Range: bytes=a-b`."""

    server_of_files: FileServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        if self._may_pass():
            super().do_HEAD()

    def do_GET(self) -> None:
        if not self._may_pass():
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        self.server_of_files.ranges.append(self.headers.get("Range", "everything"))
        if wanted is None or not path.is_file():
            super().do_GET()
            return
        content = path.read_bytes()
        start, stop = int(wanted[1]), min(int(wanted[2]) + 1, len(content))
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
        self.send_header("Content-Length", str(stop - start))
        self.end_headers()
        self.wfile.write(content[start:stop])

    def translate_path(self, path: str) -> str:
        """In the folder that is served."""
        self.directory = str(self.server_of_files.folder)
        return super().translate_path(path)

    def end_headers(self) -> None:
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""

    def _may_pass(self) -> bool:
        shown = self.headers.get("Authorization", "")
        self.server_of_files.shown.append(shown)
        if not self.server_of_files.accepts(shown):
            self._answer(self.server_of_files.refusal)
            return False
        if self.server_of_files.elsewhere:
            self._answer(302, Location=self.server_of_files.elsewhere + self.path)
            return False
        return True

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
