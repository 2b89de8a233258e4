"""Make pools of what users ask for: by the pool profiles of a file, or by a strategy alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import yaml

from cenote.common import errors
from cenote.common.text import did_you_mean, listed, plural
from cenote.language.checks.execution import check_execution
from cenote.language.checks.findings import Findings
from cenote.language.execution import DefaultPools, Elastic, FallbackWhen, Pool, PoolSize
from cenote.language.layers.compose import Layered, read_layers
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.schema.service import ShareRules
from cenote.language.workflow import Execution
from cenote.service.client.definitions import PoolDefinition
from cenote.service.client.records import NewPool
from cenote.service.server.rules_file import read_rules

_OBEYED = frozenset(
    (
        *("name", "workers", "elastic", "slots", "resources", "resource_class", "cost"),
        *("strategy", "config", "environment", "pass_variables"),
        *("fallback", "fallback_when.no_worker_for", "queue_timeout"),
    )
)
"""Settings of pools that a service obeys. What is not here is refused."""
_INSTEAD = {
    "credentials": "leave it out; HTCondor's own means work: `x509userproxy`, `oauth_services`",
    "provides": "leave it out: tasks of a service name their pool, and ask for amounts",
}


class Profiles:
    """What pools can be made from."""

    def __init__(self, file: Path | None) -> None:
        """Raises everything that is wrong with the file."""
        self.file = file
        if file is not None and (problems := _layers(file, {}, "").problems):
            raise errors.CenoteError(problems)  # before anything else reads it: it may be no YAML, or not there
        self.names = _profile_names(file)
        """Of the pool profiles."""
        self.rules, self._execution = ShareRules(), None
        """Rules of sharing, as the file has them."""
        if file is not None:
            self.rules, self._execution = _rules_and_execution(file, self.names)
        self.pools = self._own_pools()
        """Those that the file itself asks for."""

    def _own_pools(self) -> tuple[PoolDefinition, ...]:
        asked = _read(self.file).get("execution") if self.file is not None else None
        if self._execution is None or not isinstance(asked, dict) or "pools" not in asked:
            return ()
        return tuple(self._defined(pool, self._execution, profile="", user="") for pool in self._execution.pools)

    def pool(self, name: str, asked: NewPool, user: str) -> PoolDefinition:
        """A pool that somebody asks for. Raises where there is no such profile, or its settings are wrong."""
        strategies = registry.names(PluginKind.STRATEGY)
        if asked.profile not in self.names and asked.profile not in strategies:
            known = sorted({*self.names, *strategies})
            raise errors.error(
                errors.UNKNOWN_PROFILE,
                f"there is no pool profile '{asked.profile}'",
                details=(f"profiles and strategies: {listed(known)}",),
                hint=did_you_mean(asked.profile, known),
            )
        written: dict[str, object] = (
            {"use": asked.profile} if asked.profile in self.names else {"strategy": asked.profile}
        )
        if asked.slots is not None:
            written["slots"] = asked.slots
        if asked.elastic is not None:
            _execution(None, {name: {"elastic": asdict(asked.elastic)}}, name)  # raises what is wrong with its numbers
        execution = _execution(self.file, {name: written}, name)
        (made,) = (pool for pool in execution.pools if pool.name == name)
        elastic = (
            _in_workers(name, asked.elastic, made.slots or 1) if asked.elastic_counts == "slots" else asked.elastic
        )
        size = PoolSize(asked.workers, elastic) if asked.workers is not None or elastic else made
        return self._defined(made, execution, profile=asked.profile, user=user, size=size, asked=asked)

    def default_pool(self, there: Iterable[PoolDefinition], *, gpus: bool = False) -> str:
        """For tasks that name none: the file's default for their kind of work, else the pool called `default`, or the
        only one; for GPU work, the only one with GPUs."""
        pools = {pool.name: pool for pool in there}
        defaults = self._execution.defaults if self._execution is not None else DefaultPools()
        named = (defaults.gpu,) if gpus else (defaults.cpu, "default")
        for name in named:
            if name is not None and name in pools:
                return name
        able = [name for name, pool in pools.items() if pool.resources.gpus or not gpus]
        if len(able) == 1:
            return able[0]
        what = "asks for GPUs, names no pool, and there is no default one for that" if gpus else ""
        message = f"the task {what or 'names no pool, and there is no default one'}"
        hint = f"pools{' with GPUs' if gpus else ''}: {listed(able)}" if pools else "create a pool first"
        raise errors.error(errors.UNKNOWN_POOL, message, hint=hint)

    def _defined(
        self,
        pool: Pool,
        execution: Execution,
        *,
        profile: str,
        user: str,
        size: PoolSize | None = None,
        asked: NewPool | None = None,
    ) -> PoolDefinition:
        wanted = size or pool
        _refuse_ignored(replace(pool, credentials=execution.credentials_of(pool.name)))
        return PoolDefinition(
            name=pool.name,
            title=asked.name if asked else pool.name,
            user=user,
            profile=profile,
            workers=None if wanted.elastic else wanted.workers if wanted.workers is not None else 1,
            elastic=wanted.elastic,
            slots=pool.slots or 1,
            resources=asked.amounts if asked and asked.amounts is not None else pool.resources,
            strategy=pool.strategy or execution.strategy,
            config=dict(execution.config_of(pool.name)),
            environment=dict(execution.environment_of(pool.name)),
            pass_variables=execution.pass_variables_of(pool.name),
            folder=str(self.file.absolute().parent) if self.file is not None else "",
            fallback=pool.fallback,
            no_worker_for=pool.fallback_when.no_worker_for,
            queue_timeout=pool.queue_timeout,
            cost=pool.cost,
            resource_files=asked.resources if asked else (),
            on_demand=asked is not None and asked.on_demand,
        )


def settings_of_pool(pool: Pool) -> dict[str, Any]:  # Any: each has its own type
    """Every setting of a pool by its name; those of `fallback_when` one by one."""
    own = {one.name: getattr(pool, one.name) for one in fields(Pool) if one.name != "fallback_when"}
    return own | {f"fallback_when.{one.name}": getattr(pool.fallback_when, one.name) for one in fields(FallbackWhen)}


def _refuse_ignored(pool: Pool) -> None:
    """Raises where a pool has a setting that would have no effect here."""
    usual = settings_of_pool(Pool(pool.name, credentials=()))
    for name, value in settings_of_pool(pool).items():
        if name not in _OBEYED and value != usual[name]:
            message = f"pool '{pool.name}' has `{name}`, which services do not support"
            raise errors.error(errors.NOT_AVAILABLE, message, hint=_INSTEAD.get(name, "leave it out"))


def _in_workers(name: str, elastic: Elastic | None, slots: int) -> Elastic | None:
    """Limits that count slots, for workers that have so many: never more slots than asked for."""
    if elastic is None or slots == 1:
        return elastic
    if (most := elastic.max // slots) == 0:
        raise errors.error(
            errors.BAD_VALUE,
            f"pool '{name}' may have {plural(elastic.max, 'slot')}, and one worker of it has {slots}",
            hint=f"let it have at least {slots}, or give workers fewer slots",
        )
    return replace(elastic, min=min(-(-elastic.min // slots), most), max=most)


def _read(file: Path) -> dict[str, object]:
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")) or {})


def _profile_names(file: Path | None) -> frozenset[str]:
    found = {} if file is None else _read(file).get("pool_profiles")
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _rules_and_execution(file: Path, profiles: frozenset[str]) -> tuple[ShareRules, Execution]:
    """What a file says, checked as a whole. Raises everything that is wrong with it."""
    layered = _layers(file, {}, "")
    findings = Findings(problems=list(layered.problems))
    if layered.root is None:
        raise errors.CenoteError(findings.problems)
    execution = check_execution(layered.root, findings)
    as_pools = {}
    if not findings.problems:
        made = _execution(file, {f"profile {name}": {"use": name} for name in profiles}, "")
        as_pools = {pool.name.removeprefix("profile "): pool for pool in made.pools}
    rules = read_rules(layered.root, {pool.name: pool for pool in execution.pools}, as_pools, findings)
    if findings.problems:
        raise errors.CenoteError(findings.problems)
    return rules, execution


def _execution(file: Path | None, pools: dict[str, dict[str, object]], name: str) -> Execution:
    """What the file says, and these pools besides. Raises what is wrong with it."""
    layered = _layers(file, pools, name)
    findings = Findings(problems=list(layered.problems))
    if layered.root is None:
        raise errors.CenoteError(findings.problems)
    execution = check_execution(layered.root, findings)
    if findings.problems:
        raise errors.CenoteError(findings.problems)
    return execution


def _layers(file: Path | None, pools: dict[str, dict[str, object]], name: str) -> Layered:
    content = yaml.safe_dump({"execution": {"pools": pools}} if pools else {}).encode()
    return read_layers(
        Path(name or "service"),
        content=content,
        profiles=[str(file)] if file else [],
        sets=[],
        backend=None,
        strategy=None,
    )
