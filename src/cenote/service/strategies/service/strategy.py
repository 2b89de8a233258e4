"""The strategy `service`: workers are leases of slots of long-lived pools, each of them a task of the service."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import ClassVar

import msgspec
from pydantic import Field, PrivateAttr

from cenote.common import errors
from cenote.common.text import format_amount
from cenote.engine.messages import JobState, LossCause
from cenote.execution.launch import (
    LOG,
    PERSON,
    WORKER,
    Blank,
    Blanks,
    Launch,
    NodeVariable,
    RunLocation,
    Sent,
    Word,
    plain_text,
)
from cenote.execution.strategies.interface import JobId, JobStatus, Strategy, TracedJob
from cenote.execution.strategies.support.exits import exit_status
from cenote.language.execution import AMOUNTS, Amounts
from cenote.language.plugins.registry import starts_here
from cenote.language.plugins.settings import Seconds
from cenote.planning.placement.pools import lacking, share
from cenote.service.client.address import SERVICE_VARIABLE
from cenote.service.client.connection import Connection, connect
from cenote.service.client.constants import RESERVED, why_no_constant
from cenote.service.client.definitions import InstanceState
from cenote.service.client.home import ServiceHome, usual_home
from cenote.service.client.python_call import PythonCall
from cenote.service.client.records import LivePoolRecord, NewPool, NewTask, QueuedTaskRecord, TaskInstance

# Write a worker down as a task of a service, and read one again.


RUN, POOL, HOME = "cenote.run", "cenote.pool", "cenote.home"
WORKER_LABEL = "cenote.worker"
"""Labels of a lease."""
USUAL_SOFTWARE = ("cenote.analysis.operations.support.custom", "cenote.execution.worker.process.built_in_software")
"""What workers of most runs import, and need not where it is there: one warm process serves all runs."""
_FOLDER = "LEASE_FOLDER"
"""Variable of the shell: where the files are that were sent along."""


def lease(launch: Launch, worker: str, *, python: str) -> NewTask:
    """A task that is this worker, without a pool and without terms. `python` is the interpreter of agents: a launch
    that asks for the same one is forked from a process that has its imports."""
    given = {name: value for name, value in launch.inherited(os.environ).items() if _travels(name, value)}
    forked = _forked(launch, worker, python)
    constants = _plain(launch) if forked else {}
    return NewTask(
        name=lease_name(launch, worker),
        command="" if forked else script(launch, worker),
        python=forked,
        constants={**given, **constants},
        amounts=launch.resources,
        resources=tuple(str(file.source) for file in launch.files if not file.on_demand),
        labels=labels(launch, worker),
        requeue=False,  # a worker that comes back would have a name that was given up
    )


def _travels(name: str, value: str) -> bool:
    """Whether a variable of this shell can be a constant: whose account it is, the agent knows."""
    return name not in PERSON and not why_no_constant(name, value)


def lease_name(launch: Launch, worker: str) -> str:
    """For people."""
    home = launch.run.location
    return f"run {home.folder.name if home else launch.run.id}, worker {worker}"


def labels(launch: Launch, worker: str) -> dict[str, str]:
    """By which it is found again."""
    home = {HOME: str(launch.run.location)} if launch.run.location else {}
    return {RUN: launch.run.id, POOL: launch.pool, WORKER_LABEL: worker, **home}


def script(launch: Launch, worker: str) -> str:
    """The command for a shell, in the folder of the instance."""
    ready = launch.filled(_blanks(launch, worker, (NodeVariable(_FOLDER), "/")))
    return "\n".join([f"{_FOLDER}=$PWD", *ready.export_lines(), *ready.set_up_lines(), ready.exec_line()])


def description(launch: Launch, worker: str) -> str:
    """All of it, for people to read."""
    wanted = launch.resources
    amounts = [
        format_amount(wanted.cpus or 1, "cpus"),
        f"{-(-wanted.memory // 2**20)} MiB" if wanted.memory else "",
        format_amount(wanted.gpus, "gpus") if wanted.gpus else "",
    ]
    facts = {
        "task": lease_name(launch, worker),
        "needs": ", ".join(filter(None, amounts)),
        **labels(launch, worker),
        "stdout": str(launch.run.folder("out") / worker),
        "stderr": str(launch.run.folder("err") / worker),
        **{f"file {file.name}": str(file.source) for file in launch.files},
    }
    return "\n".join([*(f"# {name}: {value}" for name, value in facts.items()), script(launch, worker), ""])


def traced(record: QueuedTaskRecord) -> TracedJob:
    """A lease that is there."""
    found = record.labels
    return TracedJob(
        job=JobId(record.id),
        run=found[RUN],
        pool=found.get(POOL, ""),
        worker=found.get(WORKER_LABEL, ""),
        native=str(record.state),
        since=datetime.fromisoformat(record.submitted).timestamp() if record.submitted else None,
        home=RunLocation.read(found.get(HOME, "")),
    )


def _forked(launch: Launch, worker: str, python: str) -> PythonCall | None:
    """What the agent's own Python runs; None where a shell or another Python is needed."""
    ready = launch.filled(_blanks(launch, worker, ()))
    words = ready.python_words
    ours = any(name.startswith(RESERVED) for name in ready.variables)
    if not words or ready.needs_shell or ours or _text(ready.interpreter) != [python]:
        return None
    module, *arguments = _text(words)
    warm = (*USUAL_SOFTWARE, launch.module) if launch.module else ()
    return PythonCall(module=module, arguments=tuple(arguments), warm=warm)


