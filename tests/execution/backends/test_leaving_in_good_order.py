"""A worker whose time is limited begins no task that would not be through."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from distributed import Client, Scheduler, Status, Worker

from cenote.execution.backends.dask import private, scheduler_plugin
from cenote.execution.backends.dask.leaving import Drain
from cenote.execution.backends.dask.messages import Drains, Forgotten, Leaves, Message, encode
from cenote.execution.backends.dask.scheduler_plugin import SchedulerEvents
from cenote.execution.backends.support.outcomes import Bundling
from cenote.execution.worker.process.lifetime import ENDS, GRACE, STARTED, Lifetime, grace_of_job, lifetime_of_job
from cenote.execution.worker.task_spec import TaskSpec


@pytest.mark.parametrize(
    ("seconds", "leaves", "gives_up"), [(60, 30, 50), (600, 540, 580), (3600, 3300, 3500), (14400, 14100, 14300)]
)
def test_the_end_of_a_workers_time_is_for_ending_tasks_and_then_for_its_data(
    seconds: int, leaves: int, gives_up: int
) -> None:
    lifetime = Lifetime(seconds)
    assert (lifetime.leaves, lifetime.gives_up) == (leaves, gives_up)


def test_a_task_that_would_not_be_through_is_not_begun_and_the_worker_leaves() -> None:
    said: list[str] = []
    drain = Drain(Lifetime(3600))
    drain.tell(said.append)
    assert drain.begins(60.0)
    drain.ends()
    assert drain.begins(60.0)
    assert not drain.begins(3550.0)
    (reason,) = said
    assert "a task takes about 59m" in reason
    assert not drain.begins(0.0)
    assert len(said) == 1


def test_a_worker_that_has_done_nothing_yet_begins_whatever_comes() -> None:
    assert Drain(Lifetime(60)).begins(9999.0)


def test_a_worker_without_a_walltime_begins_everything() -> None:
    drain = Drain(None)
    assert drain.begins(0.0)
    drain.ends()
    assert drain.begins(1e9)


def test_a_worker_that_is_asked_to_end_begins_nothing_more_and_says_why() -> None:
    said: list[str] = []
    drain = Drain(None)
    drain.tell(said.append)
    assert drain.begins(0.0)
    drain.end_within(30.0, "it was asked to end")
    assert not drain.begins(0.0)
    assert said == ["it was asked to end"]


def test_a_job_may_say_how_long_its_worker_has_when_it_is_asked_to_end() -> None:
    assert grace_of_job({GRACE: "30"}) == 30
    assert grace_of_job({}) is None
    assert grace_of_job({GRACE: "soon"}) is None


def test_how_long_a_task_takes_is_learned_from_the_longest_and_from_those_that_were_cut_off() -> None:
    task = TaskSpec(task=0, key="k", kind="run", segment=0, attempt=1)
    bundling = Bundling()
    assert bundling.expected([task]) == 0.0
    bundling.finish(task, 3.0)
    bundling.finish(task, 2.0)
    assert bundling.expected([task]) == 3.0
    bundling.take_longer(task, 8.0)
    assert bundling.expected([task]) == 8.0


@pytest.mark.parametrize(
    ("walltime", "variables", "seconds", "age"),
    [
        (3600, {}, 3600, 0.0),
        (3600, {STARTED: "880"}, 3600, 120.0),
        (3600, {STARTED: "1000", ENDS: "1600"}, 600, 0.0),
        (None, {STARTED: "940", ENDS: "1600"}, 660, 60.0),
        (3600, {STARTED: "nonsense", ENDS: ""}, 3600, 0.0),
        (3600, {STARTED: "1000", ENDS: "0"}, 3600, 0.0),
    ],
)
def test_what_came_before_the_worker_counts_and_so_does_a_site_that_gives_less(
    walltime: int | None, variables: dict[str, str], seconds: int, age: float
) -> None:
    assert lifetime_of_job(walltime, variables, 1000.0) == (Lifetime(seconds), age)


def test_without_a_walltime_nothing_is_limited() -> None:
    assert lifetime_of_job(None, {}, 1000.0)[0] is None


def test_a_worker_that_finds_nobody_for_its_data_is_sent_nothing_meanwhile() -> None:
    assert "running" not in asyncio.run(_states_of_a_worker_that_leaves_alone())


async def _states_of_a_worker_that_leaves_alone() -> list[str]:
    """The scheduler's, once the worker said that it leaves, for as long as it looks for somebody."""
    loopback = {"host": "127.0.0.1", "dashboard": False}
    async with (
        Scheduler(**loopback, port=0, dashboard_address="127.0.0.1:0") as scheduler,
        Worker(scheduler.address, memory_limit=2**31, **loopback) as worker,
        Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
    ):
        data = client.submit(abs, -1)
        await data
        seen = scheduler.workers[worker.address]
        drain = Drain(Lifetime(4), age=2)
        drain.tell(lambda _: scheduler.handle_worker_status_change(Status.paused, seen, stimulus_id="leaves"))
        await drain.attend(worker)
        told = [event for _, event in scheduler.get_events(worker.address)]
        states = [event["status"] for event in told if event["action"] == "worker-status-change"]
        return states[states.index("paused") :]


