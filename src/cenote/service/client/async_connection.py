"""Connect to a service from an asyncio loop: the same as `connection.py`, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from cenote.service.client.address import NetworkAddress
from cenote.service.client.asking import Ask, create, get, named, post, send_files
from cenote.service.client.async_line import AsyncLine
from cenote.service.client.connection import place_of
from cenote.service.client.functions.dispatcher import Dispatcher
from cenote.service.client.functions.executor import PoolExecutor
from cenote.service.client.line import Line
from cenote.service.client.pool_flows import PoolFlows
from cenote.service.client.pool_handle import PoolHandle
from cenote.service.client.queue_view import QueueView
from cenote.service.client.records import (
    CallerRecord,
    CreatedToken,
    HeardEvent,
    LivePoolRecord,
    NewPool,
    NewTask,
    NewToken,
    PageLink,
    QueuedTaskRecord,
    QueueForecast,
    ServiceRecord,
    TaskInstance,
    TaskVerb,
    TokenRecord,
)
from cenote.service.client.task_flows import TaskFlows

Item = TypeVar("Item")
Value = TypeVar("Value")
_END = object()
"""Comes after the last result."""


def connect_async(
    service: str | Path | None = None,
    *,
    token: str | None = None,
    ca: str | Path | None = None,
    start: bool = True,
) -> AsyncConnecting:
    """What `connect` does, for `await` or `async with`."""
    return AsyncConnecting(service, token=token, ca=ca, start=start)


class AsyncConnecting:
    """A connection that is about to be made."""

    def __init__(self, service: str | Path | None, *, token: str | None, ca: str | Path | None, start: bool) -> None:
        self._service, self._token, self._ca, self._start = service, token, ca, start
        self._made: AsyncConnection | None = None

    async def _connected(self) -> AsyncConnection:
        where: Path | NetworkAddress = await asyncio.to_thread(
            place_of, self._service, token=self._token, ca=self._ca, start=self._start
        )
        return AsyncConnection(AsyncLine(where))

    def __await__(self) -> Generator[Any, Any, AsyncConnection]:  # Any: what loops and tasks exchange
        return self._connected().__await__()

    async def __aenter__(self) -> AsyncConnection:
        self._made = await self._connected()
        return self._made

    async def __aexit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        if self._made is not None:
            await self._made.close()


class AsyncPoolHandle(PoolFlows):
    """Workers that stay. A context closes it when its tasks are over."""

    def __init__(self, line: AsyncLine, *, name: str, profile: str, workers: int) -> None:
        super().__init__(name=name, profile=profile, workers=workers)
        self._line = line

    @classmethod
    def of(cls, line: AsyncLine, record: LivePoolRecord) -> Self:
        """One that is there."""
        made = cls(line, name=record.title or record.name, profile=record.profile, workers=record.wanted or 0)
        return made.known_as(record)

    async def record(self) -> LivePoolRecord:
        """How it is now."""
        return await self._line.carry_out(self.record_flow())

    async def state(self) -> str:
        """`Submitted`, `PartiallyDispatched`, …, `FullyExecuting`, `Closing`, `Closed`; `PendingDelete` while it is
        removed."""
        return "" if self._record is None else (await self.record()).state

    async def submit(self) -> Self:
        """Ask for its workers; tasks may be submitted at once, and wait for them."""
        await self._line.carry_out(self.submit_flow())
        return self

    async def wait(self, *states: str, timeout: float | None = None) -> str:
        """Until it is in one of these states, or all its workers run; returns the state."""
        return await self._line.carry_out(self.wait_flow(states, timeout))

    async def map(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        *,
        chunksize: int | None = None,
        ordered: bool = True,
        return_exceptions: bool = False,
        timeout: float | None = None,
        retries: int = 0,
        progress: bool = False,
        show: bool = False,
    ) -> AsyncIterator[Value]:
        """What a function returns for each item, as `PoolHandle.map`, for `async for`: it begins with the first step.
        What is left when the loop is left is stopped."""
        pool = await self._in_threads()
        results = await asyncio.to_thread(
            pool.map,
            function,
            items,
            chunksize=chunksize,
            ordered=ordered,
            return_exceptions=return_exceptions,
            timeout=timeout,
            retries=retries,
            progress=progress,
            show=show,
        )
        try:
            while (value := await asyncio.to_thread(next, results, _END)) is not _END:
                yield value  # type: ignore[misc]  # it is not the end
        finally:
            await asyncio.to_thread(results.close)

    async def executor(self, *, timeout: float | None = None, retries: int = 0) -> PoolExecutor:
        """An executor for `loop.run_in_executor`, as `PoolHandle.executor`."""
        return await asyncio.to_thread((await self._in_threads()).executor, timeout=timeout, retries=retries)

    async def dispatcher(self) -> Dispatcher:
        """The way of calls to this pool, which is submitted if it was not."""
        return (await self._in_threads()).dispatcher()

    async def _in_threads(self) -> PoolHandle:
        """The same pool for the threads that make calls: they have connections of their own."""
        return PoolHandle.of(Line(self._line.where), await self._line.carry_out(self.submit_flow()))

    async def close(self) -> None:
        """No more tasks: its workers go as soon as the instances that they run are over."""
        await self._line.carry_out(self.close_flow())

    async def delete(self) -> None:
        """Close it, stop what it runs, and forget it."""
        await self._line.carry_out(self.delete_flow())

    async def __aenter__(self) -> Self:
        return await self.submit()

    async def __aexit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        await self._line.carry_out(self.leave_flow(finish=kind is None))


class AsyncTaskHandle(TaskFlows):
    """A command, run by so many instances on the workers of a pool."""

    def __init__(self, line: AsyncLine, *, name: str, pool: AsyncPoolHandle | str | None, instances: int) -> None:
        super().__init__(name=name, pool=pool, instances=instances)
        self._line = line

    @classmethod
    def of(cls, line: AsyncLine, record: QueuedTaskRecord) -> Self:
        """One that is there."""
        return cls(line, name=record.name, pool=record.pool, instances=record.instances).known_as(record)

    async def record(self) -> QueuedTaskRecord:
        """How it is now."""
        return await self._line.carry_out(self.record_flow())

    async def state(self) -> str:
        """`Submitted`, `PartiallyExecuting`, `FullyExecuting`, `Success`, `Failure`, `Cancelled`, `Paused`."""
        return "" if self._record is None else str((await self.record()).state)

    async def why(self) -> Sequence[str]:
        """Why it waits and what is ahead of it, or why it failed."""
        return (await self.record()).why

    async def instances(self) -> Sequence[TaskInstance]:
        """Every instance, by its number."""
        return await self._line.get(f"/tasks/{self.uuid}/instances", tuple[TaskInstance, ...])

    async def submit(self) -> Self:
        """Put it into the queue, and go on."""
        await self._line.carry_out(self.submit_flow())
        return self

    async def wait(self, timeout: float | None = None) -> bool:
        """Until it is over; returns whether it succeeded. Raises TimeoutError when that takes longer."""
        return await self._line.carry_out(self.wait_flow(timeout))

    async def run(self, timeout: float | None = None, *, quiet: bool = False) -> bool:
        """Submit it and wait for its end, with its progress and its output on the terminal; returns whether it
        succeeded."""
        return await self._line.carry_out(self.run_flow(timeout, quiet=quiet))

    async def stdout(self, instance: int | None = None) -> str:
        """What its instances wrote so far, in the order in which it came; or what one of them wrote."""
        return await self._line.carry_out(self.output_flow("stdout", instance))

    async def stderr(self, instance: int | None = None) -> str:
        """The same of what they wrote to their standard error."""
        return await self._line.carry_out(self.output_flow("stderr", instance))

    async def download_results(self, folder: str | Path) -> list[Path]:
        """Copy the files that were collected so far; returns where they are."""
        return await self._line.carry_out(self.download_flow(folder))

    async def cancel(self) -> None:
        """Stop what runs, and begin nothing more; not an error where it is over."""
        await self.change("cancel")

    async def change(self, verb: TaskVerb, **given: str | int) -> None:
        """`cancel`, `pause`, `resume`; `move` to a `pool`; set its `priority`; put it `ahead` `of` another task."""
        await self._line.carry_out(self.change_flow(verb, **given))

    async def __aenter__(self) -> Self:
        return await self.submit()

    async def __aexit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        await self._line.carry_out(self.leave_flow())


class AsyncConnection:
    """A service, as programs with an asyncio loop see it."""

    def __init__(self, line: AsyncLine) -> None:
        self._line = line

    async def service(self) -> ServiceRecord:
        """What the service says of itself."""
        return await self._line.get("/service", ServiceRecord)

    async def caller(self) -> CallerRecord:
        """Whom the service takes this program for."""
        return await self._line.get("/caller", CallerRecord)

    def create_pool(self, name: str, profile: str = "local", instancecount: int = 1) -> AsyncPoolHandle:
        """A pool of so many workers, which is there once it is submitted."""
        return AsyncPoolHandle(self._line, name=name, profile=profile, workers=instancecount)

    def create_task(
        self, name: str, pool: AsyncPoolHandle | str | None = None, instancecount: int = 1
    ) -> AsyncTaskHandle:
        """A task of so many instances, which waits for slots once it is submitted."""
        return AsyncTaskHandle(self._line, name=name, pool=pool, instances=instancecount)

    async def pools(self) -> Sequence[AsyncPoolHandle]:
        """Every pool that is not closed."""
        return [AsyncPoolHandle.of(self._line, record) for record in await self.pool_records()]

    async def pool_records(self) -> Sequence[LivePoolRecord]:
        """The same as they are now, by one question."""
        return await self._line.get("/pools", tuple[LivePoolRecord, ...])

    async def pool(self, name: str) -> AsyncPoolHandle:
        """The pool of this name."""
        return AsyncPoolHandle.of(self._line, await self._line.get(f"/pools/{named(name)}", LivePoolRecord))

    async def tasks(self, *, pool: str | None = None, state: str | None = None) -> Sequence[AsyncTaskHandle]:
        """Tasks, the latest first."""
        return [AsyncTaskHandle.of(self._line, record) for record in await self.task_records(pool=pool, state=state)]

    async def task_records(
        self, label: str | None = None, *, pool: str | None = None, state: str | None = None
    ) -> Sequence[QueuedTaskRecord]:
        """The same as they are now, by one question; or those that have this label, `name` or `name=value`: all that
        are not over, and the latest of the others."""
        return await self._line.get("/tasks", tuple[QueuedTaskRecord, ...], label=label, pool=pool, state=state)

    async def add_pool(self, asked: NewPool) -> LivePoolRecord:
        """Ask for a pool in all its words."""
        return await self._line.ask(create("/pools", LivePoolRecord, asked))

    async def add_task(self, asked: NewTask) -> QueuedTaskRecord:
        """Ask for a task in all its words; its `resources` are files of this machine."""
        paths, uploads = await self._line.carry_out(send_files(asked.resources))
        sent = msgspec.structs.replace(asked, resources=paths, uploads=uploads)
        return await self._line.ask(create("/tasks", QueuedTaskRecord, sent))

    async def task(self, uuid: str) -> AsyncTaskHandle:
        """The task with this id, or with an id that begins so."""
        return AsyncTaskHandle.of(self._line, await self._line.get(f"/tasks/{named(uuid)}", QueuedTaskRecord))

    async def queue(self, pool: str | None = None) -> QueueView:
        """Pool → tasks that wait for it, in the order in which they would start now."""
        return QueueView(await self._line.get("/queue", dict[str, tuple[QueuedTaskRecord, ...]], pool=pool))

    async def forecast(self, *, duration: float = 600.0, startup: float = 30.0) -> QueueForecast:
        """When the tasks of the queue would start and end. `duration` is for tasks that nothing is known of, `startup`
        from asking for a worker until it comes, both in seconds."""
        return await self._line.ask(get("/forecast", QueueForecast, wait=60.0, duration=duration, startup=startup))

    def events(
        self, *, task: str | None = None, pool: str | None = None, after: str | None = None
    ) -> AsyncIterator[HeardEvent]:
        """What happens from now on, or after an event that was heard."""
        return self._line.events(task=task, pool=pool, after=after)

    async def tokens(self) -> Sequence[TokenRecord]:
        """Tokens that are not revoked. For the owner of the service, and admins."""
        return await self._line.get("/tokens", tuple[TokenRecord, ...])

    async def create_token(
        self, user: str, *, groups: Sequence[str] = (), seconds: int | None = None, admin: bool = False
    ) -> CreatedToken:
        """A token for a user. For the owner of the service, and admins."""
        asked = NewToken(user=user, groups=tuple(groups), seconds=seconds, admin=admin)
        return await self._line.ask(post("/tokens", CreatedToken, asked))

    async def revoke_token(self, token: str) -> TokenRecord:
        """Let the token with this id be worth nothing. For the owner of the service, and admins."""
        return await self._line.ask(Ask("DELETE", f"/tokens/{named(token)}", TokenRecord))

    async def page_link(self) -> PageLink:
        """A link to the service's page that signs in once. For the owner of the service, at its socket."""
        return await self._line.ask(post("/page", PageLink))

    async def close(self) -> None:
        """End the connection; pools and tasks go on."""
        await self._line.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        await self.close()
