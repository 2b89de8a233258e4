"""A session on Dask: a scheduler in this process, the workers that joined it, and the news of both."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import assert_never

import dask
import msgspec
from distributed import Client, SpecCluster

from cenote.common import software, storage
from cenote.common.certificates import identity
from cenote.common.certificates.authority import identities_of
from cenote.common.units import format_bytes
from cenote.engine.messages import (
    AnyEvent,
    Event,
    FailureInfo,
    Warned,
    WorkerAnswers,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerSilent,
)
from cenote.execution.backends.dask import private
from cenote.execution.backends.dask.doors import SCHEDULER, RunSecurity, SecuredScheduler
from cenote.execution.backends.dask.launch import worker_launch
from cenote.execution.backends.dask.messages import (
    AnswersAgain,
    AnyWorkerMessage,
    BundleDone,
    BundleStarted,
    Differs,
    Drains,
    Erred,
    Forgotten,
    InMemory,
    Joins,
    Leaves,
    MadeAgain,
    Message,
    OutOfMemory,
    StopsAnswering,
    TaskEndsWorker,
    encode,
)
from cenote.execution.backends.dask.network import Network
from cenote.execution.backends.dask.run_bundle import TaskPlugin
from cenote.execution.backends.dask.scheduler_plugin import SchedulerEvents
from cenote.execution.backends.dask.tasks import SentTasks
from cenote.execution.backends.interface import JoinedSession, SessionRequest
from cenote.execution.launch import Launch
from cenote.execution.worker.process.credentials import DeliveredCredential
from cenote.execution.worker.process.lifetime import Lifetime
from cenote.execution.worker.process.reach import bracketed
from cenote.execution.worker.process.scratch import leave_scratch, make_scratch
from cenote.execution.worker.results.store import Store
from cenote.execution.worker.task_spec import TaskSpec


class DaskSession(JoinedSession):
    """Which workers there are is known here; which tasks, in `SentTasks`."""

    def __init__(self, request: SessionRequest, network: Network, patience: float) -> None:
        self._request, self._patience = request, patience
        self._pools = {pool.name: pool for pool in request.pools}
        self._scheduler_events = SchedulerEvents(patience)
        self._network = network
        self._configured = ExitStack()  # for as long as the session lives: Dask reads some of it as each worker joins
        self._configured.enter_context(dask.config.set(SCHEDULER))
        self._configured.enter_context(private.silenced())  # its cluster would speak again too soon
        try:
            identities = identities_of(request.run.id)
            self._security = RunSecurity(identities.driver)
            self._configured.callback(identity.forget, request.run.identity)
            identities.workers.write(request.run.identity)
            with storage.explained():
                self._scratch = make_scratch(Path(tempfile.gettempdir()), "driver")
            self._configured.callback(leave_scratch, self._scratch)
            self._cluster = network.listen(self._scheduler)
            self._client = Client(self._cluster, set_as_default=False)
        except BaseException:
            self._configured.close()
            raise
        self._client.register_plugin(TaskPlugin(request.run_spec))
        self._tasks = SentTasks(
            self._client, request.run_spec, pools=self._pools, store=Store(request.store), now=self._now
        )
        self._slots: dict[str, int] = {}
        """Pool → slots of the workers that take tasks."""
        self._pool_of: dict[str, str] = {}
        self._last_words: dict[str, FailureInfo] = {}
        """Workers that ran out of memory → what they said of it."""
        self._leaving: dict[str, str] = {}
        """Workers whose walltime is nearly over → what they said of it."""
        self._silent: set[str] = set()
        self._warned: set[str] = set()
        """Pools whose workers have other software, and of which that has been said."""
        for warning in network.warnings():
            self._scheduler_events.inbox.put(Warned(at=self._now(), message=warning))

    def _scheduler(self, host: str, port: int) -> SpecCluster:
        options = {
            "host": bracketed(host),
            "port": port,
            "security": self._security,
            "dashboard": False,
            "local_directory": str(self._scratch),
            "plugins": (self._scheduler_events,),
        }
        scheduler = {"cls": SecuredScheduler, "options": options}
        return SpecCluster(workers={}, scheduler=scheduler, security=self._security, name="cenote")

    # workers

    def launch(self, pool: str, *, lifetime: Lifetime | None = None) -> Launch:
        """Workers that join this scheduler."""
        return worker_launch(
            self._request.run,
            self._pools[pool],
            scheduler=self._network.told(self._cluster.scheduler.address),
            lifetime=lifetime,
            place=self._network.workers,
            segments=self._request.run_spec.segments,
        )

    def deliver(self, pool: str, credentials: Sequence[DeliveredCredential]) -> None:
        """Over the stream to each worker, which only those with the run's certificate can open."""
        self._client.loop.add_callback(self._scheduler_events.deliver, pool, encode(tuple(credentials)))

    def retire(self, workers: Sequence[str]) -> None:
        """Let workers go once their data has been read, or has moved to others."""
        self._client.loop.add_callback(self._scheduler_events.retire, frozenset(workers))

    def drop(self, workers: Sequence[str]) -> None:
        """Go on without workers that do not answer."""
        self._client.loop.add_callback(self._scheduler_events.drop, frozenset(workers))

    # tasks

    def run(self, spec: TaskSpec, pool: str) -> None:
        self._tasks.add(spec, pool)

    def cancel(self, task: int) -> None:
        for event in self._tasks.cancel(task):
            self._scheduler_events.inbox.put(event)

    def forget(self, names: Sequence[str]) -> None:
        self._tasks.forget(names)

    def events(self, seconds: float) -> list[AnyEvent]:
        self._tasks.send(self._slots)
        told: list[AnyEvent] = []
        try:
            told += self._heard(self._scheduler_events.inbox.get(timeout=seconds))
            while True:
                told += self._heard(self._scheduler_events.inbox.get_nowait())
        except queue.Empty:
            return told

    def close(self) -> None:
        with self._configured:
            self._tasks.close()
            self._client.close()
            self._cluster.close()

    # news

    def _heard(self, message: Message) -> list[AnyEvent]:
        match message:
            case InMemory(key, fetching):
                return self._tasks.through(key, fetching)
            case MadeAgain(key):
                return self._tasks.made_again(key)
            case Forgotten(key):
                return self._tasks.forgotten(key)
            case Erred(key, text):
                return self._tasks.erred(key, text)
            case Joins(worker, pool):
                return self._joined(worker, pool) if pool in self._pools else []
            case Differs():
                return self._compared(message) if message.pool in self._pools else []
            case Event():
                return [message]
        return self._heard_of_worker(message) if message.worker in self._pool_of else []

    def _heard_of_worker(self, message: AnyWorkerMessage | StopsAnswering | AnswersAgain | Leaves) -> list[AnyEvent]:
        match message:
            case BundleStarted(worker, key):
                return [*self._answers(worker), *self._tasks.started(key, worker)]
            case BundleDone(worker, key, reports):
                self._tasks.reported(key, worker, reports)
                return self._answers(worker)
            case TaskEndsWorker(worker, key, outcome):
                return self._tasks.failed(key, worker, outcome)
            case Drains(worker, reason, keys):
                return self._leaves(worker, reason, keys)
            case StopsAnswering(worker, seconds, keys):
                return self._falls_silent(worker, seconds, keys)
            case AnswersAgain(worker):
                return self._answers(worker)
            case OutOfMemory(worker, used, limit):
                words = f"ran out of memory: its worker used {format_bytes(used)} of {format_bytes(limit)}"
                self._last_words[worker] = FailureInfo(cause="oom", message=words)
                return []
            case Leaves(worker):
                return self._gone(worker)
        assert_never(message)

    def _joined(self, worker: str, name: str) -> list[AnyEvent]:
        self._pool_of[worker], pool = name, self._pools[name]
        self._slots[name] = self._slots.get(name, 0) + pool.slots
        return [WorkerJoined(at=self._now(), worker=worker, pool=pool.name, slots=pool.slots)]

    def _compared(self, message: Differs) -> list[AnyEvent]:
        """A worker has other software: turned away for that, or worth one warning for all workers of its pool."""
        at, pool = self._now(), message.pool
        if message.refused:
            return [WorkerLost(at=at, worker=message.worker, pool=pool, reason=message.words, cause="unfit")]
        known = pool in self._warned
        self._warned.add(pool)
        return [] if known else [Warned(at=at, message=software.warning(f"workers of pool '{pool}'", message.words))]

    def _leaves(self, worker: str, reason: str, keys: Sequence[str]) -> list[AnyEvent]:
        """A worker begins nothing more: what it was sent and has not begun goes to others."""
        pool = self._pools[self._pool_of[worker]]
        back = self._answers(worker)
        self._leaving[worker] = reason
        self._slots[pool.name] -= pool.slots
        self._tasks.take_back(keys)
        return [*back, WorkerLeaving(at=self._now(), worker=worker, pool=pool.name, reason=reason)]

    def _falls_silent(self, worker: str, seconds: float, keys: Sequence[str]) -> list[AnyEvent]:
        """A worker does not answer: what it was sent and has not begun goes to others."""
        pool = self._pools[self._pool_of[worker]]
        if worker not in self._leaving:
            self._silent.add(worker)
            self._slots[pool.name] -= pool.slots
        self._tasks.take_back(keys)
        at, patience = self._now(), self._patience
        return [WorkerSilent(at=at, worker=worker, pool=pool.name, seconds=seconds, patience=patience)]

    def _answers(self, worker: str) -> list[AnyEvent]:
        """A worker is heard of: news if it was silent."""
        if worker not in self._silent:
            return []
        pool = self._pools[self._pool_of[worker]]
        self._silent.discard(worker)
        self._slots[pool.name] += pool.slots
        return [WorkerAnswers(at=self._now(), worker=worker, pool=pool.name)]

    def _gone(self, worker: str) -> list[AnyEvent]:
        pool = self._pools[self._pool_of[worker]]
        words = self._last_words.pop(worker, FailureInfo(cause="lost", message=f"its worker {worker} was lost"))
        lost = WorkerLost(at=self._now(), worker=worker, pool=pool.name, reason=words.message)
        if worker in self._leaving:
            lost = msgspec.structs.replace(lost, reason=self._leaving.pop(worker), cause="walltime")
        elif worker not in self._silent:
            self._slots[pool.name] -= pool.slots
        self._silent.discard(worker)
        before, after = self._tasks.lost_with(worker, words)
        return [*before, lost, *after]

    def _now(self) -> float:
        return self._request.clock()
