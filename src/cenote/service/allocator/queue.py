"""Foresee the order in which waiting instances would start, within the budgets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice

import msgspec

from cenote.language.schema.service import Budget, ShareRules
from cenote.service.allocator.accounts import (
    LEAST,
    NOTICE,
    RESERVE,
    USE,
    Account,
    Owner,
    SlotsInUse,
    amount_of,
    may_have_more,
    moment,
    pool_rules,
    rate_of,
    rounds,
    share_of,
    units,
)
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.state import ServiceState, budget_of, pool_keys, user_key
from cenote.service.client.definitions import PoolDefinition

# Say what budgets allow: which accounts something costs, whether one more can be paid, and how much is used.


_WHO = {"pool": "pool '{}'", "profile": "all pools of profile '{}'", "user": "user '{}'"}


def can_pay(state: ServiceState, pool: LongLivedPool, task: QueuedTask) -> bool:
    """Whether the budget of its user lasts for one more instance."""
    budget, rate = budget_of(state.rules, key := user_key(task.definition.user)), slot_rate(pool.definition)
    if budget is None or not rate:
        return True
    needed = rate * moment(_least_seconds(task.definition.timeout) + RESERVE)
    return _account(state, key).committed(moment(state.now)) + needed <= units(budget.amount)


def slot_rate(pool: PoolDefinition) -> int:
    """What one slot of it costs in a millisecond."""
    return rate_of(pool.cost, pool.slots)


def _least_seconds(timeout: int | None) -> float:
    return LEAST if timeout is None else timeout


def overspent(state: ServiceState) -> Iterator[tuple[str, str]]:
    """Users whose running instances will have used up their budget before they can be stopped, and that in words."""
    for user, slots in list(state.by_user.items()):
        budget = budget_of(state.rules, key := user_key(user)) if slots else None
        if budget is not None and _account(state, key).committed(moment(state.now)) > units(budget.amount):
            yield user, words(state, key, budget)


def user_words(state: ServiceState, user: str) -> str:
    """How much of a user's budget is used."""
    budget = budget_of(state.rules, key := user_key(user))
    return words(state, key, budget) if budget else ""


def words(state: ServiceState, key: str, budget: Budget) -> str:
    """`budget of pool 'gpu': 98 of 100 used; more on Monday 00:00`."""
    kind, _, name = key.partition(":")
    spent = amount_of(_account(state, key).spent(moment(state.now)))
    span = state.spans.get(budget.per)
    more = f"; more on {span.next}" if span is not None else ""
    return f"budget of {_WHO[kind].format(name)}: {spent:.4g} of {budget.amount:.4g} used{more}"


# Workers


def affordable(state: ServiceState, pool: LongLivedPool) -> tuple[int, str] | None:
    """How many workers the budgets of a pool allow now, and why not more; None where none of them says."""
    found = [_affordable(state, pool, key, budget) for key, budget in _budgets(state, pool)]
    return min(found) if found and rate_of(pool.definition.cost) else None


def pool_budget_words(state: ServiceState, pool: LongLivedPool) -> str:
    """How much is used of the budget that keeps a pool smaller than it may be otherwise; empty where none does."""
    limit = affordable(state, pool) if pool.bounds and pool.bounds.reason else None
    return limit[1] if limit else ""


def why_used_up(state: ServiceState, pool: LongLivedPool) -> str:
    """That a budget lasts no longer than workers need to end, in words; else nothing."""
    for key, budget in _budgets(state, pool):
        if _headroom(state, key, budget) < 0:
            return words(state, key, budget)
    return ""


def _budgets(state: ServiceState, pool: LongLivedPool) -> Iterator[tuple[str, Budget]]:
    for key in pool_keys(pool.definition):
        if (budget := budget_of(state.rules, key)) is not None:
            yield key, budget


