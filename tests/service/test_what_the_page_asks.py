"""Questions with limits: a page asks often, of tasks with thousands of instances and megabytes of output."""

from __future__ import annotations

import http.client
import socket
import time

import pytest

from cenote.common.errors import CenoteError
from cenote.service.client.connection import Connection
from cenote.service.client.definitions import InstanceState
from cenote.service.client.home import ServiceHome
from cenote.service.client.records import QueuedTaskRecord, TaskInstance
from cenote.service.history import SlotsOverTime
from cenote.service.page.routes import PAGE_POLICY


def header_of(home: ServiceHome, path: str, name: str) -> tuple[str, bytes]:
    """A header of an answer, and its body."""
    asked = http.client.HTTPConnection("service", timeout=60)
    asked.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    asked.sock.connect(str(home.read_address()))
    asked.request("GET", path)
    answer = asked.getresponse()
    found = answer.headers[name] or "", answer.read()
    asked.close()
    return found


def test_instances_come_in_parts_and_by_their_state(connection: Connection) -> None:
    pool = connection.create_pool("pool", "local", 2).submit()
    task = connection.create_task("some fail", pool, 12)
    task.command = "test $((INSTANCE_ID % 3)) != 0"
    assert not task.wait(timeout=120)
    line, path = connection._line, f"/tasks/{task.uuid}/instances"
    some = line.get(path, tuple[TaskInstance, ...], first=4, last=7)
    assert [one.number for one in some] == [4, 5, 6]
    failed = line.get(path, tuple[TaskInstance, ...], first=1, last=3, state="failed")
    assert [(one.number, one.state) for one in failed] == [(3, InstanceState.FAILED), (6, InstanceState.FAILED)]
    with pytest.raises(CenoteError, match="there is no state"):
        line.get(path, tuple[TaskInstance, ...], state="odd")


def test_the_end_of_output_comes_with_the_number_of_its_first_byte(connection: Connection, home: ServiceHome) -> None:
    pool = connection.create_pool("pool", "local", 1).submit()
    task = connection.create_task("talks", pool, 1)
    task.command = "printf 0123456789"
    assert task.wait(timeout=120)
    for query, first, text in (
        ("since=-4", "6", b"6789"),
        ("since=-400", "0", b"0123456789"),
        ("since=8", "8", b"89"),
        ("since=10&instance=0", "10", b""),
        ("since=-3&instance=0", "7", b"789"),
    ):
        assert header_of(home, f"/v1/tasks/{task.uuid}/stdout?{query}", "Cenote-First-Byte") == (first, text), query


def test_what_a_task_left_can_do_nothing_in_a_browser(connection: Connection, home: ServiceHome) -> None:
    pool = connection.create_pool("pool", "local", 1).submit()
    task = connection.create_task("leaves a page", pool, 1)
    task.command, task.results = "echo '<script>alert(1)</script>' > evil.html", ["evil.html"]
    assert task.wait(timeout=120)
    path = f"/v1/tasks/{task.uuid}/results/0/evil.html"
    assert header_of(home, path, "Content-Type") == ("application/octet-stream", b"<script>alert(1)</script>\n")
    assert header_of(home, path, "X-Content-Type-Options")[0] == "nosniff"
    assert header_of(home, path, "Content-Security-Policy")[0].startswith("sandbox;")
    first = header_of(home, "/", "Content-Security-Policy")
    assert first[0] == PAGE_POLICY
    assert header_of(home, "/", "X-Content-Type-Options")[0] == "nosniff"


def test_tasks_are_listed_as_many_as_asked_for(connection: Connection) -> None:
    pool = connection.create_pool("pool", "local", 1).submit()
    names = ["one", "two", "three"]
    for name in names:
        task = connection.create_task(name, pool, 1)
        task.command = "sleep 60"
        task.submit()
    found = connection._line.get("/tasks", tuple[QueuedTaskRecord, ...], most=2)
    assert [one.name for one in found] == ["three", "two"]
    pool.delete()


def test_the_history_of_a_pool_shows_its_slots(connection: Connection) -> None:
    pool = connection.create_pool("pool", "local", 2).submit()
    pool.wait(timeout=120)
    task = connection.create_task("one", pool, 1)
    task.command = "sleep 600"
    task.submit()
    until = time.monotonic() + 120
    while True:
        found = connection._line.get("/pools/pool/history", SlotsOverTime, seconds=900, points=500)
        if found.points and (found.points[-1].busy, found.points[-1].free) == (1, 1):
            break
        assert time.monotonic() < until, found
        time.sleep(0.1)
    assert found.pool == "pool"
    pool.delete()
    with pytest.raises(CenoteError, match="no pool"):
        connection._line.get("/pools/nonsense/history", SlotsOverTime)
