"""Gather what a site gives in effect: pools with the settings of their strategies, the network, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args, get_type_hints

from cenote.common.units import format_bytes, format_seconds
from cenote.common.values import dataclass
from cenote.execution.backends.support.ports import ports_in_words
from cenote.execution.runs.configured import configured
from cenote.execution.strategies.support.batch import BatchStrategy
from cenote.language.checks.site import Site
from cenote.language.execution import JOINED_BACKEND, Pool
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.settings import Memory, Seconds, Settings


@dataclass(frozen=True)
class SitePool:
    """A pool profile, or a pool, and what it asks a batch system for."""

    pool: Pool
    strategy: str
    walltime: int | None
    """Seconds that the batch system gives to a worker."""
    settings: Mapping[str, Any]
    """Of the strategy, the pool's own over those for all pools; as the strategy understood them."""
    words: Mapping[str, str]
    """The pool's own settings, for people."""


def pool_facts(site: Site, pool: Pool) -> SitePool:
    """A pool with the settings that its strategy would get."""
    name = pool.strategy or site.execution.strategy
    strategy = configured(registry.load(PluginKind.STRATEGY, name), {**site.execution.config, **pool.config})
    own = {key: value for key, value in in_words(strategy).items() if key in pool.config and key != "walltime"}
    walltime = strategy.lifetime.seconds if strategy.lifetime else None
    return SitePool(pool, name, walltime, given(strategy), own)


def strategies(site: Site) -> dict[str, Settings]:
    """The strategies that the site uses or has settings for, with the settings for all pools."""
    used = {site.execution.strategy, *(pool.strategy for pool in (*site.execution.pools, *site.profiles))}
    shared = set(BatchStrategy.model_fields)
    found: dict[str, Settings] = {}
    for name in registry.names(PluginKind.STRATEGY):
        made: Settings = configured(registry.load(PluginKind.STRATEGY, name), site.execution.config)
        if name in used or made.model_fields_set - shared:
            found[name] = made
    return found


def network(site: Site) -> Settings | None:
    """The settings of the backend that workers of other machines join; None where its software is not installed."""
    factory = registry.load(PluginKind.BACKEND, JOINED_BACKEND)
    if factory.missing_package() is not None:
        return None
    made: Settings = configured(factory, site.execution.config)
    return made


def given(settings: Settings) -> dict[str, Any]:
    """What was set, as plain values: seconds and bytes as numbers."""
    return settings.model_dump(mode="json", include=settings.model_fields_set)


def in_words(settings: Settings) -> dict[str, str]:
    """The same for people: `walltime: 4h`, `transfer_files: yes`, `port: 20000-20100`."""
    hints = get_type_hints(type(settings), include_extras=True)
    return {
        key: _worded(getattr(settings, key), hints[key])
        for key in type(settings).model_fields
        if key in settings.model_fields_set
    }


def _worded(value: Any, hint: Any) -> str:  # Any: whatever a plugin's settings hold
    match value:
        case bool():
            return "yes" if value else "no"
        case int() if _is(Seconds, hint):
            return format_seconds(value)
        case int() if _is(Memory, hint):
            return format_bytes(value)
        case range():
            return ports_in_words(value)
        case tuple() | list():
            return ", ".join(_worded(item, hint) for item in value)
        case dict():
            return ", ".join(f"{key} {_worded(item, hint)}" for key, item in value.items())
        case _:
            return str(value)


def _is(unit: Any, hint: Any) -> bool:  # Any: types
    """Whether a field is declared in this unit, be it optional, limited, or a mapping to it."""
    marks = getattr(hint, "__metadata__", ())
    return unit.__metadata__[0] in marks or any(_is(unit, part) for part in get_args(hint))


def site_as_json(site: Site) -> dict[str, Any]:
    """For scripts; times in seconds, memory in bytes."""
    about, execution = site.about, site.execution
    return {
        "file": str(site.file) if site.file else None,
        "site": about.model_dump() if about else None,
        "defaults": {key: getattr(execution, key) for key in ("backend", "strategy") if key in site.chosen},
        "pools": [_pool_as_json(pool_facts(site, pool)) for pool in own_pools(site)],
        "pool_profiles": [
            {**_pool_as_json(pool_facts(site, pool)), "built_in": pool.name not in site.own_profiles}
            for pool in site.profiles
        ],
        "network": given(joined) if (joined := network(site)) else None,
        "strategies": {name: given(settings) for name, settings in strategies(site).items()},
    }


def own_pools(site: Site) -> tuple[Pool, ...]:
    """The pools that a workflow without pools gets from the site."""
    return site.execution.pools if "pools" in site.chosen else ()


def _pool_as_json(facts: SitePool) -> dict[str, Any]:
    pool = facts.pool
    many = {"elastic": asdict(pool.elastic)} if pool.elastic else {"workers": pool.workers}
    return {
        "name": pool.name,
        "strategy": facts.strategy,
        **many,
        "resources": asdict(pool.resources),
        "walltime": facts.walltime,
        "settings": dict(facts.settings),
    }