def _affordable(state: ServiceState, pool: LongLivedPool, key: str, budget: Budget) -> tuple[int, str]:
    """Nobody is asked for unless all can work for a while; all are sent away in time to finish what they run."""
    existing = sum(rate_of(one.definition.cost) * _existing(one) for one in _sharing(state, key))
    free = _headroom(state, key, budget) - existing * moment(NOTICE)
    more = (free - existing * moment(USE)) // (rate_of(pool.definition.cost) * moment(RESERVE + NOTICE + USE) or 1)
    return (pool.workers.size + max(0, more) if free >= 0 else 0), words(state, key, budget)


def _headroom(state: ServiceState, key: str, budget: Budget) -> int:
    """What is left when everything that exists, or was asked for, is told to end now."""
    unpaid = sum(rate_of(one.definition.cost) * max(0, _existing(one) - len(one.paid)) for one in _sharing(state, key))
    return units(budget.amount) - _account(state, key).committed(moment(state.now)) - unpaid * moment(RESERVE)


def _existing(pool: LongLivedPool) -> int:
    return pool.workers.size + len(pool.workers.leaving)


def _sharing(state: ServiceState, key: str) -> list[LongLivedPool]:
    return [pool for pool in state.pools.values() if key in pool_keys(pool.definition)]


# What can never be paid


def too_dear(rules: ShareRules, pool: PoolDefinition, user: str, timeout: int | None) -> str | None:
    """Why a budget could not even pay one instance, or the worker that it needs; None where it could."""
    for key in pool_keys(pool):
        budget = budget_of(rules, key)
        least = amount_of(rate_of(pool.cost) * moment(RESERVE + NOTICE + USE))
        if budget is not None and budget.amount < least:
            who = _WHO[key.partition(":")[0]].format(key.partition(":")[2])
            return f"the budget of {who} is {budget.amount:.4g}, and a worker takes {_up(least)} for the shortest time"
    budget = budget_of(rules, user_key(user))
    least = amount_of(slot_rate(pool) * moment(_least_seconds(timeout) + RESERVE))
    if budget is not None and budget.amount < least:
        span = "up to its time limit" if timeout is not None else "for the shortest time"
        return f"the budget of user '{user}' is {budget.amount:.4g}, and one instance takes {_up(least)} {span}"
    return None


def _up(amount: float) -> str:
    """Rounded up, so that it never looks as if it were enough."""
    digits = 3 - math.floor(math.log10(amount)) if amount > 0 else 0
    return f"{math.ceil(amount * 10**digits) / 10**digits:.4g}"


def _account(state: ServiceState, key: str) -> Account:
    return state.accounts.get(key) or Account()


_FORESEEN = 1000
"""Instances whose turns are looked at one by one."""


class QueueEntry(msgspec.Struct, frozen=True):
    """Some instances of a task that would start one after the other."""

    task: str
    name: str
    user: str
    group: str
    priority: int
    instances: int
    """How many, before it is another task's turn."""
    held: bool = False
    """Whether they wait for a limit or a budget of their user."""


def queue(state: ServiceState, pool: LongLivedPool, *, most: int) -> list[QueueEntry]:
    """The first so many entries. What lies far ahead comes task by task: nobody waits for the turn of each instance."""
    entries: list[QueueEntry] = []
    seen: Counter[str] = Counter()
    for name, held in islice(starts(state, pool), _FORESEEN):
        seen[name] += 1
        _extend(state, entries, name, 1, held=held)
        if len(entries) > most:
            return entries[:most]
    if sum(seen.values()) == _FORESEEN:
        for name in _in_line(state, pool):
            if len(entries) <= most and (left := state.tasks[name].waiting - seen[name]):
                _extend(state, entries, name, left, held=False)
    return entries[:most]


def _extend(state: ServiceState, entries: list[QueueEntry], name: str, many: int, *, held: bool) -> None:
    last = entries[-1] if entries else None
    if last is not None and last.task == name and last.held == held:
        entries[-1] = msgspec.structs.replace(last, instances=last.instances + many)
    else:
        entries.append(_entry(state, name, many, held=held))


