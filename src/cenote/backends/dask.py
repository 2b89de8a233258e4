"""This file is the Dask backend: one scheduler of ours, several kinds of workers, every task sent to its pool.

Our engine decides which pool, how many workers, and what to try again; Dask decides which worker inside the pool, and
moves events from worker to worker. Products come home with the news that a task is done, and are stored here.
"""

from __future__ import annotations

import pickle
import queue
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cenote import errors
from cenote.backends._outcomes import event_of, placed, withdrawn
from cenote.backends.interface import Backend, JoinedSession, Session, SessionRequest
from cenote.engine.messages import (
    AnyEvent,
    FailureInfo,
    ResultLost,
    TaskFailed,
    TaskStarted,
    WorkerJoined,
    WorkerLost,
)
from cenote.language.workflow import Amounts
from cenote.plan.plan import Segment
from cenote.units import format_bytes
from cenote.worker.envelope import Outcome, TaskEnvelope
from cenote.worker.store import Store

try:
    import dask
    from distributed import Client, Future, Scheduler, SpecCluster
    from distributed.diagnostics.plugin import SchedulerPlugin

    from cenote.backends._dask_worker import TOPIC, TaskPlugin, run_envelope
except ImportError as problem:
    raise errors.error(
        errors.ENVIRONMENT,
        f"the backend 'dask' needs a package that is not installed: {problem.name}",
        hint="install cenote[dask]",
    ) from problem

_CONFIG = {
    "distributed.comm.compression": None,  # within a site the network is faster than the compressor
    "distributed.scheduler.allowed-failures": 1_000_000,  # our engine counts losses, and only of tasks that had begun
    "distributed.admin.low-level-log-length": 1,  # our messages carry products: Dask must not keep them
    "distributed.worker.profile.enabled": False,
    "distributed.admin.event-loop": "asyncio",
}
AMOUNTS = ("cpus", "memory", "gpus", "disk")


class _News(SchedulerPlugin):  # type: ignore[misc]  # distributed publishes no types for it
    """Passes on what the scheduler sees, from its thread to ours."""

    name = "cenote-news"

    def __init__(self) -> None:
        self.inbox: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.finished: set[str] = set()
        """Keys of tasks that are done and whose events others may still read."""
        self._names: dict[str, str] = {}

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """A worker joined."""
        self._names[worker] = str(scheduler.workers[worker].name)
        self.inbox.put(("joined", self._names[worker]))

    def remove_worker(self, scheduler: Scheduler, worker: str, *, stimulus_id: str, **_: Any) -> None:  # noqa: ARG002
        """A worker is gone."""
        self.inbox.put(("gone", self._names.pop(worker, worker)))

    def log_event(self, topic: str, msg: Any) -> None:
        """A worker says something."""
        if topic == TOPIC:
            worker, word, *rest = msg
            self.inbox.put((word, worker, *rest))

    def transition(self, key: str, start: str, finish: str, *_: Any, **kwargs: Any) -> None:  # noqa: ARG002
        """A task is through, failed in a way that our own code could not tell of, or is made again."""
        if finish == "memory":
            self.inbox.put(("memory", key))
        elif finish == "erred":
            self.inbox.put(("erred", key, kwargs.get("exception_text") or str(kwargs.get("exception"))))
        elif finish == "forgotten":
            self.finished.discard(key)
        elif key in self.finished:
            self.finished.discard(key)
            self.inbox.put(("again", key))


class Dask(Backend):
    """Runs tasks on workers that join a Dask scheduler in this process."""

    host: str | None = None
    """Address that the scheduler listens on; by default loopback when all workers are on this machine."""
    port: int = 0
    """Port of the scheduler; 0 takes any that is free."""

    def open(self, request: SessionRequest) -> Session:
        """Start the scheduler."""
        here = all(pool.strategy == "local" for pool in request.pools)
        return DaskSession(request, host=self.host or ("127.0.0.1" if here else None), port=self.port)


