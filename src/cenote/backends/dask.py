"""This file is the Dask backend: one scheduler of ours, several kinds of workers, every task sent to its pool.

Our engine decides which pool, how many workers, and what to try again; Dask decides which worker inside the pool, and
moves events from worker to worker. Products come home with the news that a task is done, and are stored here.
"""

from __future__ import annotations

import pickle
import queue
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from cenote import errors
from cenote.backends._dask_bundles import Bundle, Bundling
from cenote.backends._dask_command import WorkerPlace, stated, worker_command
from cenote.backends._outcomes import event_of, placed, withdrawn
from cenote.backends._ports import ANY_PORT, Address, Ports
from cenote.backends.interface import Backend, JoinedSession, MeetingPoint, Session, SessionRequest
from cenote.engine.messages import (
    AnyEvent,
    FailureInfo,
    ResultLost,
    TaskFailed,
    TaskStarted,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
)
from cenote.language.workflow import Amounts
from cenote.placement.pools import PlacedPool
from cenote.plan.plan import Segment
from cenote.units import format_bytes
from cenote.worker.envelope import Outcome, TaskEnvelope
from cenote.worker.lifetime import Lifetime
from cenote.worker.store import Store

try:
    import dask
    from distributed import Client, Future, Scheduler, SpecCluster

    from cenote.backends._dask_network import LOOPBACK, Network, is_loopback
    from cenote.backends._dask_news import News
    from cenote.backends._dask_worker import TaskPlugin, run_bundle
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


class Dask(Backend):
    """Runs tasks on workers that join a Dask scheduler in this process."""

    host: str | None = None
    """Address that the scheduler listens on, which workers must reach: by default loopback when all of them are on
    this machine, else the machine's address to the outside."""
    interface: str | None = None
    """Network interface to listen on, where no `host` is given and workers are on other machines: `ib0`."""
    port: Ports | None = None
    """Port of the scheduler, or a range of which the first free one is taken: `20000-20100`. By default any."""
    contact: Address | None = None
    """What workers on other machines are told instead of the address listened on, behind NAT or a forwarded port:
    `driver.example:8786`."""
    worker_interface: str | None = None
    """Network interface of the nodes that workers listen on: `ib0`. By default the one that faces the scheduler."""
    worker_ports: Ports | None = None
    """Ports that workers listen on, one each, where a firewall lets only some through: `30000-30999`."""
    scratch: str | None = None
    """Folder of the nodes for temporary files and data that memory cannot hold: `$TMPDIR`, `/scratch/$USER`. Variables
    are those of the node; it is made if missing, and each worker removes what it kept there."""

    def open(self, request: SessionRequest) -> Session:
        """Start the scheduler."""
        return DaskSession(request, self._network(request.pools))

    def meeting_point(self, pools: Sequence[PlacedPool]) -> MeetingPoint:
        """Where the scheduler would listen."""
        return self._network(pools).meeting_point()

    def example_command(
        self, pools: Sequence[PlacedPool], pool: PlacedPool, worker: str, *, log: Path, lifetime: Lifetime | None
    ) -> tuple[str, ...]:
        """The command of a worker, before there is a scheduler."""
        network = self._network(pools)
        return worker_command(
            pool, worker, run="RUN", scheduler=network.example(), log=log, lifetime=lifetime, place=network.workers
        )

    def _network(self, pools: Sequence[PlacedPool]) -> Network:
        ports = self.port or ANY_PORT
        if all(pool.strategy == "local" for pool in pools):
            host = self.host or LOOPBACK
            return Network(WorkerPlace(host, scratch=self.scratch), host, ports=ports)
        loopback = self.host if is_loopback(self.host) else None  # any other address of ours is not one of theirs
        workers = WorkerPlace(loopback, self.worker_interface, self.worker_ports, self.scratch)
        return Network(workers, self.host, self.interface, ports, self.contact)