def _in_line(state: ServiceState, pool: LongLivedPool) -> Iterator[str]:
    """The tasks that wait, by priority where that counts, then in order."""
    for lines in rounds(pool.waiting, pool_rules(state.rules, pool.definition)):
        yield from (
            name for _, name in sorted(one for several in lines.values() for line in several for one in line.tasks)
        )


def starts(state: ServiceState, pool: LongLivedPool) -> Iterator[tuple[str, bool]]:
    """Task after task, one for each instance that waits, and whether it waits for a limit or a budget of its user."""
    used, by_user = pool.used.copy(), Counter(state.by_user)
    own = pool_rules(state.rules, pool.definition)
    for lines in rounds(pool.waiting, own):
        turns = _Turns(state, pool, used, by_user)
        for owner, several in lines.items():
            turns.add(owner, _instances(state, [name for line in several for _, name in line.tasks]))
        yield from turns


_Turn = tuple[float, tuple[int, ...], str, Owner]


@dataclass
class _GroupTurns:
    """Whose turn it is in one group: a heap of those who may get a slot, and one of the others."""

    able: list[_Turn] = field(default_factory=list)
    held: list[_Turn] = field(default_factory=list)


class _Turns:
    """Whose turn it is among owners that compete, again and again. Only who gets a slot moves back in the group; who
    comes to a limit by another group is found out when their turn comes."""

    def __init__(self, state: ServiceState, pool: LongLivedPool, used: SlotsInUse, by_user: Counter[str]) -> None:
        self._state, self._pool, self._used, self._by_user = state, pool, used, by_user
        self._own = pool_rules(state.rules, pool.definition)
        self._heads: dict[Owner, str] = {}
        self._following: dict[Owner, Iterator[str]] = {}
        self._groups: dict[str, _GroupTurns] = {}

    def add(self, owner: Owner, names: Iterator[str]) -> None:
        """Somebody whose instances are of these tasks, one after the other."""
        self._following[owner] = names
        self._advance(owner)

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        while (found := self._next()) is not None:
            owner, held = found
            yield self._heads[owner], held
            self._used.take(owner)
            self._by_user[owner.user] += 1
            self._advance(owner)

    def _next(self) -> tuple[Owner, bool] | None:
        """Those who may get a slot come first; among groups the one that has least."""
        for group in self._groups.values():
            while group.able and not self._is_able(group.able[0][-1]):
                heappush(group.held, heappop(group.able))
        able = [(self._share(turns.able[0]), turns.able) for turns in self._groups.values() if turns.able]
        held = [(self._share(turns.held[0]), turns.held) for turns in self._groups.values() if turns.held]
        if not able and not held:
            return None
        _, heap = min(able or held, key=lambda one: one[0])
        return heappop(heap)[-1], not able

    def _advance(self, owner: Owner) -> None:
        if (following := next(self._following[owner], None)) is not None:
            self._heads[owner] = following
            group = self._groups.setdefault(owner.group, _GroupTurns())
            heappush(group.able if self._is_able(owner) else group.held, self._turn(owner))

    def _is_able(self, owner: Owner) -> bool:
        rules, user = self._state.rules, owner.user
        room = may_have_more(rules, user, self._by_user) and may_have_more(self._own, user, self._used.users)
        return room and can_pay(self._state, self._pool, self._state.tasks[self._heads[owner]])

    def _turn(self, owner: Owner) -> _Turn:
        name = self._heads[owner]
        return share_of(owner, self._used, self._state.rules)[1], self._state.tasks[name].order, name, owner

    def _share(self, turn: _Turn) -> tuple[float, _Turn]:
        return share_of(turn[-1], self._used, self._state.rules)[0], turn


def _instances(state: ServiceState, names: list[str]) -> Iterator[str]:
    for name in names:
        for _ in range(state.tasks[name].waiting):
            yield name


def _entry(state: ServiceState, name: str, many: int, *, held: bool) -> QueueEntry:
    task = state.tasks[name].definition
    return QueueEntry(name, task.name, task.user, task.group, task.priority, many, held)