def _plain(launch: Launch) -> dict[str, str]:
    return {name: plain_text(value) for name, value in launch.variables.items()}


def _text(words: Sequence[Word]) -> list[str]:
    return [plain_text(word) if all(isinstance(part, str) for part in word) else "" for word in words]


def _blanks(launch: Launch, worker: str, folder: Word) -> Blanks:
    """Files are in the folder of the instance; the log is the run's own file, where the node sees it."""
    sent: dict[Blank | Sent, Word] = {
        Sent(file.name): (str(file.source),) if file.on_demand else (*folder, file.name) for file in launch.files
    }
    return {**launch.blanks((worker,)), WORKER: (worker,), LOG: (f"{launch.run.folder('logs')}/", worker), **sent}


STATES: Mapping[InstanceState, JobState] = {
    InstanceState.WAITING: JobState.PENDING,
    InstanceState.ASSIGNED: JobState.PENDING,
    InstanceState.RUNNING: JobState.RUNNING,
    InstanceState.SUCCEEDED: JobState.ENDED,
    InstanceState.FAILED: JobState.FAILED,
    InstanceState.CANCELLED: JobState.FAILED,
}
CAUSES: Mapping[str, LossCause] = {"preempted": "preempted", "timeout": "walltime"}
"""Why an instance failed → why a worker is gone; everything else is `died`."""
_SLOTS_PER_CPU = 4
"""Of a pool that is made here: a worker that waits for data or for others leaves its CPU to them."""
_TO_COME_HOME = 5.0
"""Seconds in which workers that were let go end, and what they wrote is brought home."""


