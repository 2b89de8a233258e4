"""Define how pools, tasks and rules are kept in a compacted log: one event each, with all that matters of them."""

from __future__ import annotations

import msgspec

from cenote.engine.messages import Event
from cenote.engine.scaling import PoolState
from cenote.language.schema.service import ShareRules
from cenote.service.client.definitions import PoolDefinition, TaskDefinition, TaskState


class Trouble(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the latest attempt at an instance failed, and how often attempts did."""

    exit_code: int | None = None
    cause: str = ""
    message: str = ""
    failures: int = 0
    """By its own fault; `retries` allows so many."""
    losses: int = 0
    """Workers that were lost under it."""
    evictions: int = 0
    """Workers that had to go before it ended: walltime, preemption by the batch system."""


class LiveInstance(msgspec.Struct, frozen=True):
    """An attempt that has a slot."""

    task: str
    instance: int
    attempt: int
    worker: str
    pool: str
    """The worker's, which need not be the task's any more."""
    serial: int
    """Later ones have higher numbers."""
    since: float
    """When it got the slot."""
    running: bool = False
    """Whether its worker said so."""
    preempted: bool = False
    """Whether it was asked to give way: its user pays no longer."""
    timeout: int | None = None
    """Seconds that it may take."""
    stop_reason: str = ""
    """Why it was asked to give way, if not to a task."""


class KeptWorkers(msgspec.Struct, frozen=True):
    """What `engine.workers.PoolWorkers` knows of one pool; fields of the same name mean the same."""

    planned: int
    requested: dict[str, float]
    dispatched: set[str]
    observed: set[str]
    stays: dict[str, tuple[float, float]]
    slow_arrival: float
    leaving: set[str]
    silent: dict[str, tuple[float, float]]
    ever_joined: bool
    losses: int
    unfit: int
    last_loss: str
    last_lines: str
    refused: str | None
    last_word: str
    pause_until: float
    wanting_since: float | None
    closed: bool
    failed: str | None
    noted: PoolState | None


class Span(msgspec.Struct, frozen=True):
    """A day, a week or a month."""

    since: float
    next: str
    """When the next one begins, in words: `Monday 00:00`."""


class ServiceKept(Event, frozen=True, tag=True):
    """A compacted log begins with this: everything before it is forgotten."""

    next_order: int
    next_serial: int
    rules: ShareRules
    spans: dict[str, Span] = msgspec.field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """As in `CalendarTurned`."""
    accounts: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    """Account → since when it counts, and what is over of it."""


class PoolKept(Event, frozen=True, tag=True):
    """One pool."""

    pool: PoolDefinition
    removed: bool
    slots: dict[str, int]
    """Worker → the slots that it offers."""
    usable: tuple[str, ...]
    """Workers that may get work."""
    paid: dict[str, float]
    """Workers that cost → since when."""
    bounds: tuple[int, int, str] | None
    """Smallest and largest size for now, and why."""
    workers: KeptWorkers


class TaskKept(Event, frozen=True, tag=True):
    """One task; also its record in the archive, once it ended."""

    task: TaskDefinition
    """With the pool and the priority that it has by now."""
    order: tuple[int, ...]
    states: bytes
    """One byte per instance (`queued_task.CODES`), compressed."""
    attempts: bytes
    """Four bytes per instance, little-endian, compressed."""
    seats: bytes
    """The same: which of `workers` had it last, counted from 1."""
    workers: tuple[str, ...] = ()
    live: tuple[LiveInstance, ...] = ()
    troubles: dict[int, Trouble] = msgspec.field(default_factory=dict)
    pending: tuple[str, ...] = ()
    """Tasks that must succeed first, and have not."""
    been: tuple[str, ...] = ()
    """Pools that it fell back from."""
    waiting_since: float | None = None
    """Since when it has waited for slots alone, and had none."""
    arrived: float = 0.0
    """When it came to its pool."""
    busy: float = 0.0
    """Seconds that its successful attempts took together."""
    paused: bool = False
    cancelled: str | None = None
    """Why, if it was."""
    doomed: str | None = None
    """Why it can never start, if that is so."""
    started: float | None = None
    state: TaskState | None = None
    """How it ended, if it did."""
    reason: str = ""
    ended: float | None = None
