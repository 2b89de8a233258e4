"""Say why a task waits, and what is ahead of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from cenote.service.allocator.budgets import can_pay, pool_budget_words, user_words
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queue import starts
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.share import may_have_more, most_slots, pool_rules
from cenote.service.allocator.state import ServiceState
from cenote.text import plural

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