class ServiceStrategy(Strategy):
    """Starts workers as leases: slots of the long-lived pools of a service (`cenote serve`), ready at once.

    They wait in its queue with everybody's tasks, by the same rules. A lease that is taken back for work of higher
    priority is drained first: its worker finishes, hands over its data, and the run goes on with the others.
    """

    example: ClassVar[str] = """
    execution:
      strategy: service
      pools:
        default: {workers: 4, config: {priority: 5}}
    """

    service: str | None = None
    """Folder, socket or `https://` address of the service; by default `$CENOTE_SERVICE`, or your own, which is started
    where none runs."""
    pool: str | None = None
    """The service's pool. By default the one that is called like the run's pool, else the service's default pool; a
    private service makes one on this machine."""
    priority: int = 0
    """Of the leases in the queue; higher ones come first."""
    preemptible: bool = True
    """Whether leases may be taken back for tasks of higher priority."""
    group: str = ""
    """Whose share of the pool they count for, where the service has groups."""
    grace: Seconds = Field(default=30, ge=5)
    """How long a worker has to finish its tasks and hand over its data when its lease is taken back."""

    _connection: Connection | None = PrivateAttr(default=None)
    _leases: dict[JobId, tuple[Launch, str]] = PrivateAttr(default_factory=dict)
    """Those of this run: how each was launched, and as which worker."""
    _python: str = PrivateAttr(default="")

    @property
    def near(self) -> bool:
        """Whether all pools of the service are on this machine: then leases are, wherever the service puts them."""
        connection = self._connected()
        pools = (pool.strategy for pool in connection.pool_records())
        return connection.caller.names_files and all(map(starts_here, pools))

    @property
    def seconds_between_polls(self) -> float:
        """It is one question for all leases, to a service that knows the answer."""
        return 0.5

    @property
    def seconds_to_end(self) -> float:
        """What workers wrote is brought home when they have ended."""
        return _TO_COME_HOME

    def render(self, launch: Launch, workers: Sequence[str]) -> list[str]:
        """The tasks, with their commands as a shell would run them."""
        return [description(launch, worker) for worker in workers]

    def submit(self, launch: Launch, workers: Sequence[str]) -> list[JobId]:
        """One task for each worker. What was taken before one was refused is taken back."""
        jobs: list[JobId] = []
        try:
            with self._explained():
                connection = self._connected()
                pool = self._pool_for(connection, launch, len(workers))
                for worker in workers:
                    jobs.append(JobId(connection.add_task(self._asked(launch, worker, pool)).id))  # noqa: PERF401  # those before one that fails are known
        except BaseException:  # Ctrl-C too: nobody would know of them
            self.cancel(jobs)
            raise
        self._leases.update(zip(jobs, ((launch, worker) for worker in workers), strict=True))
        return jobs

    def poll(self, jobs: Sequence[JobId]) -> dict[JobId, JobStatus]:
        """How these leases are; nothing at all while the service does not answer."""
        if not jobs:
            return {}
        try:
            connection = self._connected(start=False)
            runs = {self._leases[job][0].run.id for job in jobs if job in self._leases}
            records = {one.id: one for run in runs for one in connection.task_records(f"{RUN}={run}")}
            return {job: self._status(connection, job, records.get(job)) for job in jobs}
        except errors.CenoteError:
            self._connection = None  # a service that is started again may listen elsewhere
            return {}

    def cancel(self, jobs: Sequence[JobId]) -> None:
        """Give these leases back. Where the service is gone, their workers end with their driver."""
        for job in jobs:
            with suppress(errors.CenoteError):
                self._connected(start=False).task(job).cancel()

    def trace(self, run: str | None = None) -> list[TracedJob]:
        """Leases that are not over, whoever asked for them."""
        try:
            connection = self._connected(start=False)
            user, records = connection.caller.user, connection.task_records(RUN if run is None else f"{RUN}={run}")
        except errors.CenoteError as problem:
            self._connection = None
            if self.service is None and SERVICE_VARIABLE not in os.environ and not ServiceHome(usual_home()).is_taken:
                return []
            raise errors.error(errors.BATCH_SYSTEM, f"the service does not answer: {problem}") from problem
        return [traced(one) for one in records if one.user == user and not one.state.is_over]

    # submitting

    def _asked(self, launch: Launch, worker: str, pool: str) -> NewTask:
        made = lease(launch, worker, python=self._python)
        return msgspec.structs.replace(
            made,
            pool=pool,
            priority=self.priority,
            preemptible=self.preemptible,
            group=self.group,
            grace=self.grace,
        )

    def _pool_for(self, connection: Connection, launch: Launch, workers: int) -> str:
        """The service's pool for workers of this launch; empty for its default."""
        if self.pool is not None:
            return self.pool
        named = [pool for pool in connection.pool_records() if launch.pool in (pool.name, pool.title)]
        if fitting := [pool for pool in named if not pool.on_demand or _holds(pool, launch.resources)]:
            return fitting[0].name
        return self._made_pool(connection, launch, workers) if connection.service.private else ""

    def _made_pool(self, connection: Connection, launch: Launch, workers: int) -> str:
        """One on this machine: a process with many slots, or one for each where they must not share GPUs."""
        many = max(workers, _SLOTS_PER_CPU * (os.cpu_count() or 1))
        together = 1 if launch.resources.gpus else many
        amounts = {name: getattr(launch.resources, name) for name in AMOUNTS}
        whole = Amounts(**{name: amount and amount * together for name, amount in amounts.items()})
        asked = NewPool(
            name=launch.pool, workers=workers if together == 1 else 1, slots=together, amounts=whole, on_demand=True
        )
        return connection.add_pool(asked).name

    # looking

    def _status(self, connection: Connection, job: JobId, record: QueuedTaskRecord | None) -> JobStatus:
        if record is None:
            try:
                record = connection.task(job).record
            except errors.CenoteError as problem:
                if problem.problems[0].kind is errors.NO_SERVICE:
                    raise
                known = job in self._leases
                state = JobState.FAILED if known else JobState.UNKNOWN
                return JobStatus(
                    state, "", "the service no longer knows it" if known else "the service knows no such task"
                )
        if not record.state.is_over:
            return _unfinished(record)
        self._bring_home(connection, job)
        (instance,) = connection.task(job).instances
        return _over(record, instance)

    def _bring_home(self, connection: Connection, job: JobId) -> None:
        """What a worker wrote that is over."""
        if (known := self._leases.get(job)) is None:
            return
        launch, worker = known
        task = connection.task(job)
        for stream, text in (("out", task.stdout()), ("err", task.stderr())):
            if text:
                (launch.run.output / stream / worker).write_text(text, encoding="utf-8")

    # the service

    def _connected(self, *, start: bool = True) -> Connection:
        if self._connection is None:
            self._connection = connect(self.service, start=start)
            self._python = self._connection.service.python
        return self._connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """A service that does not answer may do so later; what it refuses it refuses for good."""
        try:
            yield
        except errors.CenoteError as problem:
            first = problem.problems[0]
            if first.kind is not errors.NO_SERVICE:
                raise errors.error(errors.JOB_REFUSED, f"the service: {first.message}", hint=first.hint) from problem
            self._connection = None
            raise errors.error(errors.BATCH_SYSTEM, first.message, hint=first.hint) from problem


def _holds(pool: LivePoolRecord, wanted: Amounts) -> bool:
    return not lacking(share(pool.resources, pool.slots), wanted)


def _unfinished(record: QueuedTaskRecord) -> JobStatus:
    found = next((state for state in STATES if record.counts.get(state)), InstanceState.WAITING)
    native = str(record.state) if found is InstanceState.WAITING else str(found)
    return JobStatus(STATES[found], native, "; ".join(record.why))


def _over(record: QueuedTaskRecord, instance: TaskInstance) -> JobStatus:
    native = str(instance.state)
    if instance.state is InstanceState.SUCCEEDED:
        return JobStatus(JobState.ENDED, native, "it exited", "retired")
    if instance.cause == "exit" and instance.exit_code is not None:
        return exit_status(instance.exit_code, 0, native)
    words = instance.message or "; ".join(record.why) or "it was cancelled"
    return JobStatus(STATES[instance.state], native, words, CAUSES.get(instance.cause, "died"))
