"""Read the rules of a service from its file, and keep what users ask for within them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cenote.common import errors
from cenote.common.text import did_you_mean, listed, plural
from cenote.language.checks.findings import Findings
from cenote.language.checks.validation import validated
from cenote.language.execution import Pool
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.document import WorkflowModel
from cenote.language.schema.service import OTHERS, PoolRules, ShareRules
from cenote.language.yaml.source import Located
from cenote.service.client.definitions import PoolDefinition
from cenote.service.server.calendar import nearest_zone, zone_of

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
    rules = validated(ShareRules, node, f"'{KEY}'", findings)
    if rules is None:
        return ShareRules()
    if zone_of(rules.timezone) is None:
        message = f"there is no time zone '{rules.timezone}'"
        findings.report(errors.BAD_VALUE, message, node.get("timezone"), hint=nearest_zone(rules.timezone))
    strategies = registry.names(PluginKind.STRATEGY)
    for name in [name for name in rules.strategies if name not in strategies]:
        message, place = f"there is no strategy '{name}'", node.get("strategies") or node
        findings.report(
            errors.UNKNOWN_PLUGIN, message, place, hint=did_you_mean(name, strategies) or f"one of {listed(strategies)}"
        )
    for name, own in rules.pools.items():
        _check_pool(name, own, node, {**profiles, **pools}, findings)
    return rules


def _check_pool(name: str, rules: PoolRules, node: Located, known: Mapping[str, Pool], findings: Findings) -> None:
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
