"""A long queue keeps nobody waiting: what is asked about it is answered piece by piece.

Pauses are counted in calls of Python functions, so that neither the machine nor what else it does matters.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from cenote.service.allocator.messages import TaskAdded
from cenote.service.client.definitions import InstanceState, TaskDefinition
from cenote.service.client.home import ServiceHome
from cenote.service.client.records import AwaitedInstances, NewPool, QueuedTaskRecord, TaskChange, TaskInstance
from cenote.service.server.agent_pools import AgentPools
from cenote.service.server.hub import Hub
from cenote.service.server.log import ServiceLog
from cenote.service.server.profiles import Profiles
from cenote.service.server.requests import ServiceRequests
from cenote.service.server.serve import _identity
from cenote.service.server.service import Service

INSTANCES = 100_000
Request = Callable[[ServiceRequests], Awaitable[object]]


async def tasks(requests: ServiceRequests, **which: Any) -> list[QueuedTaskRecord]:
    return [record async for record in requests.tasks(**which)]


async def instances(requests: ServiceRequests, **which: Any) -> list[TaskInstance]:
    return [record async for record in requests.instances(task_id(0), **which)]


def at_once(ask: Callable[[ServiceRequests], object]) -> Request:
    async def asked(requests: ServiceRequests) -> object:
        return ask(requests)

    return asked


REQUESTS: dict[str, Request] = {
    "GET /tasks": tasks,
    "GET /tasks?label=none": lambda requests: tasks(requests, label="none"),
    "GET /tasks?most=10": lambda requests: tasks(requests, most=10),
    "GET /tasks/ID": at_once(lambda requests: requests.task(task_id(0))),
    "GET /tasks/BEGINNING": at_once(lambda requests: requests.task(task_id(0)[:-4])),
    "GET /tasks/ID/instances": instances,
    "GET /tasks/ID/instances?state=waiting": lambda requests: instances(requests, state=InstanceState.WAITING),
    "POST /tasks/ended-instances": at_once(
        lambda requests: requests.ended_instances(AwaitedInstances(tasks={task_id(0): (0,)}))
    ),
    "GET /queue": lambda requests: requests.queue(),
    "GET /pools": at_once(lambda requests: requests.pools()),
    "POST /pools": at_once(
        lambda requests: requests.create_pool(NewPool(name="new", profile="local", workers=0), "ada")
    ),
    "GET /forecast": lambda requests: requests.forecast(),
    "DELETE /pools/NAME": lambda requests: requests.delete_pool("cpu"),
    "POST /tasks/ID/cancel": at_once(lambda requests: requests.change_task(task_id(0), "cancel", TaskChange(), "ada")),
}


class Pauses:
    """The most calls between two turns of anybody else in the loop."""

    def __init__(self) -> None:
        self.calls = self.longest = self.total = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        def count(_: FrameType, event: str, __: object) -> None:
            self.calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(before)
            self.turn()

    def turn(self) -> None:
        self.longest, self.total, self.calls = max(self.longest, self.calls), self.total + self.calls, 0

    async def of(self, request: Callable[[], Awaitable[object]]) -> None:
        async def others() -> None:
            while True:
                self.turn()
                await asyncio.sleep(0)

        waiting = asyncio.ensure_future(others())
        await asyncio.sleep(0)
        with self.counted():
            await request()
        waiting.cancel()


def task_id(number: int) -> str:
    return f"{number:08x}" * 4


@contextmanager
def a_queue(
    folder: Path, *, tasks: int, users: int = 1, pools: int = 1, after: tuple[str, ...] = ()
) -> Iterator[tuple[ServiceRequests, Pauses]]:
    """A service with tasks that wait, and what it took to put them there."""
    home = ServiceHome(folder)
    home.prepare()
    with ServiceLog(home.path) as log:
        identity, name = _identity(home)
        hub = Hub(identity)
        service = Service(home, log, hub, AgentPools(home, hub, service=name, host=None, clock=time.time, orphan=60))
        requests = ServiceRequests(service, log, Profiles(None), home=home.path)
        for _ in range(pools):
            requests.create_pool(NewPool(name="cpu", profile="local", workers=0), "ada")
        names = [pool.name for pool in requests.pools()]
        adding = Pauses()
        with adding.counted():
            service.take(
                [
                    TaskAdded(at=1.0, task=waiting(each, tasks, users, names[each % pools], after if each else ()))
                    for each in range(tasks)
                ]
            )
        yield requests, adding


def waiting(number: int, tasks: int, users: int, pool: str, after: tuple[str, ...]) -> TaskDefinition:
    return TaskDefinition(
        id=task_id(number),
        name=f"task {number}",
        user=f"user-{number % users}",
        pool=pool,
        command="true",
        after=after,
        instances=INSTANCES // tasks,
        submitted=float(number),
    )


async def longest_pause(folder: Path, asked: str, **queue: Any) -> tuple[int, int]:
    """Of a request, and what it took to put the tasks into the queue."""
    with a_queue(folder, **queue) as (requests, adding):
        pauses = await pauses_of(requests, asked)
        return pauses.longest, adding.total


async def pauses_of(requests: ServiceRequests, asked: str) -> Pauses:
    pauses = Pauses()
    await pauses.of(lambda: REQUESTS[asked](requests))
    return pauses


@pytest.mark.parametrize("asked", REQUESTS)
def test_no_request_keeps_others_waiting_while_many_tasks_wait(tmp_path: Path, asked: str) -> None:
    pause, adding = asyncio.run(longest_pause(tmp_path / "home", asked, tasks=5000))

    assert pause < adding / 4


@pytest.mark.parametrize("asked", ["GET /tasks", "GET /queue"])
def test_no_request_keeps_others_waiting_while_many_users_wait(tmp_path: Path, asked: str) -> None:
    pause, adding = asyncio.run(longest_pause(tmp_path / "home", asked, tasks=5000, users=500))

    assert pause < adding / 4


@pytest.mark.parametrize("asked", REQUESTS)
def test_no_request_keeps_others_waiting_while_many_instances_of_one_task_wait(tmp_path: Path, asked: str) -> None:
    pause, _ = asyncio.run(longest_pause(tmp_path / "home", asked, tasks=1))

    assert pause < INSTANCES / 2  # fewer than half a call for each


def test_a_queue_keeps_nobody_waiting_while_tasks_wait_for_many_pools(tmp_path: Path) -> None:
    with a_queue(tmp_path / "home", tasks=50, pools=50) as (requests, _):
        pauses = asyncio.run(pauses_of(requests, "GET /queue"))

    assert pauses.longest < pauses.total / 4


def test_a_new_pool_keeps_others_waiting_no_longer_where_many_tasks_wait_for_another(tmp_path: Path) -> None:
    many, _ = asyncio.run(longest_pause(tmp_path / "many", "POST /pools", tasks=5000))
    one, _ = asyncio.run(longest_pause(tmp_path / "one", "POST /pools", tasks=1))

    assert many < 2 * one


def test_a_forecast_copies_a_long_queue_piece_by_piece(tmp_path: Path) -> None:
    with a_queue(tmp_path / "home", tasks=5000) as (requests, _):
        pauses = asyncio.run(pauses_of(requests, "GET /forecast"))

    assert pauses.longest < pauses.total / 2


def test_a_task_that_many_come_after_ends_without_keeping_others_waiting(tmp_path: Path) -> None:
    pause, adding = asyncio.run(
        longest_pause(tmp_path / "home", "POST /tasks/ID/cancel", tasks=5000, after=(task_id(0),))
    )

    assert pause < adding