class DaskSession(JoinedSession):
    """A scheduler, and what is known of its tasks and workers."""

    def __init__(self, request: SessionRequest, network: Network) -> None:
        self._request = request
        self._pools = {pool.name: pool for pool in request.pools}
        self._segments = request.program.segments
        self._store = Store(request.store)
        self._news = News()
        self._network = network
        with dask.config.set(_CONFIG):
            self._cluster = network.listen(self._scheduler)
            self._client = Client(self._cluster, set_as_default=False)
        self._client.register_plugin(TaskPlugin(request.program))
        self._futures: dict[str, Future] = {}
        """Name of a stored result → the future of the task that made it."""
        self._waiting: dict[str, dict[int, TaskEnvelope]] = {}
        """Pool → tasks that are sent to Dask as soon as all news has been heard."""
        self._bundling = Bundling()
        self._bundles: dict[str, Bundle] = {}
        """Key of a bundle that was sent and is not through → the bundle."""
        self._bundle_of: dict[int, Bundle] = {}
        """The same by task."""
        self._said: dict[str, tuple[str, list[tuple[Outcome, bytes]]]] = {}
        """Bundle → what its worker said of it: outcomes, products. They count once Dask has the result too."""
        self._left: dict[str, Bundle] = {}
        """Key of a bundle that is through and left events for others."""
        self._slots: dict[str, int] = {}
        self._last_words: dict[str, FailureInfo] = {}
        self._leaving: dict[str, str] = {}
        """Workers whose walltime is nearly over → what they said."""
        self._sent = 0
        self._pool_of: dict[str, str] = {}

    def _scheduler(self, host: str | None, port: int) -> SpecCluster:
        options = {
            "host": host,
            "port": port,
            "dashboard": False,
            "dashboard_address": "127.0.0.1:0",
            "plugins": (self._news,),
        }
        return SpecCluster(workers={}, scheduler={"cls": Scheduler, "options": options}, silence_logs=50, name="cenote")

    # workers

    def worker_command(self, pool: str, worker: str, *, log: Path, lifetime: Lifetime | None = None) -> tuple[str, ...]:
        """How to start a worker of a pool, anywhere."""
        self._pool_of[worker] = pool
        return worker_command(
            self._pools[pool],
            worker,
            run=self._request.run,
            scheduler=self._network.told(self._cluster.scheduler_address),
            log=log,
            lifetime=lifetime,
            place=self._network.workers,
        )

    def retire(self, workers: Sequence[str]) -> None:
        """Let workers go once their data has moved to others."""
        scheduler = self._cluster.scheduler
        self._client.loop.add_callback(scheduler.retire_workers, names=list(workers), close_workers=True, remove=True)

    # tasks

    def run(self, envelope: TaskEnvelope, pool: str) -> None:
        self._waiting.setdefault(pool, {})[envelope.task] = envelope

    def _send_waiting(self) -> None:
        """Two bundles for each slot, so that a worker finds the next one already there."""
        for pool, waiting in self._waiting.items():
            if waiting:
                out = sum(bundle.pool == pool for bundle in self._bundles.values())
                wanted = 2 * self._slots.get(pool, 0) - out
                for envelopes in self._bundling.bundles(list(waiting.values()), wanted):
                    self._send(envelopes, pool)
                waiting.clear()

    def _send(self, envelopes: tuple[TaskEnvelope, ...], pool: str) -> None:
        first, inline, upstream = envelopes[0], {}, {}
        for envelope in envelopes:
            found, futures = self._inputs(envelope)
            inline.update(found)
            upstream.update(dict.fromkeys(futures))
        segment: Segment = self._segments[first.segment]
        self._sent += 1
        key = f"{segment.stages[0]}-{first.kind}-{first.key}-{self._sent}"
        asked = segment.amounts if first.kind == "run" else Amounts()
        resources = {f"resource.{pool}": 1, **stated(asked)}
        expected = self._bundling.expected(envelopes)
        future = self._client.submit(
            run_bundle, key, expected, envelopes, inline, *upstream, key=key, pure=False, resources=resources
        )
        bundle = Bundle(key, pool, {envelope.task: envelope for envelope in envelopes}, future)
        self._bundles[key] = bundle
        self._bundle_of.update(dict.fromkeys(bundle.envelopes, bundle))

    def _inputs(self, envelope: TaskEnvelope) -> tuple[dict[str, bytes], list[Future]]:
        """Products travel in the envelope; events come from the workers that hold them."""
        events = [name for piece in envelope.pieces for _, names in piece.imports for name in names if name]
        stored = [*envelope.parts, *(key for _, key in envelope.products)]
        stored += [name for name in events if name not in self._futures]  # an earlier run on this machine left them
        inline = {name: bytes(self._store.read_packed(name)) for name in stored}
        return inline, [self._futures[name] for name in events if name in self._futures]

    def cancel(self, task: int) -> None:
        bundle = self._bundle_of.get(task)
        if bundle is None:
            for pool, waiting in self._waiting.items():
                if task in waiting:
                    self._tell(withdrawn(waiting.pop(task), at=self._now(), pool=pool))
            return
        envelope = self._take_out(bundle, task)
        if bundle.worker is None:
            self._tell(withdrawn(envelope, at=self._now(), pool=bundle.pool))
        else:
            self._tell(self._failure(bundle, envelope, FailureInfo(cause="stopped", message="stopped, as asked")))

    def _tell(self, event: AnyEvent) -> None:
        self._news.inbox.put(("told", event))

    def forget(self, names: Sequence[str]) -> None:
        """Dask still knows how they were made, in case something made from them is lost."""
        for name in names:
            self._futures.pop(name, None)

    def events(self, seconds: float) -> list[AnyEvent]:
        self._send_waiting()
        told: list[AnyEvent] = []
        try:
            told += self._heard(self._news.inbox.get(timeout=seconds))
            while True:
                told += self._heard(self._news.inbox.get_nowait())
        except queue.Empty:
            return told

    def close(self) -> None:
        self._futures.clear()
        self._bundles.clear()
        self._bundle_of.clear()
        self._left.clear()
        self._client.close()
        self._cluster.close()

    # news

    def _heard(self, news: tuple[Any, ...]) -> list[AnyEvent]:
        match news:
            case ("started", worker, key):
                return self._started(worker, key)
            case ("done", worker, key, outcomes):
                self._said[key] = (worker, pickle.loads(outcomes))
                return []
            case ("memory", key):
                return self._through(key)
            case ("again", key):
                return self._made_again(key)
            case ("forgotten", key):
                self._left.pop(key, None)
                return []
            case ("failed", worker, key, outcome):
                return self._failed(worker, key, pickle.loads(outcome))
            case ("joined", worker):
                return self._joined(worker)
            case ("leaving", worker, reason, keys):
                return self._leaves(worker, reason, keys)
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

    def _started(self, worker: str, key: str) -> list[AnyEvent]:
        bundle = self._bundles.get(key)
        if bundle is None:
            return []  # Dask makes lost data again: nobody asked for this
        bundle.worker, bundle.since = worker, self._now()
        return [_task_started(bundle, next(iter(bundle.envelopes.values())), at=bundle.since)]

    def _through(self, key: str) -> list[AnyEvent]:
        """Dask has the result of a bundle, so that its worker may go."""
        if key in self._left:
            return self._through_again(key)
        bundle = self._bundles.get(key)
        if bundle is None or key not in self._said:
            return []
        events = self._outcomes(bundle)
        self._close_bundle(bundle)
        bundle.future = None  # Dask may forget it with the last of its names
        if self._segments[bundle.segment].exports and bundle.kind == "run" and bundle.envelopes:
            self._left[key] = bundle
            self._news.finished.add(key)
        return events

    def _outcomes(self, bundle: Bundle) -> list[AnyEvent]:
        """What became of the tasks of a bundle, as if each had been told of in its time."""
        bundle.worker, told = self._said.pop(bundle.key)
        events: list[AnyEvent] = []
        at = bundle.since
        for number, (outcome, products) in enumerate(told):
            started, at = at, min(self._now(), at + outcome.seconds)
            envelope = bundle.envelopes.get(outcome.task)
            if envelope is None:
                continue  # cancelled meanwhile
            if number:
                events.append(_task_started(bundle, envelope, at=started))
            if outcome.failure is None:
                self._keep(bundle, envelope, outcome, products)
            else:
                self._bundle_of.pop(bundle.envelopes.pop(outcome.task).task)
            events.append(event_of(outcome, envelope, at=at, pool=bundle.pool, worker=bundle.worker))
        return events

    def _keep(self, bundle: Bundle, envelope: TaskEnvelope, outcome: Outcome, products: bytes) -> None:
        self._bundling.finish(envelope, outcome.seconds)
        self._store.write_packed(envelope.key, [products])
        exports = self._segments[envelope.segment].exports if envelope.kind == "run" else ()
        self._futures.update({f"{envelope.key}-{n}": bundle.future for n in range(len(exports))})

    def _made_again(self, key: str) -> list[AnyEvent]:
        """The events of finished tasks went with their worker, and Dask makes them again."""
        if key not in self._left:
            return []
        bundle = self._left[key]
        return [ResultLost(at=self._now(), task=task, pool=bundle.pool) for task in bundle.envelopes]

    def _through_again(self, key: str) -> list[AnyEvent]:
        bundle = self._left[key]
        self._news.finished.add(key)
        if key not in self._said:
            return []
        worker, told = self._said.pop(key)
        return [
            event_of(outcome, bundle.envelopes[outcome.task], at=self._now(), pool=bundle.pool, worker=worker)
            for outcome, _ in told
            if outcome.task in bundle.envelopes
        ]

    def _failed(self, worker: str, key: str, outcome: Outcome) -> list[AnyEvent]:
        bundle = self._bundles.get(key)
        if bundle is None or outcome.task not in bundle.envelopes:
            return []
        envelope = self._take_out(bundle, outcome.task)
        return [event_of(outcome, envelope, at=self._now(), pool=bundle.pool, worker=worker)]

    def _erred(self, key: str, text: str) -> list[AnyEvent]:
        bundle = self._bundles.get(key)
        if bundle is None:
            return []
        self._release(bundle)
        info = FailureInfo(cause="internal", message=f"Dask could not run it: {text}")
        return [self._failure(bundle, envelope, info) for envelope in bundle.envelopes.values()]

    def _joined(self, worker: str) -> list[AnyEvent]:
        pool = self._pool_of.get(worker)
        if pool is None:
            return []  # not one of ours
        self._slots[pool] = self._slots.get(pool, 0) + self._pools[pool].slots
        return [WorkerJoined(at=self._now(), worker=worker, pool=pool, slots=self._pools[pool].slots)]

    def _leaves(self, worker: str, reason: str, keys: Sequence[str]) -> list[AnyEvent]:
        """A worker begins nothing more: what it was sent and has not begun goes to others."""
        pool = self._pool_of[worker]
        self._leaving[worker] = reason
        self._slots[pool] -= self._pools[pool].slots
        for bundle in [self._bundles[key] for key in keys if key in self._bundles]:
            if bundle.worker is None:
                self._release(bundle)
                self._waiting.setdefault(pool, {}).update(bundle.envelopes)
        return [WorkerLeaving(at=self._now(), worker=worker, pool=pool, reason=reason)]

    def _gone(self, worker: str) -> list[AnyEvent]:
        pool = self._pool_of.get(worker)
        if pool is None:
            return []
        words = self._last_words.pop(worker, FailureInfo(cause="lost", message=f"its worker {worker} was lost"))
        lost = WorkerLost(at=self._now(), worker=worker, pool=pool, reason=words.message)
        if worker in self._leaving:
            lost = msgspec.structs.replace(lost, reason=self._leaving.pop(worker), cause="walltime")
        else:
            self._slots[pool] -= self._pools[pool].slots
        events: list[AnyEvent] = [lost]
        for bundle in [bundle for bundle in self._bundles.values() if bundle.worker == worker]:
            events = [*self._presumed(bundle), *events, *self._lost_with(bundle, words)]
        return events

    def _presumed(self, bundle: Bundle) -> list[AnyEvent]:
        """Nobody knows which task of a bundle its worker was at: for the engine it had all of them."""
        _, *others = bundle.envelopes.values()
        return [_task_started(bundle, envelope, at=self._now()) for envelope in others]

    def _lost_with(self, bundle: Bundle, words: FailureInfo) -> list[AnyEvent]:
        if len(bundle.envelopes) > 1 and words.cause == "oom":
            words = FailureInfo(cause="lost", message=words.message)  # whose fault it was shows when each runs alone
        if len(bundle.envelopes) == 1:
            self._bundling.take_longer(next(iter(bundle.envelopes.values())), self._now() - bundle.since)
        self._release(bundle)
        return [self._failure(bundle, envelope, words) for envelope in bundle.envelopes.values()]

    def _failure(self, bundle: Bundle, envelope: TaskEnvelope, info: FailureInfo) -> TaskFailed:
        at = self._now()
        return TaskFailed(
            at=at,
            task=envelope.task,
            attempt=envelope.attempt,
            pool=bundle.pool,
            worker=bundle.worker or "",
            failure=placed(info, envelope),
            seconds=at - bundle.since if bundle.worker else 0.0,
        )

    def _take_out(self, bundle: Bundle, task: int) -> TaskEnvelope:
        """Wait no longer for this task; a bundle that nobody waits for is cancelled."""
        envelope = bundle.envelopes.pop(task)
        del self._bundle_of[task]
        if not bundle.envelopes:
            self._release(bundle)
        return envelope

    def _release(self, bundle: Bundle) -> None:
        self._close_bundle(bundle)
        self._said.pop(bundle.key, None)
        bundle.future.cancel(force=True)

    def _close_bundle(self, bundle: Bundle) -> None:
        self._bundles.pop(bundle.key, None)
        for task in bundle.envelopes:
            self._bundle_of.pop(task, None)

    def _now(self) -> float:
        return self._request.clock()


def _task_started(bundle: Bundle, envelope: TaskEnvelope, *, at: float) -> TaskStarted:
    worker = bundle.worker or ""
    return TaskStarted(at=at, task=envelope.task, attempt=envelope.attempt, pool=bundle.pool, worker=worker)
