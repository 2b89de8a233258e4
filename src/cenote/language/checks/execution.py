"""Check `execution` and make the pools of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from cenote import errors
from cenote.language.checks.config import check_configs
from cenote.language.checks.dask_settings import with_dask_settings
from cenote.language.checks.data import entries
from cenote.language.checks.findings import Findings
from cenote.language.checks.plugins import check_name, check_settings, plain_mapping
from cenote.language.checks.validation import validated
from cenote.language.execution import JOINED_BACKEND, Amounts, ExecutionSettings, Pool, PoolSettings, settings_of
from cenote.language.origins import KeyPath
from cenote.language.schema.execution import ExecutionModel, ModifierModel, PoolModel, PoolResourcesModel
from cenote.language.workflow import Execution, PluginUse
from cenote.language.yaml.source import Located
from cenote.plugins.capabilities import starts_here
from cenote.plugins.kinds import PluginKind

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
