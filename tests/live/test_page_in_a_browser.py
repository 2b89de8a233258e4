"""The page of a service in a real browser, with a real service and a real pool behind it."""

from __future__ import annotations

import asyncio
import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest

import cenote
from builders.tcp_relay import relayed
from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.line import Line
from cenote.service.client.records import CreatedToken, NewTask, NewToken, QueuedTaskRecord, ServiceRecord
from cenote.service.client.start import stop_service
from cenote.service.client.task_flows import TaskHandle
from cenote.service.page.routes import PAGE_POLICY
from cenote.testing.muons import write_muons

from .chromium import a_browser
from .service_page import PATIENCE, Page, visit

EVIL = "<img src=x onerror=\"document.title='broken in'\">"
FLOW = """
data: {datasets: [{name: first, files: [a.root]}]}
analysis:
  stages:
    - {id: MuonPt, op: hep.hist, params: {axes: [{name: pt, source: Muon_pt, bins: {nbins: 3, low: 0, high: 150}}]}}
execution: {pools: {default: {}}}
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with a_browser(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceHome]:
    """The folder of a service for these tests."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        changed.delenv("CENOTE_SERVICE", raising=False)
        found = ServiceHome(usual_home())
        yield found
        stop_service(found)


@pytest.fixture(scope="module")
def connection(home: ServiceHome) -> Iterator[Connection]:  # noqa: ARG001  # by its variable
    with connect() as made:
        made.create_pool("Small pool", "local", 2).submit()
        yield made


@pytest.fixture(scope="module")
def address(home: ServiceHome, connection: Connection) -> Iterator[str]:  # noqa: ARG001  # which starts it
    with relayed(lambda: home.read_address() or home.path) as found:
        yield found


def a_task(connection: Connection, name: str, command: str, instances: int = 1, **more: Any) -> TaskHandle:
    task = connection.create_task(name, "Small_pool", instances)
    task.command = command
    for setting, value in more.items():
        setattr(task, setting, value)
    return task.submit()


@pytest.fixture
def full(connection: Connection) -> Iterator[TaskHandle]:
    """Something that has every slot of the pool."""
    task = a_task(connection, "has all slots", "sleep 600", instances=2)
    yield task
    task.cancel()
    task.wait(timeout=PATIENCE)


@pytest.mark.usefixtures("full")
def test_a_pool_is_seen_with_its_slots(browser: str, address: str) -> None:
    async def steps(page: Page) -> None:
        await page.go("/")
        await page.says("Small pool")
        await page.says("2 of 2 slots")
        await page.holds("document.querySelector('.pool svg .busy')")
        assert await page.tab.value("document.title") == "Pools · Cenote"
        await page.tab.value("[...document.querySelectorAll('a')].find(a => a.textContent === 'Small pool').click()")
        await page.says("2 of 2 workers joined")
        await page.holds("document.querySelectorAll('.chart svg').length === 2")
        assert await page.tab.value("document.activeElement.tagName") == "H1"
        assert await page.tab.value("location.hash") == "#/pools/Small_pool"
        await page.press("24 h")
        await page.says("24 h ago")

    seen = visit(browser, address, steps)
    assert seen.complaints == []
    assert {url[: len(address)] for url in seen.requests if not url.startswith(("about:", "data:"))} == {address}


