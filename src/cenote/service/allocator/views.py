"""Show pools, tasks and instances as values, for whoever asks the service."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import msgspec

from cenote.client.definitions import InstanceState, PoolDefinition, TaskDefinition, TaskState
from cenote.engine.pool_status import PoolState, pool_state
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queued_task import ASSIGNED, CODES, RUNNING, SUCCEEDED, QueuedTask
from cenote.service.allocator.reasons import pool_words
from cenote.service.allocator.state import ServiceState


class PoolView(msgspec.Struct, frozen=True):
    """A pool as it is now."""

    definition: PoolDefinition
    state: PoolState
    why: str
    """Its state in words."""
    queued: int
    """Workers asked for, and not on a machine yet."""
    dispatched: int
    """On a machine, and not joined yet."""
    joined: int
    leaving: int
    silent: int
    slots: int
    """Of workers that may get work."""
    busy: int
    """Slots in use, also of workers that leave."""
    waiting: int
    """Instances that wait for a slot here."""
    users: dict[str, int]
    """User → slots in use."""
    removed: bool


class TaskView(msgspec.Struct, frozen=True):
    """A task as it is now."""

    definition: TaskDefinition
    """With the pool and the priority that it has by now."""
    state: TaskState
    reason: str
    """Why it ended so, or why it is being cancelled."""
    counts: dict[InstanceState, int]
    started: float | None
    ended: float | None
    fell_back_from: tuple[str, ...] = ()
    """Pools that it waited for in vain, the latest last."""


class InstanceView(msgspec.Struct, frozen=True):
    """An instance as it is now."""

    number: int
    state: InstanceState
    attempts: int
    worker: str
    """The last one that had it; empty where none did."""
    exit_code: int | None
    message: str
    """Of its latest attempt, where that failed."""
    cause: str
    """The same in a word."""


def view_pool(state: ServiceState, pool: LongLivedPool) -> PoolView:
    """One pool."""
    counts, workers = pool.workers.counts, pool.workers
    users: dict[str, int] = {}
    for owner, many in pool.used.owners.items():
        users[owner.user] = users.get(owner.user, 0) + many
    return PoolView(
        definition=pool.definition,
        state=pool_state(counts, closed=pool.closed, failed=workers.failed is not None),
        why=pool_words(state, pool),
        queued=counts.queued,
        dispatched=counts.dispatched,
        joined=counts.joined,
        leaving=counts.leaving,
        silent=len(workers.silent),
        slots=pool.seats.usable_slots,
        busy=len(pool.live),
        waiting=pool.waiting.instances,
        users=dict(sorted(users.items())),
        removed=pool.removed,
    )


def view_task(task: QueuedTask) -> TaskView:
    """One task, of the queue or of the archive (`restored_task`)."""
    return TaskView(
        definition=task.definition,
        state=_state(task),
        reason=task.reason or task.cancelled or task.doomed or "",
        counts=dict(zip(CODES, task.counts, strict=True)),
        started=task.started,
        ended=task.ended,
        fell_back_from=task.been,
    )


def view_instances(
    task: QueuedTask, which: slice | Collection[int] = slice(None), state: InstanceState | None = None
) -> Iterator[InstanceView]:
    """Instances of a task, one after the other: a part of all, or of those in a state, or these numbers."""
    workers = ["", *task.workers]
    numbers: Sequence[int] = range(len(task.states))
    if state is not None:
        numbers = [each.start() for each in re.finditer(re.escape(bytes([CODES.index(state)])), task.states)]
    for number in numbers[which] if isinstance(which, slice) else [one for one in which if one in numbers]:
        trouble, succeeded = task.troubles.get(number), task.states[number] == SUCCEEDED
        exit_code = 0 if succeeded else trouble.exit_code if trouble else None
        yield InstanceView(
            number=number,
            state=CODES[task.states[number]],
            attempts=task.attempts[number],
            worker=workers[task.seats[number]],
            exit_code=exit_code,
            message=trouble.message if trouble else "",
            cause=trouble.cause if trouble else "",
        )


def _state(task: QueuedTask) -> TaskState:
    if task.state is not None:
        return task.state
    if task.paused:
        return TaskState.PAUSED
    if not task.counts[ASSIGNED] and not task.counts[RUNNING]:
        return TaskState.SUBMITTED
    return TaskState.PARTIALLY_EXECUTING if task.waiting else TaskState.FULLY_EXECUTING