class DaskSession(JoinedSession):
    """A scheduler, and what is known of its tasks and workers."""

    def __init__(self, request: SessionRequest, *, host: str | None, port: int) -> None:
        self._request = request
        self._pools = {pool.name: pool for pool in request.pools}
        self._segments = request.program.segments
        self._store = Store(request.store)
        self._news = _News()
        self._host = host
        with dask.config.set(_CONFIG):
            options = {
                "host": host,
                "port": port,
                "dashboard": False,
                "dashboard_address": "127.0.0.1:0",
                "plugins": (self._news,),
            }
            self._cluster = SpecCluster(
                workers={}, scheduler={"cls": Scheduler, "options": options}, silence_logs=50, name="cenote"
            )
            self._client = Client(self._cluster, set_as_default=False)
        self._client.register_plugin(TaskPlugin(request.program))
        self._futures: dict[str, Future] = {}
        """Name of a stored result → the future of the task that made it."""
        self._sent: dict[int, tuple[TaskEnvelope, str, Future]] = {}
        self._task_of: dict[str, int] = {}
        """Key of a task that was sent and is not through → the task."""
        self._said: dict[int, tuple[str, Outcome, bytes]] = {}
        """Task → what its worker said of it: worker, outcome, products. It counts once Dask has the result too."""
        self._left: dict[str, tuple[TaskEnvelope, str]] = {}
        """Key of a task that is through and left events for others → its envelope and pool."""
        self._running: dict[str, dict[int, float]] = {}
        """Worker → the tasks that it has begun, and when."""
        self._last_words: dict[str, FailureInfo] = {}
        self._pool_of: dict[str, str] = {}

    # workers

    def worker_command(self, pool: str, worker: str, *, log: Path) -> tuple[str, ...]:
        """How to start a worker of a pool, anywhere."""
        placed_pool = self._pools[pool]
        self._pool_of[worker] = pool
        command = [sys.executable, "-m", "cenote.backends._dask_worker"]
        command += ["--scheduler", self._cluster.scheduler_address, "--name", worker, "--pool", pool]
        command += ["--slots", str(placed_pool.slots), "--log", str(log)]
        if placed_pool.granted.memory:
            command += ["--memory", str(placed_pool.granted.memory)]
        for name, amount in _amounts(placed_pool.granted).items():
            command += ["--resource", f"{name}={amount}"]
        if self._host:
            command += ["--host", self._host]
        return tuple(command)

    def retire(self, workers: Sequence[str]) -> None:
        """Let workers go once their data has moved to others."""
        scheduler = self._cluster.scheduler
        self._client.loop.add_callback(scheduler.retire_workers, names=list(workers), close_workers=True, remove=True)

    # tasks

    def run(self, envelope: TaskEnvelope, pool: str) -> None:
        inline, upstream = self._inputs(envelope)
        key = f"{self._segments[envelope.segment].stages[0]}-{envelope.kind}-{envelope.key}-{envelope.attempt}"
        future = self._client.submit(
            run_envelope,
            envelope,
            inline,
            *upstream,
            key=key,
            pure=False,
            resources={f"resource.{pool}": 1, **_amounts(self._asked(envelope))},
        )
        self._sent[envelope.task] = (envelope, pool, future)
        self._task_of[key] = envelope.task

    def _asked(self, envelope: TaskEnvelope) -> Amounts:
        segment: Segment = self._segments[envelope.segment]
        return segment.amounts if envelope.kind == "run" else Amounts()

    def _inputs(self, envelope: TaskEnvelope) -> tuple[dict[str, bytes], list[Future]]:
        """Products travel in the envelope; events come from the workers that hold them."""
        events = [name for piece in envelope.pieces for _, names in piece.imports for name in names if name]
        stored = [*envelope.parts, *(key for _, key in envelope.products)]
        stored += [name for name in events if name not in self._futures]  # an earlier run on this machine left them
        inline = {name: pickle.dumps(self._store.read(name), protocol=5) for name in stored}
        return inline, list(dict.fromkeys(self._futures[name] for name in events if name in self._futures))

    def cancel(self, task: int) -> None:
        if task not in self._sent:
            return
        envelope, pool, _ = self._sent[task]
        began = any(task in tasks for tasks in self._running.values())
        self._release(task)
        if began:
            info = placed(FailureInfo(cause="stopped", message="stopped, as asked"), envelope)
            self._news.inbox.put(("told", TaskFailed(at=self._now(), task=task, pool=pool, worker="", failure=info)))
        else:
            self._news.inbox.put(("told", withdrawn(envelope, at=self._now(), pool=pool)))

    def forget(self, names: Sequence[str]) -> None:
        """Dask still knows how they were made, in case something made from them is lost."""
        for name in names:
            self._futures.pop(name, None)

    def events(self, seconds: float) -> list[AnyEvent]:
        told: list[AnyEvent] = []
        try:
            told += self._heard(self._news.inbox.get(timeout=seconds))
            while True:
                told += self._heard(self._news.inbox.get_nowait())
        except queue.Empty:
            return told

    def close(self) -> None:
        self._futures.clear()
        self._sent.clear()
        self._client.close()
        self._cluster.close()

    # news

    def _heard(self, news: tuple[Any, ...]) -> list[AnyEvent]:
        match news:
            case ("started", worker, task, attempt):
                return self._started(worker, task, attempt)
            case ("done", worker, task, _, outcome, products):
                self._said[task] = (worker, pickle.loads(outcome), products)
                return []
            case ("memory", key):
                return self._through(key)
            case ("again", key):
                return self._made_again(key)
            case ("failed", worker, task, attempt, outcome):
                return self._failed(worker, task, attempt, pickle.loads(outcome))
            case ("joined", worker):
                return self._joined(worker)
            case ("gone", worker):
                return self._gone(worker)
            case ("oom", worker, used, limit):
                words = f"ran out of memory: its worker used {format_bytes(used)} of {format_bytes(limit)}"
                self._last_words[worker] = FailureInfo(cause="oom", message=words)
                return []
            case ("erred", key, text):
                return self._erred(key, text)
            case ("told", event):
                return [event]
            case _:
                return []

    def _started(self, worker: str, task: int, attempt: int) -> list[AnyEvent]:
        sent = self._sent.get(task)
        if sent is None or sent[0].attempt != attempt:
            return []  # Dask makes lost data again: nobody asked for this
        self._running.setdefault(worker, {})[task] = self._now()
        return [TaskStarted(at=self._now(), task=task, attempt=attempt, pool=sent[1], worker=worker)]

    def _through(self, key: str) -> list[AnyEvent]:
        """Dask has the result of a task, so that its worker may go."""
        if key in self._left:
            return self._through_again(key)
        task = self._task_of.pop(key, None)
        if task is None or task not in self._sent or task not in self._said:
            return []
        envelope, pool, future = self._sent.pop(task)
        worker, outcome, products = self._said.pop(task)
        self._running.get(worker, {}).pop(task, None)
        self._store.write(envelope.key, pickle.loads(products))
        exports = self._segments[envelope.segment].exports if envelope.kind == "run" else ()
        if exports:
            self._futures.update({f"{envelope.key}-{n}": future for n in range(len(exports))})
            self._left[key] = (envelope, pool)
            self._news.finished.add(key)
        return [event_of(outcome, envelope, at=self._now(), pool=pool, worker=worker)]

    def _made_again(self, key: str) -> list[AnyEvent]:
        """The events of a finished task went with its worker, and Dask makes them again."""
        if key not in self._left:
            return []
        envelope, pool = self._left[key]
        return [ResultLost(at=self._now(), task=envelope.task, pool=pool)]

    def _through_again(self, key: str) -> list[AnyEvent]:
        envelope, pool = self._left[key]
        self._news.finished.add(key)
        if envelope.task not in self._said:
            return []
        worker, outcome, _ = self._said.pop(envelope.task)
        return [event_of(outcome, envelope, at=self._now(), pool=pool, worker=worker)]

    def _failed(self, worker: str, task: int, attempt: int, outcome: Outcome) -> list[AnyEvent]:
        self._running.get(worker, {}).pop(task, None)
        sent = self._sent.get(task)
        if sent is None or sent[0].attempt != attempt:
            return []
        envelope, pool, _ = sent
        self._release(task)
        return [event_of(outcome, envelope, at=self._now(), pool=pool, worker=worker)]

    def _erred(self, key: str, text: str) -> list[AnyEvent]:
        task = self._task_of.get(key)
        if task is None or task not in self._sent:
            return []
        envelope, pool, _ = self._sent[task]
        self._release(task)
        info = placed(FailureInfo(cause="internal", message=f"Dask could not run it: {text}"), envelope)
        return [TaskFailed(at=self._now(), task=task, attempt=envelope.attempt, pool=pool, worker="", failure=info)]

    def _joined(self, worker: str) -> list[AnyEvent]:
        pool = self._pool_of.get(worker)
        if pool is None:
            return []  # not one of ours
        return [WorkerJoined(at=self._now(), worker=worker, pool=pool, slots=self._pools[pool].slots)]

    def _gone(self, worker: str) -> list[AnyEvent]:
        pool = self._pool_of.get(worker)
        if pool is None:
            return []
        words = self._last_words.pop(worker, None) or FailureInfo(cause="lost", message=f"its worker {worker} was lost")
        events: list[AnyEvent] = [WorkerLost(at=self._now(), worker=worker, pool=pool, reason=words.message)]
        for task, since in self._running.pop(worker, {}).items():
            envelope, ran_in, _ = self._sent[task]
            self._release(task)
            at = self._now()
            events.append(
                TaskFailed(
                    at=at,
                    task=task,
                    attempt=envelope.attempt,
                    pool=ran_in,
                    worker=worker,
                    failure=placed(words, envelope),
                    seconds=at - since,
                )
            )
        return events

    def _release(self, task: int) -> None:
        _, _, future = self._sent.pop(task)
        self._task_of.pop(future.key, None)
        self._said.pop(task, None)
        future.cancel(force=True)
        for tasks in self._running.values():
            tasks.pop(task, None)

    def _now(self) -> float:
        return self._request.clock()


def _amounts(amounts: Amounts) -> dict[str, float]:
    """The amounts that are stated, under the names that workers and tasks share."""
    stated = {name: getattr(amounts, name) for name in AMOUNTS}
    return {f"cenote.{name}": float(amount) for name, amount in stated.items() if amount}
