"""Say why a task waits and what is ahead of it; show pools and tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from cenote.common.text import plural
from cenote.engine.scaling import PoolState, pool_state
from cenote.service.allocator.accounts import may_have_more, most_slots, pool_rules
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queue import can_pay, pool_budget_words, starts, user_words
from cenote.service.allocator.queued_task import ASSIGNED, CODES, RUNNING, SUCCEEDED, QueuedTask
from cenote.service.allocator.state import ServiceState
from cenote.service.client.definitions import InstanceState, PoolDefinition, TaskDefinition, TaskState

_COUNTED = 1000
"""So many instances ahead are counted; more than that are "more"."""
_NAMED = 3
"""Tasks ahead that are named."""


class Ahead(NamedTuple):
    """What would start before a task."""

    instances: int
    words: str


class Lines:
    """What is ahead of the tasks of each pool, as long as the state does not change: one walk along the beginning of a
    pool's queue answers for all its tasks."""

    def __init__(self, state: ServiceState) -> None:
        self._state = state
        self._pools: dict[str, tuple[dict[str, Ahead], Ahead]] = {}

    def ahead(self, pool: LongLivedPool, task: str) -> Ahead:
        """Of a task that waits here."""
        if pool.name not in self._pools:
            self._pools[pool.name] = self._walk(pool)
        near, far = self._pools[pool.name]
        return near.get(task, far)

    def _walk(self, pool: LongLivedPool) -> tuple[dict[str, Ahead], Ahead]:
        """Tasks whose turn comes within the instances that are counted, and what is said to the others."""
        found: dict[str, Ahead] = {}
        ahead: Counter[str] = Counter()
        most: list[str] = []
        for count, (name, _) in enumerate(starts(self._state, pool)):
            if name not in found:
                found[name] = Ahead(count, self._words(ahead, most))
            if count == _COUNTED:
                break
            ahead[name] += 1
            most = sorted(dict.fromkeys((*most, name)), key=lambda each: -ahead[each])[:_NAMED]
        return found, Ahead(_COUNTED, f"more than {_COUNTED:,} instances are ahead of it: {self._names(ahead, most)}")

    def _words(self, ahead: Counter[str], most: Sequence[str]) -> str:
        many = ahead.total()
        if not many:
            return "it is next"
        return f"{plural(many, 'instance')} {'is' if many == 1 else 'are'} ahead of it: {self._names(ahead, most)}"

    def _names(self, ahead: Counter[str], most: Sequence[str]) -> str:
        tasks = [(ahead[name], self._state.tasks[name].definition) for name in most]
        named = [f"{many:,} of '{task.name}' ({task.user or 'no user'})" for many, task in tasks]
        rest = len(ahead) - len(named)
        return ", ".join(named) + (f" and {plural(rest, 'other task')}" if rest > 0 else "")


def why(state: ServiceState, task: QueuedTask, lines: Lines) -> list[str]:
    """Why instances of a task wait, the most important first; empty where none does."""
    if task.state is not None or not task.waiting:
        return []
    if held := _held(state, task):
        return held
    if (pool := state.pools.get(task.definition.pool)) is None:
        return [f"there is no pool '{task.definition.pool}': move it to another, or cancel it"]
    own = _user_reasons(state, pool, task)
    return _pool_reasons(state, pool) or [*own, *_slot_reasons(state, pool), lines.ahead(pool, task.id).words]


def pool_words(state: ServiceState, pool: LongLivedPool) -> str:
    """How a pool is, in a sentence."""
    workers, counts = pool.workers, pool.workers.counts
    if workers.failed is not None:
        return f"it failed: {workers.failed}"
    if pool.closed:
        return f"it closes: {plural(counts.total, 'worker')} left" if counts.total else "it is closed"
    budget = pool_budget_words(state, pool)
    if budget and not workers.pool.most_workers:
        return budget + (f" ({plural(counts.total, 'worker')} left)" if counts.total else "")
    if workers.observed:
        silent = f", {len(workers.silent)} of them silent" if workers.silent else ""
        more = f"; {budget}" if budget else ""
        return f"{counts.joined} of {plural(workers.size, 'worker')} joined{silent}{more}"
    if workers.size:
        word = workers.last_word or workers.last_loss
        return f"waits for {plural(workers.size, 'worker')}" + (f": {word}" if word else "")
    if not workers.pool.most_workers:
        return "it has no workers, and may have none; its tasks can be moved to another pool"
    return "it has no workers, and no work waits for them" if not pool.waiting.instances else "it asks for workers"


def _held(state: ServiceState, task: QueuedTask) -> list[str]:
    if task.doomed is not None:
        return [task.doomed]
    reasons = ["it is paused"] if task.paused else []
    for name in sorted(task.pending):
        other = state.tasks.get(name)
        reasons.append(
            f"it comes after task '{other.definition.name if other else name}' ({name}), which has not ended"
        )
    return reasons


def _pool_reasons(state: ServiceState, pool: LongLivedPool) -> list[str]:
    if pool.closed or pool.workers.failed is not None or not pool.workers.observed:
        return [f"pool '{pool.name}': {pool_words(state, pool)}"]
    return []


def _user_reasons(state: ServiceState, pool: LongLivedPool, task: QueuedTask) -> list[str]:
    user, own, reasons = task.definition.user, pool_rules(state.rules, pool.definition), []
    if not may_have_more(state.rules, user, state.by_user):
        most = plural(most_slots(state.rules, user) or 0, "slot")
        reasons.append(f"user '{user}' has {state.by_user[user]} of at most {most}")
    if not may_have_more(own, user, pool.used.users):
        most = plural(most_slots(own, user) or 0, "slot")
        reasons.append(f"user '{user}' has {pool.used.users[user]} of at most {most} of pool '{pool.name}'")
    if not can_pay(state, pool, task):
        reasons.append(user_words(state, user))
    return reasons


def _slot_reasons(state: ServiceState, pool: LongLivedPool) -> list[str]:
    slots = pool.seats.usable_slots
    if not slots:
        return [f"no worker of pool '{pool.name}' answers"]
    budget = pool_budget_words(state, pool)
    if pool.seats.free:
        return []
    all_in_use = "the only slot" if slots == 1 else f"all {slots} slots"
    verb = "is" if slots == 1 else "are"
    return [f"{all_in_use} of pool '{pool.name}' {verb} in use", *([budget] if budget else [])]


def ahead_of(state: ServiceState, task: QueuedTask, lines: Lines) -> int:
    """How many instances of other tasks would start before its next one; counted up to a thousand."""
    pool = state.pools.get(task.definition.pool)
    return 0 if pool is None or task.id not in pool.waiting else lines.ahead(pool, task.id).instances


# Show pools, tasks and instances as values, for whoever asks the service.


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
