"""The report of a run in a real browser: it shows, asks nobody for anything, and complains of nothing."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Iterator
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import cenote
from cenote.testing.muons import write_muons

from .chromium import Seen, a_browser, a_tab

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


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with a_browser(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("analysis")
    write_muons(folder / "a.root", events=1000)
    write_muons(folder / "b.root", events=500, seed=2)
    (folder / "flow.yaml").write_text(FLOW)
    run = cenote.load(folder / "flow.yaml").run(folder / "out")
    assert run.status == "succeeded", str(run.failures)
    return run.folder / "report.html"


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
