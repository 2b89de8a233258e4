"""Listen to the Dask scheduler: what it sees, and what workers say, goes to the driver's thread."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Collection
from typing import Any

import msgspec
from distributed import Scheduler, Status
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.scheduler import WorkerState
from tornado.ioloop import PeriodicCallback

from cenote.execution.backends.dask import private
from cenote.execution.backends.dask.leaving import LOOK_EVERY, Heartbeats
from cenote.execution.backends.dask.messages import (
    CREDENTIALS,
    NO_CREDENTIALS,
    OPERATION,
    SOFTWARE,
    Differs,
    Drains,
    Erred,
    Forgotten,
    InMemory,
    Joins,
    Leaves,
    MadeAgain,
    Message,
    StopsAnswering,
    decode,
)
from cenote.execution.backends.dask.run_bundle import pool_of
from cenote.execution.backends.support.outcomes import VitalSigns, vital_signs

_TO_BE_READ = 10.0
"""Seconds that results of a worker that leaves have to be read by those who wait for them, before they are moved."""
_LOOK_AGAIN = 0.1


class SchedulerEvents(SchedulerPlugin):  # type: ignore[misc]  # distributed publishes no types for it
    """Passes on what the scheduler sees, from its thread to ours."""

    name = "cenote-news"

    def __init__(self, patience: float) -> None:
        self._pulses = Heartbeats(patience)
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._made: set[str] = set()
        """Keys of bundles whose results were there, and have neither been forgotten nor begun again."""
        self._names: dict[str, str] = {}
        self._leaving: set[str] = set()
        """Workers that take nothing more, for good."""
        self._retiring: dict[str, asyncio.Task[None]] = {}
        """Workers that were asked to leave → what waits for their results to be read."""
        self._credentials: dict[str, bytes] = {}
        """Pool → what its workers have to reach protected data."""

    async def start(self, scheduler: Scheduler) -> None:
        """The scheduler begins."""
        self._scheduler = scheduler
        private.hear(scheduler, OPERATION, self._hear)
        private.answer(scheduler, CREDENTIALS, self._credentials_of)
        private.answer(scheduler, SOFTWARE, self._compared)
        self._looking = PeriodicCallback(self._feel_pulses, 1000 * LOOK_EVERY)
        self._looking.start()

    async def close(self) -> None:
        """The scheduler ends."""
        self._looking.stop()
        for leaving in self._retiring.values():
            leaving.cancel()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """A worker joined."""
        joined = scheduler.workers[worker]
        self._names[worker] = str(joined.name)
        self.inbox.put(Joins(self._names[worker], _pool_of(joined)))

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **_: Any) -> None:  # noqa: ARG002
        """A worker is gone."""
        self.inbox.put(Leaves(self._names.pop(worker, worker)))

    def _hear(self, worker: str, message: bytes) -> None:  # noqa: ARG002  # its address: messages have its name
        """A worker says something."""
        said = decode(message)
        if isinstance(said, Drains):
            if said.worker in self._retiring:
                return  # its time is over as well, and it leaves already
            self._leaving.add(said.worker)
            said = msgspec.structs.replace(said, keys=self._spare(said.worker))
        self.inbox.put(said)

    def deliver(self, pool: str, credentials: bytes) -> None:
        """Workers of this pool have these from now on."""
        self._credentials[pool] = credentials
        for address, worker in self._scheduler.workers.items():
            if _pool_of(worker) == pool:
                private.tell_worker(self._scheduler, address, {"op": CREDENTIALS, "credentials": credentials})

    def _credentials_of(self, pool: str) -> bytes:
        return self._credentials.get(pool, NO_CREDENTIALS)

    def _compared(self, worker: str, pool: str, words: str, refused: bool) -> None:
        """A worker that has not joined says in what its software differs."""
        self.inbox.put(Differs(worker, pool, words, refused))

    def _feel_pulses(self) -> None:
        """Send silent workers nothing more, until they answer."""
        workers = {str(worker.name): worker for worker in self._scheduler.workers.values()}
        heard = {name: worker.last_seen for name, worker in workers.items()}
        every = private.heartbeat_seconds(len(workers))
        for found in self._pulses.look(private.now(), heard, lambda name: _signs_of(workers[name]), every=every):
            if isinstance(found, StopsAnswering):
                found = msgspec.structs.replace(found, keys=self._spare(found.worker))
            elif found.worker not in self._leaving:
                why = f"cenote-answers-{found.worker}"
                private.set_status(self._scheduler, workers[found.worker], Status.running, why=why)
            self.inbox.put(found)

    def retire(self, names: Collection[str]) -> None:
        """Let these workers go: at once where they hold no results, else when those have been read, or have moved."""
        for name in names:
            self._leaving.add(name)
            self._spare(name)
            self._retiring[name] = asyncio.get_running_loop().create_task(self._retire(name))

    async def _retire(self, name: str) -> None:
        """To move results costs those who work more than to wait a little for their readers."""
        until = private.now() + _TO_BE_READ
        while any(worker.has_what for worker in self._named(name)) and private.now() < until:
            await asyncio.sleep(_LOOK_AGAIN)
        await self._scheduler.retire_workers(names=[name], close_workers=True, remove=True)

    async def drop(self, names: Collection[str]) -> None:
        """Go on without these workers; if one ever wakes up, it finds itself unknown and ends."""
        found = [worker.address for worker in self._scheduler.workers.values() if str(worker.name) in names]
        for address in found:
            await self._scheduler.remove_worker(address, stimulus_id=f"cenote-drop-{address}")

    def _spare(self, name: str) -> tuple[str, ...]:
        """Send a worker nothing more; what it was sent."""
        found = self._named(name)
        for worker in found:
            private.set_status(self._scheduler, worker, Status.paused, why=f"cenote-leaving-{name}")
        return tuple(str(task.key) for worker in found for task in worker.processing)

    def _named(self, name: str) -> list[WorkerState]:
        return [worker for worker in self._scheduler.workers.values() if str(worker.name) == name]

    def transition(self, key: str, start: str, finish: str, *_: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """A bundle is through, failed in a way that our own code could not tell of, is made again, or is let go.

        Dask releases a result that nobody wants and then forgets it; only one that it begins to make again was lost.
        """
        match finish:
            case "memory":
                self._made.add(key)
                self.inbox.put(InMemory(key, private.transfer_seconds(kwargs)))
            case "erred":
                self.inbox.put(Erred(key, private.error_text(kwargs)))
            case "forgotten":
                self._made.discard(key)
                self.inbox.put(Forgotten(key))
            case "waiting" if key in self._made:
                self._made.discard(key)
                self.inbox.put(MadeAgain(key))


def _pool_of(worker: WorkerState) -> str:
    return next(filter(None, map(pool_of, worker.resources)), "")


def _signs_of(worker: WorkerState) -> VitalSigns | None:
    return vital_signs(worker.pid, named=str(worker.name))
