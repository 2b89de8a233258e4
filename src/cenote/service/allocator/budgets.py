"""Say what budgets allow: which accounts something costs, whether one more can be paid, and how much is used."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cenote.client.definitions import PoolDefinition
from cenote.client.rules import Budget, ShareRules
from cenote.service.allocator.accounts import (
    LEAST,
    NOTICE,
    RESERVE,
    USE,
    Account,
    amount_of,
    moment,
    rate_of,
    units,
)
from cenote.service.allocator.pool import LongLivedPool
from cenote.service.allocator.queued_task import QueuedTask
from cenote.service.allocator.state import ServiceState, budget_of, pool_keys, user_key

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
