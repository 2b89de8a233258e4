"""Define what users ask of a service: pools that live long, and tasks for them."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from cenote.language.execution import Amounts, Elastic
from cenote.service.client.python_call import PythonCall


class InstanceState(StrEnum):
    """How far an instance of a task is."""

    WAITING = "waiting"
    ASSIGNED = "assigned"
    """To a slot of a worker, which has not said that it runs."""
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self in (InstanceState.SUCCEEDED, InstanceState.FAILED, InstanceState.CANCELLED)


class TaskState(StrEnum):
    """How far a task is."""

    SUBMITTED = "Submitted"
    """It waits for slots, or for other tasks."""
    PAUSED = "Paused"
    PARTIALLY_EXECUTING = "PartiallyExecuting"
    """Some of its instances run, others wait."""
    FULLY_EXECUTING = "FullyExecuting"
    """All instances that are not over run."""
    SUCCESS = "Success"
    FAILURE = "Failure"
    CANCELLED = "Cancelled"

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens to it."""
        return self in (TaskState.SUCCESS, TaskState.FAILURE, TaskState.CANCELLED)


class PoolDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A pool, as its owner asked for it. Either `workers` or `elastic` is set."""

    name: str
    """Of one word, and no other pool of the service has it."""
    title: str = ""
    """As its owner wrote it."""
    user: str = ""
    profile: str = ""
    """The pool profile that it was made from."""
    workers: int | None = None
    elastic: Elastic | None = None
    slots: int = 1
    """Instances at once per worker."""
    resources: Amounts = Amounts()
    """Of one worker."""
    strategy: str = "local"
    config: dict[str, Any] = {}
    """Settings of the strategy."""
    environment: dict[str, Any] = {}
    """The software of its workers: `type` and settings; empty for that of the service."""
    pass_variables: tuple[str, ...] = ()
    """Environment variables of the service that its workers, and so all tasks, get besides the usual ones."""
    folder: str = ""
    """From where relative paths in these settings are meant."""
    fallback: tuple[str, ...] = ()
    """Pools that take over tasks waiting here, in this order."""
    no_worker_for: int | None = None
    """Seconds without a worker after which they do."""
    queue_timeout: int | None = None
    """Seconds that a task may wait here without any slot: then it falls back, or fails."""
    cost: float | None = None
    """Of one worker for one hour."""
    resource_files: tuple[str, ...] = ()
    """Files that are put into the folder above those of all instances."""
    on_demand: bool = False
    """Whether it was made because something needed it, and nobody asked for it: it keeps no private service going."""
    request: str = ""
    """The key of the request that asked for it: the same request sent twice makes one pool."""


class TaskTerms(msgspec.Struct, frozen=True, kw_only=True):
    """A command, to be run so many times: what its user says of it, as programs, the log and agents have it."""

    name: str
    group: str = ""
    pool: str = ""
    """Empty in a request: the default pool."""
    instances: int = 1
    command: str = ""
    """For `/bin/sh -c`."""
    python: PythonCall | None = None
    """In place of a command: begun in a moment, by a process that has its imports."""
    constants: dict[str, str] = {}
    """Environment variables of every instance."""
    priority: int = 0
    """Higher ones come first."""
    preemptible: bool = False
    """Whether its instances may be stopped, and begun again later, for a task of higher priority."""
    requeue: bool = True
    """Whether an instance that loses its slot waits for another one; otherwise it has failed."""
    grace: int | None = None
    """Seconds that an instance gets to end by itself when it is stopped, which it is told too; None for the usual
    few."""
    labels: dict[str, str] = {}
    """What its maker wrote on it, by which it is found again."""
    retries: int = 0
    """How often an instance is tried again that failed by itself."""
    timeout: int | None = None
    """Seconds that an instance may take."""
    queue_timeout: int | None = None
    """Seconds that it may wait without any slot, while nothing but slots is missing: then it fails."""
    after: tuple[str, ...] = ()
    """Ids of tasks that must succeed first."""
    amounts: Amounts = Amounts()
    """What one instance needs."""
    resources: tuple[str, ...] = ()
    """Files that are put into the working folder of each instance."""
    results: tuple[str, ...] = ()
    """Patterns of files that are collected from there."""
    results_period: int | None = None
    """Seconds between two collections while it runs; None for one at its end."""
    run: str = ""
    """The folder of the run that it drives; empty for one that drives none."""


class TaskDefinition(TaskTerms, frozen=True, kw_only=True):
    """A task of the queue."""

    id: str
    """32 hexadecimal digits."""
    user: str = ""
    submitted: float = 0.0
    """When, in seconds since the epoch."""
