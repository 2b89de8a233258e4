"""Check `execution` and the configuration of plugins, and make the pools."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.language.checks.data import entries
from cenote.language.checks.findings import Findings
from cenote.language.checks.plugins import check_name, check_settings, plain_mapping
from cenote.language.checks.validation import keys_of, validated
from cenote.language.execution import JOINED_BACKEND, Amounts, ExecutionSettings, Pool, PoolSettings, settings_of
from cenote.language.layers.site import is_site_layer
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.registry import starts_here
from cenote.language.schema.stage import ExecutionModel, ModifierModel, PoolModel, PoolResourcesModel
from cenote.language.systematics import KeyPath
from cenote.language.workflow import Execution, PluginUse
from cenote.language.yaml.source import Located

# Take Dask's own settings under `execution.config`, as FAST-HEP has them, for what they mean here.


WITHOUT_MEANING = ("processes", "dashboard_address", "scheduler")
"""Settings of Dask's local cluster that change no result: workers are always processes, its pages are off."""
_OF_POOLS = {"n_workers": ("workers",), "workers": ("workers",), "threads_per_worker": ("slots",)}
"""Setting → the key of the pool `default` that means the same."""


def with_dask_settings(execution: Located, findings: Findings) -> Located:
    """The mapping `execution` with Dask's settings moved to where they belong; what is left out is said."""
    config = execution.get("config")
    if config is None or not isinstance(config.value, dict):
        return execution
    rest = dict(config.mapping)
    for key in [key for key in WITHOUT_MEANING if key in rest]:
        findings.accept(f"execution.config.{key}", ("execution", "config", key), matters=False)
        del rest[key]
    if (folder := rest.pop("local_directory", None)) is not None:
        rest.setdefault("scratch", folder)
    pool = {keys[0]: rest.pop(key) for key, keys in _OF_POOLS.items() if key in rest}
    if (memory := rest.pop("memory_limit", None)) is not None:
        pool["resources"] = memory.holding({"memory": memory})
    moved = {**execution.mapping, "config": config.holding(rest)}
    if pool:
        moved["pools"] = _with_pool(execution.get("pools"), config, pool)
    return execution.holding(moved)


def _with_pool(pools: Located | None, config: Located, given: dict[str, Located]) -> Located:
    """The pools, of which `default` has these keys where it does not say otherwise."""
    written = pools.mapping if pools is not None else {}
    default = written.get("default")
    if written and default is None:
        return pools or config.holding({})
    own = default.mapping if default is not None else {}
    merged = (default or config).holding({**given, **own})
    return (pools or config).holding({**written, "default": merged})


# Check `config` of the run and of its pools against the settings of strategies and backends.


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


DEFAULT_POOL = Pool("default")
"""What a workflow without pools gets; placement gives it one worker per core."""
_FILE_NAME = re.compile(r"[^/\x00-\x1f]+")


def check_execution(root: Located, findings: Findings) -> Execution:
    """Where and how it runs; what is wrong is noted and replaced by the default."""
    node = root.get("execution") or Located({}, "built-in")
    entries(node, "'execution'", findings)  # says so if it is none
    node = with_dask_settings(node, findings)
    model = validated(ExecutionModel, node.without("pools", "resources"), "'execution'", findings) or ExecutionModel()
    for key, kind in (("backend", PluginKind.BACKEND), ("strategy", PluginKind.STRATEGY)):
        check_name(kind, node.get(key), findings)
    _check_software(node, findings)
    if model.staging:
        findings.accept("execution.staging", ("execution", "staging"), matters=False)
    classes = _resource_classes(node.get("resources"), findings)
    pools = _pools(node.get("pools"), classes, findings)
    _check_profiles(root, findings)
    names = {*pools, *(node.get("pools") or node.holding({})).mapping}
    for key in ("cpu", "gpu"):
        check_pool_name(node.get("defaults", key), names, "the default pool", findings)
    strategy = model.strategy
    strategies = {strategy, *(pool.strategy for pool in pools.values() if pool.strategy)}
    joined = node.get("backend") is None and not all(map(starts_here, strategies))
    backend = JOINED_BACKEND if joined else model.backend
    check_configs(node, pools.values(), backend=backend, strategy=strategy, findings=findings)
    return Execution(
        **{**settings_of(model, ExecutionSettings), "backend": backend},
        pools=tuple(pools.values()) or (DEFAULT_POOL,),
        modifiers=check_modifiers(node.get("modifiers"), model.modifiers, ("execution", "modifiers"), findings),
    )


