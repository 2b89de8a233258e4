"""Check `config` of the run and of its pools against the settings of strategies and backends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from cenote.errors import CenoteError
from cenote.language.checks.findings import Findings
from cenote.language.checks.plugins import check_settings
from cenote.language.checks.validation import keys_of
from cenote.language.execution import JOINED_BACKEND, Pool
from cenote.language.layers.site import is_site_layer
from cenote.language.yaml.source import Located
from cenote.plugins import registry
from cenote.plugins.capabilities import starts_here
from cenote.plugins.kinds import PluginKind


def check_configs(node: Located, pools: Iterable[Pool], *, backend: str, strategy: str, findings: Findings) -> None:
    """Note keys that no plugin has and values that their plugin refuses.

    A file that moves from one batch system to another keeps its keys: what only another strategy knows is left out,
    with a warning where workers come from a batch system. What the site wrote is left out without one: it is an offer
    to all strategies.
    """
    shared = node.get("config")
    if shared is not None and shared.mapping:
        _check_shared(shared, backend, findings)
    for pool in pools:
        config = node.get("pools", pool.name, "config")
        if config is not None and config.mapping:
            _check_pool(pool.name, pool.strategy or strategy, config, findings)


def _check_pool(pool: str, strategy: str, config: Located, findings: Findings) -> None:
    if strategy not in registry.names(PluginKind.STRATEGY):
        return
    what = f"'config' of pool '{pool}' ({strategy})"
    if config.mapping.keys() <= set(_settings(PluginKind.STRATEGY, strategy) or ()):
        check_settings(PluginKind.STRATEGY, strategy, config, what, findings)
        return  # other strategies are not even imported
    owners = _owners(PluginKind.STRATEGY, registry.names(PluginKind.STRATEGY))
    own = [key for key in owners if strategy in owners[key]]
    for key in [key for key in config.mapping if key not in owners]:
        findings.report_unknown_key(key, config.mapping[key], what, own or owners)
    written = {key: value for key, value in config.mapping.items() if key in own}
    check_settings(PluginKind.STRATEGY, strategy, config.holding(written), what, findings)
    foreign = [key for key in config.mapping if key in owners and key not in own]
    for key in foreign:
        owner = owners[key][0]
        one = config.holding({key: config.mapping[key]})
        check_settings(PluginKind.STRATEGY, owner, one, f"'config' of pool '{pool}' ({owner})", findings)
        if not starts_here(strategy) and not is_site_layer(config.mapping[key].layer):
            findings.warnings.append(
                f"pool '{pool}': '{key}' is a setting of {' and '.join(owners[key])}, ignored by {strategy}"
            )


def _check_shared(config: Located, backend: str, findings: Findings) -> None:
    if backend not in registry.names(PluginKind.BACKEND):
        return
    own = set(_settings(PluginKind.BACKEND, backend) or ())
    strategies = _owners(
        PluginKind.STRATEGY, [] if config.mapping.keys() <= own else registry.names(PluginKind.STRATEGY)
    )
    asked = dict.fromkeys((backend, JOINED_BACKEND))
    backends = _owners(PluginKind.BACKEND, asked)
    known = {**strategies, **backends}
    all_answered = all(_settings(PluginKind.BACKEND, name) is not None for name in asked)
    for key, value in config.mapping.items():
        one = config.holding({key: value})
        if key in known:
            kind = PluginKind.BACKEND if key in backends else PluginKind.STRATEGY
            check_settings(kind, known[key][0], one, "'execution.config'", findings)
        elif all_answered:  # else it may well be one of a backend whose software is not here
            findings.report_unknown_key(key, value, "'execution.config'", known)


def _owners(kind: PluginKind, names: Iterable[str]) -> Mapping[str, list[str]]:
    """Setting → the plugins that have it. One that cannot be loaded here is not asked."""
    owners: dict[str, list[str]] = {}
    for name in names:
        for key in _settings(kind, name) or ():
            owners.setdefault(key, []).append(name)
    return owners


def _settings(kind: PluginKind, name: str) -> Collection[str] | None:
    """The keys of a plugin; None where it cannot be loaded here."""
    try:
        return keys_of(registry.load(kind, name))
    except (CenoteError, ImportError):
        return None
