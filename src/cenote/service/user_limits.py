"""Keep what users of a shared service ask for within its rules. Its owner and admins ask for what they like."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cenote import errors
from cenote.client.definitions import PoolDefinition
from cenote.client.rules import OTHERS, ShareRules
from cenote.names import listed
from cenote.text import plural

_RULE = "a rule in the file of the service says so (`{key}`); its owner can change it"


def refuse_strategy(rules: ShareRules, profile: str, profiles: Collection[str]) -> None:
    """Raises where a pool is to be made of a strategy alone that is not open to everybody."""
    if profile not in profiles and profile not in rules.strategies:
        open_ones = sorted({*profiles, *rules.strategies})
        raise errors.error(
            errors.NOT_ALLOWED,
            f"pools of strategy '{profile}' can be made by admins only, or from a pool profile",
            hint=f"ask for one of {listed(open_ones)}" if open_ones else "ask the owner of the service for a profile",
        )


def refuse_pool(rules: ShareRules, pool: PoolDefinition, there: Iterable[PoolDefinition]) -> None:
    """Raises where a user would have more pools, or more workers in them, than they may; `there` are the open ones."""
    theirs = [one for one in there if one.user == pool.user]
    _refuse(rules.most_pools, "most_pools", pool.user, len(theirs) + 1, "pool")
    _refuse(rules.most_workers, "most_workers", pool.user, sum(map(_largest, (*theirs, pool))), "worker")


def refuse_priority(rules: ShareRules, user: str, priority: int) -> None:
    """Raises where a task would have a higher priority than its user may give."""
    highest = _limit(rules.highest_priority, user)
    if highest is not None and priority > highest:
        message = f"user '{user}' may give priorities up to {highest}, not {priority}"
        raise errors.error(errors.NOT_ALLOWED, message, hint=_RULE.format(key="highest_priority"))


def _refuse(limits: Mapping[str, int], key: str, user: str, many: int, what: str) -> None:
    most = _limit(limits, user)
    if most is not None and many > most:
        message = f"user '{user}' would have {plural(many, what)}, and may have {most}"
        raise errors.error(errors.NOT_ALLOWED, message, hint=_RULE.format(key=key))


def _limit(limits: Mapping[str, int], user: str) -> int | None:
    return limits.get(user, limits.get(OTHERS))


def _largest(pool: PoolDefinition) -> int:
    return pool.elastic.max if pool.elastic else pool.workers or 0
