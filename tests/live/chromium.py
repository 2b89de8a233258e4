"""Drive a real Chromium without a window, in its own protocol, and note whatever it complains of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from .conftest import ROOT, needs, running, wait_for

OPTIONS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-port=0",
    "--window-size=1280,1600",
)


@dataclass
class Seen:
    """What happened while a page was loaded."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    picture: bytes = b""

    def note(self, message: dict[str, Any]) -> None:
        """Take an event of the browser."""
        told = message.get("params", {})
        match message.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                self.complaints.append(told["entry"]["text"])


class Tab:
    """One page of a browser, spoken to in its own protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, seen: Seen) -> None:
        self._socket, self._seen, self._number = socket, seen, 0

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command; what happens until its answer is noted."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            message = await self._socket.receive_json()
            self._seen.note(message)
            if message.get("id") == self._number:
                assert "error" not in message, message
                answer: dict[str, Any] = message["result"]
                return answer

    async def until(self, method: str) -> None:
        """Note what happens until this event."""
        while True:
            message = await self._socket.receive_json()
            self._seen.note(message)
            if message.get("method") == method:
                return

    async def value(self, script: str) -> Any:
        """What an expression of JavaScript gives, once its promise is kept."""
        answer = await self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return answer["result"].get("value")


@contextmanager
def a_browser(folder: Path) -> Iterator[str]:
    """The address of a browser without a window, which keeps its files there."""
    program = needs("chromium", package="chromium")
    log, told = folder / "log", folder / "profile" / "DevToolsActivePort"
    options = [*OPTIONS, f"--user-data-dir={told.parent}", *(["--no-sandbox"] if ROOT else [])]
    with running([program, *options, "about:blank"], log=log) as process:
        wait_for(lambda: told.is_file() and "\n" in told.read_text(), process, log=log, seconds=60)
        yield f"http://127.0.0.1:{told.read_text().splitlines()[0]}"


@asynccontextmanager
async def a_tab(browser: str, seen: Seen) -> AsyncIterator[Tab]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        async with session.put(f"{browser}/json/new?about:blank") as made:
            target = await made.json()
        async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
            tab = Tab(socket, seen)
            for domain in ("Page", "Network", "Runtime", "Log"):
                await tab.ask(f"{domain}.enable")
            yield tab
