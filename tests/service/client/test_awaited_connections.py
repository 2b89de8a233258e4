"""What programs await of a service is what others wait for: the same names, arguments and answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.ended_services import end_service
from cenote.service.client.async_connection import AsyncConnection, AsyncPoolHandle, AsyncTaskHandle, connect_async
from cenote.service.client.connection import Connection, connect
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.pool_handle import PoolHandle
from cenote.service.client.records import NewPool, NewTask
from cenote.service.client.task_flows import TaskHandle

PAIRS = ((Connection, AsyncConnection), (PoolHandle, AsyncPoolHandle), (TaskHandle, AsyncTaskHandle))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("CENOTE_SERVICE", raising=False)
    with connect() as started:
        pid = started.service.pid
    yield
    end_service(ServiceHome(usual_home()), pid)


def names_of(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def arguments_of(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (one.kind, one.default) for name, one in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize(("waiting", "awaiting"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_have_the_same_names(waiting: type, awaiting: type) -> None:
    assert names_of(awaiting) == names_of(waiting)


@pytest.mark.parametrize(("waiting", "awaiting"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_take_the_same_arguments(waiting: type, awaiting: type) -> None:
    methods = [name for name in names_of(waiting) if inspect.isfunction(getattr(waiting, name))]
    assert {name: arguments_of(getattr(awaiting, name)) for name in methods} == {
        name: arguments_of(getattr(waiting, name)) for name in methods
    }
    asked = [name for name in vars(waiting) if isinstance(vars(waiting)[name], property)]
    assert [name for name in asked if list(arguments_of(getattr(awaiting, name))) != ["self"]] == []


@pytest.mark.usefixtures("home")
def test_what_is_awaited_is_what_others_get(tmp_path: Path) -> None:
    async def program() -> None:
        async with connect_async() as conn:
            pool = await conn.add_pool(NewPool(name="pool", workers=1))
            (tmp_path / "in").write_text("hello\n")
            added = await conn.add_task(
                NewTask(
                    name="t", pool=pool.name, command="cat in", resources=(str(tmp_path / "in"),), labels={"a": "b"}
                )
            )
            task = await conn.task(added.id)
            assert await task.wait(timeout=60)
            assert (await task.state(), await task.why(), await task.stdout()) == ("Success", (), "hello\n")
            with connect(start=False) as other:
                assert await conn.task_records("a=b") == other.task_records("a=b") != ()
                assert [one.name for one in await conn.pool_records()] == [one.name for one in other.pool_records()]
                assert await conn.forecast() == other.forecast()
                token = await conn.create_token("ada", groups=["atlas"])
                assert await conn.tokens() == other.tokens() == (token.record,)
                assert (await conn.revoke_token(token.record.id)).user == "ada"
                assert other.tokens() == ()
            await (await conn.pool("pool")).delete()

    asyncio.run(program())


@pytest.mark.usefixtures("home")
def test_functions_are_called_on_a_pool_by_programs_with_a_loop() -> None:
    async def program() -> None:
        async with connect_async() as conn, conn.create_pool("pool", "local", 1) as pool:
            assert [found async for found in pool.map(abs, range(-3, 1))] == [3, 2, 1, 0]
            failing = pool.map(int, ["1", "one"], chunksize=1)
            assert await anext(failing) == 1
            with pytest.raises(ValueError, match="one"):
                await anext(failing)
            executor = await pool.executor()
            assert await asyncio.get_running_loop().run_in_executor(executor, divmod, 17, 5) == (3, 2)
            await asyncio.to_thread(executor.shutdown)
            assert await pool.state() == "FullyExecuting"

    asyncio.run(program())
