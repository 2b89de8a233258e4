"""Use the page of a service in a real browser, as people do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from .chromium import Seen, Tab, a_tab

PATIENCE = 60.0
"""Seconds until something must be seen."""


class Page:
    """The page in a tab."""

    def __init__(self, tab: Tab, seen: Seen, address: str) -> None:
        self.tab, self.seen, self.address = tab, seen, address

    async def go(self, route: str) -> None:
        """Open a view from outside, as a link would."""
        await self.tab.ask("Page.navigate", url="about:blank")
        await self.tab.ask("Page.navigate", url=f"{self.address}/#{route}")
        await self.holds("document.querySelector('main h1') && !document.querySelector('main[aria-busy]')")

    async def holds(self, script: str) -> Any:
        """What a condition gives, once it is true."""
        until = time.monotonic() + PATIENCE
        asked = f"(found => found instanceof Node ? true : found)({script})"  # elements do not travel
        while not (found := await self.tab.value(asked)):
            if time.monotonic() > until:
                text = await self.tab.value("document.body.innerText")
                raise AssertionError(f"{script} is not so; the page says:\n{text}\n{self.seen.complaints}")
            await asyncio.sleep(0.05)
        return found

    async def says(self, words: str, *, inside: str = "body") -> None:
        """Wait until these words are seen."""
        await self.holds(f"document.querySelector({inside!r})?.innerText.includes({words!r})")

    async def press(self, words: str, *, inside: str = "main") -> None:
        """Press the first button that begins so, as soon as it is there."""
        found = f"[...document.querySelectorAll({inside!r} + ' button')].find(b => b.textContent.startsWith({words!r}))"
        await self.holds(f"Boolean({found})")
        await self.tab.value(f"{found}.focus(); {found}.click()")

    async def key(self, name: str, code: int) -> None:
        """A key of the keyboard."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            await self.tab.ask(
                "Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, **text
            )

    async def look(self, *, width: int, scheme: str) -> None:
        """The window and the colours of somebody."""
        await self.tab.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.tab.ask("Emulation.setEmulatedMedia", features=[feature])


@asynccontextmanager
async def a_page(browser: str, address: str) -> AsyncIterator[Page]:
    seen = Seen()
    async with asyncio.timeout(5 * PATIENCE), a_tab(browser, seen) as tab:
        await tab.ask("Network.clearBrowserCookies")
        await tab.ask("Security.setIgnoreCertificateErrors", ignore=True)  # the service made its own
        page = Page(tab, seen, address)
        await page.look(width=1280, scheme="light")
        yield page
        await tab.ask("Page.close")


def visit(browser: str, address: str, steps: Callable[[Page], Awaitable[None]]) -> Seen:
    """Do these steps, and return what the browser saw meanwhile."""

    async def go() -> Seen:
        async with a_page(browser, address) as page:
            await steps(page)
            return page.seen

    return asyncio.run(go())