@asynccontextmanager
async def two_workers() -> AsyncIterator[tuple[Client, SchedulerEvents, Worker, Worker]]:
    loopback = {"host": "127.0.0.1", "dashboard": False}
    plugin = SchedulerEvents(60.0)
    options = {"port": 0, "dashboard_address": "127.0.0.1:0", "plugins": (plugin,)}
    async with (
        Scheduler(**loopback, **options) as scheduler,
        Worker(scheduler.address, name="a", **loopback) as a,
        Worker(scheduler.address, name="b", **loopback) as b,
        Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
    ):
        await plugin.start(scheduler)
        yield client, plugin, a, b


async def _gone(worker: Worker) -> None:
    while worker.status is not Status.closed:
        await asyncio.sleep(0.01)


async def _sent_by_a_worker_that_leaves(looks: list[float]) -> int:
    """Its result is let go after a while."""
    async with two_workers() as (client, plugin, a, _):
        data = client.submit(abs, -1, workers=["a"])
        while data.status != "finished":
            await asyncio.sleep(0.01)
        plugin.retire(["a"])
        while len(looks) < 20:
            await asyncio.sleep(0.01)
        data.release()
        await _gone(a)
        return int(a.transfer_outgoing_count_total)


def test_a_worker_that_leaves_waits_for_who_needs_its_results_and_moves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr(scheduler_plugin, "_LOOK_AGAIN", 0.001)
    monkeypatch.setattr(private, "time", lambda: looks.append(0.0) or 0.0)
    assert asyncio.run(asyncio.wait_for(_sent_by_a_worker_that_leaves(looks), 60)) == 0


async def _found_elsewhere() -> tuple[int, bool]:
    async with two_workers() as (client, plugin, a, b):
        data = client.submit(abs, -1, workers=["a"], key="data")
        await data
        plugin.retire(["a"])
        await _gone(a)
        return await data, "data" in b.data


def test_results_that_nobody_reads_in_time_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_plugin, "_TO_BE_READ", 0.0)
    assert asyncio.run(asyncio.wait_for(_found_elsewhere(), 60)) == (1, True)


async def _leaves_without_results() -> None:
    async with two_workers() as (_, plugin, a, _):
        plugin.retire(["a"])
        await _gone(a)


def test_a_worker_without_results_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_plugin, "_TO_BE_READ", math.inf)
    asyncio.run(asyncio.wait_for(_leaves_without_results(), 60))


async def _heard_of_a_worker_whose_time_ends_while_it_leaves() -> list[Message]:
    async with two_workers() as (client, plugin, a, _):
        data = client.submit(abs, -1, workers=["a"])
        await data
        while not plugin.inbox.empty():
            plugin.inbox.get()
        plugin.retire(["a"])
        plugin._hear(a.address, encode(Drains("a", "its walltime is nearly over")))
        data.release()
        await _gone(a)
        return [plugin.inbox.get() for _ in range(plugin.inbox.qsize())]


def test_a_worker_that_was_asked_to_leave_does_not_say_that_its_time_is_over() -> None:
    heard = asyncio.run(asyncio.wait_for(_heard_of_a_worker_whose_time_ends_while_it_leaves(), 60))
    assert [type(message) for message in heard] == [Forgotten, Leaves]
