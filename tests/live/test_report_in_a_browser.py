"""The report of a run in a real browser: it shows, asks nobody for anything, and complains of nothing."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import matplotlib.image
import numpy as np
import pytest

import cenote
from cenote.testing.muons import write_muons

from .conftest import ROOT, needs, running, wait_for

FLOW = """
data: {datasets: [{name: first, files: [a.root]}, {name: second, files: [b.root], eventtype: mc}]}
analysis:
  stages:
    - {id: Cuts, op: hep.selection.cutflow, params: {selection: {All: ["nMuon >= 1", "MET_pt > 20"]}}}
    - id: MuonPt
      op: hep.hist
      params: {dataset_axis: true, axes: [{name: pt, source: Muon_pt, bins: {nbins: 30, low: 0, high: 150}}]}
      execution: {require: other}
execution: {pools: {default: {}, other: {}}}
"""
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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a browser without a window."""
    program = needs("chromium", package="chromium")
    folder = tmp_path_factory.mktemp("chromium")
    log, told = folder / "log", folder / "profile" / "DevToolsActivePort"
    options = [*OPTIONS, f"--user-data-dir={told.parent}", *(["--no-sandbox"] if ROOT else [])]
    with running([program, *options, "about:blank"], log=log) as process:
        wait_for(lambda: told.is_file() and "\n" in told.read_text(), process, log=log, seconds=60)
        yield f"http://127.0.0.1:{told.read_text().splitlines()[0]}"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis")
    write_muons(folder / "a.root", events=1000)
    write_muons(folder / "b.root", events=500, seed=2)
    (folder / "flow.yaml").write_text(FLOW)
    run = cenote.load(folder / "flow.yaml").run(folder / "out")
    assert run.status == "succeeded", str(run.failures)
    return run.folder / "report.html"


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


QUESTIONS = {
    "title": "document.title",
    "text": "document.body.innerText",
    "images": "Array.from(document.images).map(image => image.naturalWidth)",
    "tasks": "Array.from(document.querySelectorAll('rect.task')).map(bar => bar.getBoundingClientRect().width)",
    "wider": "document.documentElement.scrollWidth - window.innerWidth",
}


async def visit(browser: str, address: str) -> Seen:
    seen = Seen()
    async with asyncio.timeout(60), a_tab(browser, seen) as tab:
        await tab.ask("Page.navigate", url=address)
        await tab.until("Page.loadEventFired")
        await tab.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        for name, script in QUESTIONS.items():
            seen.values[name] = await tab.value(script)
        seen.picture = base64.b64decode((await tab.ask("Page.captureScreenshot", format="png"))["data"])
        await tab.ask("Page.close")
    return seen


@pytest.fixture(scope="module")
def seen(browser: str, report: Path) -> Seen:
    return asyncio.run(visit(browser, report.as_uri()))


def test_the_report_asks_nobody_for_anything(seen: Seen, report: Path) -> None:
    outside = [url[:100] for url in seen.requests if not url.startswith(("data:", "blob:"))]
    assert outside == [report.as_uri()]


def test_the_browser_complains_of_nothing(seen: Seen) -> None:
    assert seen.complaints == []


def test_the_report_tells_of_the_run(seen: Seen) -> None:
    assert "flow" in seen.values["title"]
    for word in ("succeeded", "MuonPt", "Cuts", "other"):
        assert word in seen.values["text"], word


def test_every_picture_is_shown(seen: Seen) -> None:
    assert seen.values["images"]
    assert min(seen.values["images"]) > 0


def test_every_task_has_its_bar(seen: Seen) -> None:
    assert len(seen.values["tasks"]) >= 4
    assert min(seen.values["tasks"]) > 0


def test_the_page_fits_its_window(seen: Seen) -> None:
    assert seen.values["wider"] <= 0


def test_the_screen_is_not_blank(seen: Seen) -> None:
    pixels = matplotlib.image.imread(io.BytesIO(seen.picture))[..., :3]
    assert len(np.unique((pixels * 255).astype(np.uint8).reshape(-1, 3), axis=0)) > 50
    assert np.mean(np.any(pixels != pixels[0, 0], axis=-1)) > 0.01
