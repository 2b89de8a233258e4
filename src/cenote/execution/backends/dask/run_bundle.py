"""Run bundles of tasks on a Dask worker, one after the other, and tell the driver how each went."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Reschedule, Worker
from distributed.diagnostics.plugin import WorkerPlugin

from cenote.common.values import dataclass
from cenote.execution.backends.dask import private
from cenote.execution.backends.dask.leaving import Drain
from cenote.execution.backends.dask.messages import (
    CREDENTIALS,
    OPERATION,
    AnyWorkerMessage,
    BundleDone,
    BundleStarted,
    Drains,
    OutOfMemory,
    TaskEndsWorker,
    TaskReport,
    decode_credentials,
    encode,
)
from cenote.execution.backends.dask.parcels import Parcel
from cenote.execution.worker.failure import failure_of
from cenote.execution.worker.process.alarm import end_when_over
from cenote.execution.worker.process.credentials import keep_credentials
from cenote.execution.worker.process.memory import EXIT_OUT_OF_MEMORY
from cenote.execution.worker.process.scratch import leave_scratch
from cenote.execution.worker.results.bundle import PackedEvents, pack, unpack
from cenote.execution.worker.run_task import TaskRunner
from cenote.execution.worker.task_spec import Outcome, RunSpec, TaskSpec, TimeLimit

PLUGIN = "cenote"
_POOL = "resource."
_LOOK_EVERY = 0.1
_MEMORY_MARGIN = 0.95
"""Share of its memory at which a worker gives up, before the system or the batch system kills it without a word."""


def pool_resource(pool: str) -> str:
    """The resource that keeps tasks of a pool on its workers: each slot is one of it."""
    return f"{_POOL}{pool}"


def pool_of(resource: str) -> str | None:
    """The pool that a resource stands for, if it does."""
    return resource.removeprefix(_POOL) if resource.startswith(_POOL) else None


class TaskPayload:
    """The inputs of one task, and what it hands over: products go home, events stay with the worker."""

    def __init__(self, spec: TaskSpec, inputs: dict[str, Any]) -> None:
        self._key, self._inputs = spec.key, inputs
        self.exports: dict[str, PackedEvents] = {}
        self.kept: dict[str, bytes] = {}
        """For later runs, as the store has it."""
        self.products: bytes = b""

    def read(self, name: str) -> Any:
        """An input of the task."""
        value = self._inputs[name]
        return value if isinstance(value, PackedEvents) else unpack(value)

    def write(self, name: str, value: Any, *, wait: bool = False) -> int:  # noqa: ARG002  # the driver stores it
        """Keep a result until the task ends."""
        if isinstance(value, PackedEvents):
            self.exports[name] = value
            return 0
        content = b"".join(pack(value))
        if name == self._key:
            self.products = content
        else:
            self.kept[name] = content
        return len(content)


@dataclass(frozen=True)
class OwnPlace:
    """What a worker knows of itself that Dask does not."""

    pool: str
    folder: Path
    """Private, gone with the worker."""


class TaskPlugin(WorkerPlugin):  # type: ignore[misc]  # distributed publishes no types for it
    """Brings the run spec to every worker that joins, once."""

    name = PLUGIN

    def __init__(self, run_spec: RunSpec) -> None:
        self.run_spec = run_spec

    async def setup(self, worker: Worker) -> None:
        """Make the worker ready for tasks."""
        self.worker = worker
        try:
            private.hear(worker, CREDENTIALS, self.receive)
            self.receive(await private.ask_scheduler(worker, CREDENTIALS, pool=worker.place.pool))
            self._start()
        except BaseException as problem:  # Dask would log it, and go on with a worker that cannot run anything
            sys.stderr.write(f"this worker cannot run the tasks: {failure_of(problem).message}\n")
            self._end(1)

    def receive(self, credentials: bytes) -> None:
        """The driver sends what tasks need to reach protected data, now or again."""
        if found := decode_credentials(credentials):
            keep_credentials(found, self.worker.place.folder)

    def _start(self) -> None:
        worker = self.worker
        self.drain: Drain = worker.drain
        self.drain.tell(lambda reason: self.send(Drains(worker.name, reason)))
        self.runner = TaskRunner(self.run_spec)
        self.deadlines: dict[int, tuple[str, int, str, TimeLimit, float]] = {}
        """Thread → the bundle and task it runs, the stage, its limit, and when that is over."""
        threading.Thread(target=self._watch, daemon=True).start()

    def send(self, message: AnyWorkerMessage) -> None:
        """Tell the driver: on the stream that also says when Dask has a result, and before it does."""
        private.tell_scheduler(self.worker, {"op": OPERATION, "message": encode(message)})

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """Dask says that a task has come, and waits for the resource of its pool."""
        del key, start
        if finish == private.WAITS and private.waiting(self.worker) == 1:
            self._fetch_next()

    def fetch_ahead(self) -> None:
        """A bundle begins: begin to fetch what the next one will read."""
        self.worker.loop.add_callback(self._fetch_next)

    def _fetch_next(self) -> None:
        """In the thread in which Dask keeps its tasks."""
        if call := private.next_call(self.worker, run_bundle):
            _, _, specs, *_ = call
            self.runner.incoming.fetch_ahead(specs[0])

    def on_step(self, key: str, task: int, stage: str, limit: TimeLimit | None) -> None:
        """A stage of a task begins in this thread."""
        thread, now = threading.get_ident(), time.monotonic()
        if limit is None and thread not in self.deadlines:
            return
        if limit is None:
            del self.deadlines[thread]
        else:
            self.deadlines[thread] = (key, task, stage, limit, now + limit.seconds)
        end_when_over(over - now for *_, over in list(self.deadlines.values()))

    def _watch(self) -> None:
        limit = private.memory_limit(self.worker)
        while True:
            time.sleep(_LOOK_EVERY)
            now = time.monotonic()
            for key, task, stage, timed, over in list(self.deadlines.values()):
                if now > over:
                    self.send(TaskEndsWorker(self.worker.name, key, Outcome.of_timeout(task, stage, timed)))
                    self._end(1)
            if limit and _resident() > _MEMORY_MARGIN * limit:
                self.send(OutOfMemory(self.worker.name, _resident(), limit))
                self._end(EXIT_OUT_OF_MEMORY)

    def _end(self, code: int) -> None:
        time.sleep(0.3)  # let the message leave: a thread cannot be stopped, so the process must be
        leave_scratch()
        os._exit(code)


def run_bundle(
    key: str, expected: float, specs: Sequence[TaskSpec], inline: dict[str, bytes], *upstream: Parcel
) -> Parcel:
    """Tasks, as Dask runs them: one after the other. They take about so many seconds, and go elsewhere when this
    worker has less.

    Outcomes and products are told to the driver, events stay here for the tasks that need them.
    """
    plugin: TaskPlugin = private.plugin_here(PLUGIN)
    if not plugin.drain.begins(expected):
        raise Reschedule
    try:
        return _run_all(plugin, key, specs, inline, upstream)
    finally:
        plugin.drain.ends()


def _run_all(
    plugin: TaskPlugin,
    key: str,
    specs: Sequence[TaskSpec],
    inline: dict[str, bytes],
    upstream: Sequence[Parcel],
) -> Parcel:
    plugin.send(BundleStarted(plugin.worker.name, key))
    plugin.fetch_ahead()
    inputs: dict[str, Any] = dict(inline)
    for earlier in upstream:
        inputs.update(earlier.events)
    reports: list[TaskReport] = []
    exports: dict[str, PackedEvents] = {}
    for spec in specs:
        parcel = TaskPayload(spec, inputs)
        outcome = plugin.runner.run(spec, exchange=parcel, on_step=partial(plugin.on_step, key, spec.task))
        reports.append(TaskReport(outcome, parcel.products, parcel.kept))
        if outcome.failure is None:
            exports.update(parcel.exports)
    plugin.send(BundleDone(plugin.worker.name, key, tuple(reports)))
    return Parcel(exports)


def _resident() -> int:
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
