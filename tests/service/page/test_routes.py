"""The page's own files: complete, strict, kept by browsers, and of no other host."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

import cenote.service.page
from cenote.service.page.routes import PAGE_POLICY, page_routes, read_page

FILES = Path(cenote.service.page.__file__).parent / "static"


def asked(*paths: str, headers: dict[str, str] | None = None) -> list[ClientResponse]:
    """Answers of an application that serves nothing but the page."""

    async def ask() -> list[ClientResponse]:
        app = web.Application()
        app.add_routes(page_routes())
        async with TestClient(TestServer(app)) as client:
            found = [await client.get(path, headers=headers) for path in paths]
            for one in found:
                await one.read()
            return found

    return asyncio.run(ask())


def test_the_first_page_is_strict_and_asked_for_anew() -> None:
    (answer,) = asked("/")
    assert answer.status == 200
    assert answer.headers["Content-Security-Policy"] == PAGE_POLICY
    assert answer.headers["Cache-Control"] == "no-cache"


def test_everything_that_the_first_page_names_is_there_for_ever() -> None:
    first = read_page().first.decode()
    named = re.findall(r'(?:href|src)="(/page/[^"]+)"', first)
    assert len(named) >= 4
    kinds = {}
    for path, answer in zip(named, asked(*named), strict=True):
        assert answer.status == 200, path
        assert "immutable" in answer.headers["Cache-Control"]
        kinds[path.rpartition(".")[2]] = answer.content_type
    assert kinds == {"svg": "image/svg+xml", "css": "text/css", "js": "text/javascript"}


def test_modules_import_what_is_there() -> None:
    for file in FILES.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', file.read_text(encoding="utf-8")):
            assert (FILES / name).is_file(), f"{file.name} imports {name}"


def test_a_browser_that_has_the_page_gets_it_not_again() -> None:
    (answer,) = asked("/", headers={"If-None-Match": f'"{read_page().digest}"'})
    assert answer.status == 304


@pytest.mark.parametrize(
    "path", ["/page/0000000000000000/page.js", "/page/{digest}/routes.py", "/page/{digest}/..%2Fguard.py"]
)
def test_nothing_else_is_served(path: str) -> None:
    (answer,) = asked(path.format(digest=read_page().digest))
    assert answer.status == 404


def test_the_page_has_neither_script_nor_style_in_itself_and_knows_no_other_host() -> None:
    first = (FILES / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*\bsrc=)", first)
    for file in FILES.iterdir():
        found = re.findall(r"(?:https?:)?//[\w-]+\.[\w.-]+", file.read_text(encoding="utf-8"))
        assert [one for one in found if "www.w3.org" not in one] == [], file.name


def test_what_comes_from_others_is_never_made_a_tag() -> None:
    forbidden = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser", "srcdoc")
    for file in FILES.glob("*.js"):
        text = file.read_text(encoding="utf-8")
        assert [word for word in forbidden if word in text] == [], file.name