def check_pool_name(
    name: Located | None, known: Collection[str], what: str, findings: Findings, *, listed_as: str = "pools"
) -> None:
    """Note a pool that is referred to and not there."""
    if name is not None and name.text is not None and name.text not in known:
        findings.report_unknown(
            errors.UNKNOWN_POOL, f"there is no pool '{name.text}', named as {what}", name, known, what=listed_as
        )


def _resource_classes(node: Located | None, findings: Findings) -> dict[str, Amounts]:
    return {
        name: validated(Amounts, written, f"resource class '{name}'", findings) or Amounts()
        for name, written in entries(node, "'execution.resources'", findings)
    }


def _pools(node: Located | None, classes: Mapping[str, Amounts], findings: Findings) -> dict[str, Pool]:
    written = dict(entries(node, "'execution.pools'", findings))
    found = {}
    for name, item in written.items():
        nothing = item.value is None
        if not _FILE_NAME.fullmatch(name):
            message = f"{name!r} cannot be the name of a pool: files of its workers carry this name"
            hint = "leave '/' and line breaks out of it" if name.strip() else "give it a name of letters"
            findings.report(errors.BAD_VALUE, message, item, hint=hint, on_key=True)
        model = validated(PoolModel, item.holding({}) if nothing else item, f"pool '{name}'", findings)
        if model is None:
            continue
        check_name(PluginKind.STRATEGY, item.get("strategy"), findings)
        _check_software(item, findings)
        for other in one_or_many(item.get("fallback")):
            check_pool_name(other, written, f"fallback of pool '{name}'", findings)
        found[name] = _pool(name, model, item, classes, findings)
    return found


def _pool(name: str, model: PoolModel, node: Located, classes: Mapping[str, Amounts], findings: Findings) -> Pool:
    own = model.resources or PoolResourcesModel()
    if own.class_ is not None and own.class_ not in classes:
        written = node.get("resources", "class") or node.get("resources") or node
        findings.report_unknown(
            errors.BAD_VALUE,
            f"there is no resource class '{own.class_}'",
            written.holding(own.class_),
            classes,
            what="classes of execution.resources",
        )
    resources = own.over(classes.get(own.class_ or "", Amounts()))
    return Pool(name, **settings_of(model, PoolSettings), resources=resources, resource_class=own.class_)


def _check_software(node: Located, findings: Findings) -> None:
    """The environment and the credentials of the run or of a pool, and their own settings."""
    written = [(PluginKind.ENVIRONMENT, node.get("environment"))]
    written += [(PluginKind.CREDENTIAL, one) for one in one_or_many(node.get("credentials"))]
    named: list[str] = []
    for kind, one in written:
        name = None if one is None else one.get("type") or one
        if one is not None and name is not None and name.text is not None and check_name(kind, name, findings):
            check_settings(kind, name.text, one.without("type"), f"{kind.value} '{name.text}'", findings)
            if kind is PluginKind.CREDENTIAL and name.text in named:
                hint = "other pools may have another one of this type"
                findings.report(errors.BAD_VALUE, f"credential '{name.text}' is named twice", name, hint=hint)
            named += [name.text] if kind is PluginKind.CREDENTIAL else []


def _check_profiles(root: Located, findings: Findings) -> None:
    """Check pool profiles too that no pool uses: the next reader relies on them."""
    for name, node in entries(root.get("pool_profiles"), "'pool_profiles'", findings):
        validated(PoolModel, node, f"pool profile '{name}'", findings)


def one_or_many(node: Located | None) -> list[Located]:
    """The items of a list, or the one value that stands without a list."""
    if node is None or node.value is None:
        return []
    return node.items if isinstance(node.value, list) else [node]


def check_modifiers(
    node: Located | None, models: Iterable[ModifierModel], path: KeyPath, findings: Findings
) -> tuple[PluginUse, ...]:
    """Modifiers by name, with their own settings checked; each at most once, for the sake of what they measure."""
    found: list[PluginUse] = []
    for index, (written, model) in enumerate(zip(one_or_many(node), models, strict=False)):
        name = written.get("name") or written
        known = check_name(PluginKind.MODIFIER, name, findings)
        if any(model.name == other.name for other in found):
            hint = (
                "put one of them here, with all its params; a modifier of a stage replaces the run's of the same name"
            )
            findings.report(errors.BAD_VALUE, f"modifier '{model.name}' is named twice", name, hint=hint)
        params = written.get("params") or written.holding({})
        if known:
            check_settings(PluginKind.MODIFIER, model.name, params, f"modifier '{model.name}'", findings)
        found.append(PluginUse(model.name, plain_mapping(params), (*path, index)))
    return tuple(found)
