"""Read the rules of a service from its file, and keep what users ask for within them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

import msgspec

from cenote.common import errors
from cenote.common.text import did_you_mean, listed, plural
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.execution import Pool
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.document import WorkflowModel
from cenote.language.schema.service import BudgetModel, PoolRulesModel, ServiceModel
from cenote.language.yaml.source import Located
from cenote.service.client.definitions import PoolDefinition
from cenote.service.client.rules import OTHERS, Budget, PoolRules, ScalingPeriod, ShareRules
from cenote.service.server.calendar import nearest_zone, zone_of

Value = TypeVar("Value")
KEY = "service"


def read_rules(
    root: Located, pools: Mapping[str, Pool], profiles: Mapping[str, Pool], findings: Findings
) -> ShareRules:
    """The rules that a file has; what is wrong is noted. Pools and profiles are those that rules may name."""
    known = (*WorkflowModel.model_fields, KEY)
    for key in [key for key in root.mapping if key not in known]:
        findings.report_unknown_key(key, root.mapping[key], "the file of a service", known)
    if (node := root.get(KEY)) is None or node.value is None:
        return ShareRules()
    model = validated(ServiceModel, node, f"'{KEY}'", findings)
    if model is None:
        return ShareRules()
    if zone_of(model.timezone) is None:
        message = f"there is no time zone '{model.timezone}'"
        findings.report(errors.BAD_VALUE, message, node.get("timezone"), hint=nearest_zone(model.timezone))
    strategies = registry.names(PluginKind.STRATEGY)
    for name in [name for name in model.strategies if name not in strategies]:
        message, place = f"there is no strategy '{name}'", node.get("strategies") or node
        findings.report(
            errors.UNKNOWN_PLUGIN, message, place, hint=did_you_mean(name, strategies) or f"one of {listed(strategies)}"
        )
    for name, written in model.pools.items():
        _check_pool(name, written, node, {**profiles, **pools}, findings)
    return ShareRules(
        weights=dict(model.shares.users),
        group_weights=dict(model.shares.groups),
        most_slots=_with_others(model.most_slots),
        budgets={name: _budget(one) for name, one in _with_others(model.budgets).items()},
        most_pools=_with_others(model.most_pools),
        most_workers=_with_others(model.most_workers),
        highest_priority=_with_others(model.highest_priority),
        strategies=model.strategies,
        pools={name: _rules(one) for name, one in model.pools.items()},
        timezone=model.timezone,
        keep_output=model.keep_output,
    )


def _check_pool(name: str, rules: PoolRulesModel, node: Located, known: Mapping[str, Pool], findings: Findings) -> None:
    place = node.get("pools", name) or node
    pool = known.get(name)
    if pool is None:
        message = f"there is no pool or pool profile '{name}', which has rules"
        findings.report_unknown(errors.UNKNOWN_POOL, message, place.holding(name), known, what="pools and profiles")
        return
    if rules.budget is not None and not pool.cost:
        message, hint = f"pool '{name}' has a budget and no cost", "write `cost`, of one worker for one hour, with it"
        findings.report(errors.MISSING_KEY, message, place.get("budget"), hint=hint)
    if rules.periods and pool.elastic is None and pool.workers is not None:
        message, hint = f"pool '{name}' has periods and a fixed size", "give it `elastic` instead of `workers`"
        findings.report(errors.BAD_VALUE, message, place.get("periods"), hint=hint)


def _rules(written: PoolRulesModel) -> PoolRules:
    return PoolRules(
        scheduling=written.scheduling,
        preemption=written.preemption is not False,
        most_slots=_with_others(written.most_slots),
        budget=None if written.budget is None else _budget(written.budget),
        periods=tuple(msgspec.convert(period, ScalingPeriod, from_attributes=True) for period in written.periods),
    )


def _budget(written: BudgetModel) -> Budget:
    return Budget(amount=written.amount, per=written.per)


def _with_others(written: Mapping[str, Value]) -> dict[str, Value]:
    return {OTHERS if name == "others" else name: value for name, value in written.items()}


# Keep what users of a shared service ask for within its rules. Its owner and admins ask for what they like.


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