def test_output_is_watched_as_it_comes(browser: str, address: str, connection: Connection, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"echo first; echo trouble >&2; while [ ! -e {go} ]; do sleep 0.1; done; echo second; echo 5 > five.txt"
    task = a_task(connection, "talks", command, instances=2, results=["five.txt"])

    async def steps(page: Page) -> None:
        await page.go(f"/tasks/{task.uuid}")
        await page.says("live", inside="#connection")
        await page.says("first\nfirst", inside=".output pre")
        assert "second" not in await page.tab.value("document.querySelector('.output pre').innerText")
        go.touch()
        await page.says("second\nsecond", inside=".output pre")
        await page.says("2 succeeded")
        await page.says("1/five.txt", inside=".files")
        await page.press("stderr")
        await page.says("trouble\ntrouble", inside=".output pre")
        await page.press("1", inside="tbody")
        await page.says("of instance 1", inside=".output")
        await page.holds("document.querySelector('.output pre').innerText.trim() === 'trouble'")
        assert await page.tab.value("location.hash") == f"#/tasks/{task.uuid}/1"

    assert visit(browser, address, steps).complaints == []


def test_only_the_end_of_long_output_is_loaded(browser: str, address: str, connection: Connection) -> None:
    task = a_task(connection, "talks much", "seq 1 200000; printf '\\033[31mred\\033[0m\\n'")
    assert task.wait(timeout=PATIENCE)

    async def steps(page: Page) -> None:
        await page.go(f"/tasks/{task.uuid}")
        await page.says("came before", inside=".output")
        await page.holds("document.querySelector('.output pre').innerText.trimEnd().endsWith('200000\\nred')")
        assert await page.tab.value("document.querySelector('.output pre').textContent.length") <= 65536
        assert (
            await page.tab.value(
                "(p => p.scrollHeight - p.scrollTop - p.clientHeight)(document.querySelector('.output pre'))"
            )
            < 24
        )

    assert visit(browser, address, steps).complaints == []


@pytest.mark.usefixtures("full")
def test_priority_is_changed_by_a_button(browser: str, address: str, connection: Connection) -> None:
    task = a_task(connection, "waits", "true")

    async def steps(page: Page) -> None:
        await page.go("/queue")
        await page.says("waits")
        await page.says("all 2 slots of pool 'Small_pool' are in use")
        await page.press("Priority", inside=".task")
        await page.holds("document.querySelector('dialog').open")
        assert await page.tab.value("document.activeElement.type") == "number"
        await page.tab.value("document.activeElement.value = '7'")
        await page.key("Enter", 13)
        await page.holds("!document.querySelector('dialog').open")
        await page.says("priority 7")
        assert await page.tab.value("document.activeElement.textContent") == "Priority …"
        await page.press("Pause", inside=".task")
        await page.says("paused")
        await page.press("Resume", inside=".task")
        await page.says("is resumed", inside="#news")

    seen = visit(browser, address, steps)
    assert task.record.priority == 7
    assert task.state == "Submitted"
    assert seen.complaints == []
    task.cancel()


def test_a_task_is_cancelled_after_a_question(browser: str, address: str, connection: Connection) -> None:
    task = a_task(connection, "unwanted", "sleep 600")

    async def steps(page: Page) -> None:
        await page.go(f"/tasks/{task.uuid}")
        await page.press("Cancel")
        await page.says("This cannot be undone", inside="dialog")
        await page.key("Escape", 27)
        await page.holds("!document.querySelector('dialog').open")
        assert await page.tab.value("document.activeElement.textContent") == "Cancel …"
        assert not task.record.state.is_over
        await page.press("Cancel")
        await page.press("Cancel the task", inside="dialog")
        await page.says("cancelled", inside="h1")
        await page.holds("document.querySelector('.actions .buttons').hidden")

    seen = visit(browser, address, steps)
    assert task.state == "Cancelled"
    assert seen.complaints == []


@pytest.mark.usefixtures("full")
def test_what_is_refused_is_said_in_the_words_of_the_service(
    browser: str, address: str, connection: Connection
) -> None:
    other = connection.create_pool("closing soon", "local", 1).submit()
    task = a_task(connection, "moves", "true")

    async def steps(page: Page) -> None:
        await page.go(f"/tasks/{task.uuid}")
        await page.press("Move")
        await page.says("closing soon", inside="dialog")
        await asyncio.to_thread(other.delete)
        await page.press("Move", inside="dialog")
        await page.says("pool 'closing_soon'", inside="dialog [role=alert]")
        assert await page.tab.value("document.querySelector('dialog').open")

    visit(browser, address, steps)
    assert task.record.pool == "Small_pool"
    task.cancel()


@pytest.mark.usefixtures("full")
def test_what_users_write_is_text_and_nothing_else(browser: str, address: str, connection: Connection) -> None:
    task = a_task(connection, EVIL, f"echo {EVIL!r}", priority=9)
    pool = connection.create_pool(EVIL, "local", 1)
    pool.setup_elastic(0, 1)
    pool.submit()

    async def steps(page: Page) -> None:
        for route in ("/", "/queue", "/tasks", f"/tasks/{task.uuid}", f"/pools/{pool.id}", "/pools/Small_pool"):
            await page.go(route)
            await page.says(EVIL)
            assert await page.tab.value("document.querySelectorAll('main img, main script').length") == 0
            assert "broken in" not in await page.tab.value("document.title.replace(/.*onerror.*/, '')")

    seen = visit(browser, address, steps)
    assert seen.complaints == []
    task.cancel()
    pool.delete()


CONTRAST = """
(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((all, v, place) => all + v * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = numbers(getComputedStyle(one).backgroundColor);
      if (found.length === 3 || found[3] > 0.99) return found;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const box = element.getBoundingClientRect();
    if (!own || !box.width || box.right < 0 || element.closest('svg') || element.disabled) continue;
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const words = element.textContent.slice(0, 30);
    if (ratio < 4.5) bad.push(`${element.tagName}.${element.className} ${words} ${ratio.toFixed(2)}`);
  }
  return bad;
})()
"""
BEYOND = """
[...document.querySelectorAll('body *')].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > document.documentElement.clientWidth + 1 && !one.closest('pre');
}).map((one) => one.tagName + '.' + one.className)
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.usefixtures("full")
def test_every_view_fits_and_can_be_read(
    browser: str, address: str, connection: Connection, width: int, scheme: str
) -> None:
    name = "a_name_without_any_space_that_is_longer_than_a_telephone_is_wide_by_far"
    task = a_task(connection, name, "false", instances=60)

    async def steps(page: Page) -> None:
        await page.look(width=width, scheme=scheme)
        for route in ("/", "/pools/Small_pool", "/queue", "/tasks", f"/tasks/{task.uuid}", "/runs", "/nonsense"):
            await page.go(route)
            assert await page.tab.value("document.documentElement.scrollWidth - window.innerWidth") <= 0, route
            assert await page.tab.value(BEYOND) == [], route
            assert await page.tab.value(CONTRAST) == [], route
        await page.go("/queue")
        await page.press("Move", inside=".task")
        await page.holds("document.querySelector('dialog').open")
        assert await page.tab.value(BEYOND) == []
        shown = (await page.tab.ask("Page.captureScreenshot", format="png"))["data"]
        pixels = matplotlib.image.imread(io.BytesIO(base64.b64decode(shown)))[..., :3]
        assert len(np.unique((pixels * 255).astype(np.uint8).reshape(-1, 3), axis=0)) > 50
        assert (float(pixels.mean()) < 0.5) == (scheme == "dark")

    seen = visit(browser, address, steps)
    assert seen.complaints == []
    task.cancel()


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("width", [400, 1280])
def test_a_dialog_holds_a_pool_of_any_title(browser: str, address: str, connection: Connection, width: int) -> None:
    pool = connection.create_pool("W" * 200, "local", 0).submit()
    task = a_task(connection, "moves", "true")

    async def steps(page: Page) -> None:
        await page.look(width=width, scheme="light")
        await page.go(f"/tasks/{task.uuid}")
        await page.press("Move")
        await page.says("WWWW", inside="dialog")
        beyond = (
            "(dialog => [...dialog.querySelectorAll('*')].filter(one => !['OPTION'].includes(one.tagName)"
            " && one.getBoundingClientRect().right > dialog.getBoundingClientRect().right).map(one => one.tagName))"
            "(document.querySelector('dialog'))"
        )
        assert await page.tab.value(beyond) == []
        assert await page.tab.value("(d => d.scrollWidth - d.clientWidth)(document.querySelector('dialog'))") <= 0

    visit(browser, address, steps)
    task.cancel()
    pool.delete()


@pytest.mark.usefixtures("full")
def test_buttons_of_tasks_tell_those_who_listen_whose_they_are(
    browser: str, address: str, connection: Connection
) -> None:
    tasks = [a_task(connection, name, "true") for name in ("first", "second")]

    async def steps(page: Page) -> None:
        await page.go("/queue")
        await page.says("second")
        labels = await page.tab.value("[...document.querySelectorAll('.task button')].map(b => b.ariaLabel)")
        assert {f"{words} {name}" for words in ("Pause", "Move …") for name in ("first", "second")} <= set(labels)
        assert len(labels) == len(set(labels))

    visit(browser, address, steps)
    for task in tasks:
        task.cancel()


@pytest.mark.usefixtures("full")
def test_the_keyboard_reaches_everything_and_its_place_is_seen(
    browser: str, address: str, connection: Connection
) -> None:
    task = a_task(connection, "reached by keys", "true")

    async def steps(page: Page) -> None:
        await page.go("/queue")
        await page.key("Tab", 9)
        assert await page.tab.value("document.activeElement.textContent") == "Small_pool", "after the heading"
        await page.tab.value("document.querySelector('.skip').focus()")
        assert await page.tab.value("document.querySelector('.skip').getBoundingClientRect().left") >= 0
        reached = []
        for _ in range(40):
            await page.key("Tab", 9)
            words = await page.tab.value("document.activeElement.textContent")
            outline = await page.tab.value("getComputedStyle(document.activeElement).outlineWidth")
            reached.append(words)
            assert outline == "3px" or await page.tab.value("document.activeElement === document.body"), words
            if words == "Cancel …":
                break
        for words in ("Queue", "reached by keys", "Pause", "Priority …", "Move …", "Cancel …"):
            assert words in reached, reached

    visit(browser, address, steps)
    task.cancel()


def test_a_run_is_seen_and_becomes_its_report(
    browser: str, address: str, connection: Connection, tmp_path: Path
) -> None:
    write_muons(tmp_path / "a.root", events=500)
    (tmp_path / "flow.yaml").write_text(FLOW)
    asked = NewTask(name="a run", pool="Small_pool", command="true", run=str(tmp_path / "out"))
    task = connection._line.post("/tasks", QueuedTaskRecord, asked)

    async def steps(page: Page) -> None:
        await page.go("/runs")
        await page.says("a run")
        await page.go(f"/runs/{task.id}")
        assert await page.tab.value("document.querySelector('.button.first').hidden")
        await asyncio.to_thread(lambda: cenote.load(tmp_path / "flow.yaml").run(tmp_path / "out"))
        await page.says("succeeded", inside="h1")
        await page.says("MuonPt")
        await page.holds("document.querySelector('.lanes polygon.lane0')")
        await page.says("products/")
        assert page.seen.complaints == []
        link = await page.holds(
            "!document.querySelector('.button.first').hidden && document.querySelector('.button.first').href"
        )
        await page.tab.ask("Page.navigate", url=link)
        await page.says("everything was computed")
        assert await page.tab.value("window.origin") == "null"
        assert await page.tab.value("document.querySelectorAll('thead button').length") > 0

    assert visit(browser, address, steps).complaints == []


def test_the_page_survives_the_end_and_the_return_of_the_service(
    browser: str, address: str, connection: Connection, home: ServiceHome
) -> None:
    async def steps(page: Page) -> None:
        await page.go("/")
        await page.says("Small pool")
        first = await asyncio.to_thread(lambda: connection.service.pid)
        await asyncio.to_thread(stop_service, home)
        await page.says("The service has not answered for", inside="#connection")
        await asyncio.to_thread(lambda: connect().close())
        await page.holds("!document.body.classList.contains('away')")
        again = await asyncio.to_thread(lambda: Line(home.read_address() or home.path).get("/service", ServiceRecord))
        assert again.pid != first
        await page.says("2 of 2 workers joined")

    visit(browser, address, steps)


def test_a_link_signs_in_once_and_its_key_is_gone_from_the_address(browser: str, connection: Connection) -> None:
    address, _, key = connection.page_link().url.partition("/#")
    task = a_task(connection, "mine", "echo seen; sleep 600")

    async def steps(page: Page) -> None:
        await page.go(key)
        await page.says("Small pool")
        await page.says("live", inside="#connection")
        assert await page.tab.value("location.hash") == "#/"
        history = await page.tab.ask("Page.getNavigationHistory")
        assert not [one for one in history["entries"] if "key=" in one["url"]]
        await page.go(f"/tasks/{task.uuid}")
        await page.says("seen", inside=".output pre")
        await page.press("Cancel")
        await page.press("Cancel the task", inside="dialog")
        await page.says("cancelled", inside="h1")
        assert page.seen.complaints == []
        await page.press("Sign out", inside="header")
        await page.says("You are signed out", inside="main")
        await page.go(key)
        await page.says("the service does not know who asks", inside="main")

    visit(browser, address, steps)
    assert task.state == "Cancelled"


def test_another_user_signs_in_with_a_token_and_sees_only_what_they_may(browser: str, connection: Connection) -> None:
    address = connection.page_link().url.partition("/#")[0]
    token = connection._line.post("/tokens", CreatedToken, NewToken(user="bob")).token
    task = a_task(connection, "of another", "echo secret; sleep 600")

    async def steps(page: Page) -> None:
        await page.go(f"/tasks/{task.uuid}")
        await page.says("Sign in", inside="h1")
        for shown, words in (("wrong", "the service does not know who asks"), (token, "are for its owner")):
            await page.holds("document.activeElement.type === 'password'")
            await page.tab.value(f"document.activeElement.value = {shown!r}")
            await page.key("Enter", 13)
            await page.says(words, inside="main")
        await page.says("for bob", inside="header")
        assert "secret" not in await page.tab.value("document.body.innerText")
        await page.press("Cancel")
        await page.press("Cancel the task", inside="dialog")
        await page.says("user 'bob' may not", inside="dialog [role=alert]")

    visit(browser, address, steps)
    assert not task.record.state.is_over
    task.cancel()


def test_the_policy_of_the_page_is_as_strict_as_it_can_be() -> None:
    assert PAGE_POLICY.startswith("default-src 'none'")
    assert not re.search(r"unsafe|\*|https?:", PAGE_POLICY)
