"""Serve the page of the service: `/`, and its files under `/page/`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from cenote.common.values import dataclass
from cenote.execution.runs.look import COLOURS

# Say what browsers may do with the page of the service, and with the report of a run.


PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
)
"""A report comes from a folder of its user: it is shown as if it were from another host, and can ask for nothing."""


_FILES = Path(__file__).parent / "static"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FIRST = "index.html"
_FOLDER = "/page/"
_PLACE = "DIGEST"
"""Stands for the digest of all files in the first page: what it names never changes, and browsers keep it."""
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class PageFiles:
    """All files of the page, as they are sent."""

    first: bytes
    digest: str
    files: Mapping[str, tuple[bytes, str]]
    """Name → content and kind."""


def is_of_page(request: web.Request) -> bool:
    """Whether a file of the page is asked for. They hold nothing of anybody: whoever may connect may have them."""
    return request.method in ("GET", "HEAD") and (request.path == "/" or request.path.startswith(_FOLDER))


def page_routes() -> list[web.RouteDef]:
    """The first page, and the files that it names."""
    found = read_page()

    async def first(request: web.Request) -> web.Response:
        tag = f'"{found.digest}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache", "Content-Security-Policy": PAGE_POLICY}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.first, content_type="text/html", charset="utf-8", headers=headers)

    async def file(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if request.match_info["digest"] != found.digest or name not in found.files:
            raise web.HTTPNotFound
        content, kind = found.files[name]
        headers = {"Cache-Control": _FOR_EVER}
        return web.Response(body=content, content_type=kind, charset="utf-8", headers=headers)

    return [web.get("/", first), web.get(f"{_FOLDER}{{digest}}/{{name}}", file)]


def read_page() -> PageFiles:
    """From the package."""
    files = {path.name: (path.read_bytes(), _KINDS[path.suffix]) for path in _sources()}
    first = (_FILES / _FIRST).read_bytes()
    whole = hashlib.sha256(first)
    for name, (content, _) in files.items():
        whole.update(name.encode() + b"\0" + content)
    digest = whole.hexdigest()[:16]
    return PageFiles(first.replace(_PLACE.encode(), digest.encode()), digest, files)


def _sources() -> list[Path]:
    return [COLOURS, *(path for path in sorted(_FILES.iterdir()) if path.suffix in _KINDS)]
