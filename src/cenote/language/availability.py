"""State which parts of a correct workflow this version does not execute yet."""

from __future__ import annotations

from collections.abc import Iterator

from cenote.common import errors
from cenote.common.errors import Problem
from cenote.language.execution import ExecutionSettings, PoolSettings
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.registry import runs_here, starts_here
from cenote.language.systematics import KeyPath
from cenote.language.workflow import Workflow


def unavailable(workflow: Workflow) -> tuple[list[Problem], list[str]]:
    """Problems for parts that a run would need, and warnings for parts that are left out without changing results."""
    needed = [*_computation(workflow), *_elsewhere(workflow)]
    problems = [problem.at(workflow.place(*path)) for problem, path in needed]
    return list(errors.unique(problems)), list(dict.fromkeys(_left_out(workflow)))


_Found = Iterator[tuple[Problem, KeyPath]]


def _not_yet(what: str, hint: str | None = None) -> Problem:
    return Problem(errors.NOT_AVAILABLE, f"not available yet: {what}", hint=hint)


def _planned(kind: PluginKind, name: str, path: KeyPath) -> _Found:
    if registry.is_planned(kind, name):
        yield registry.unknown(kind, name), path


def _computation(workflow: Workflow) -> _Found:
    for source in workflow.sources:
        yield from _planned(PluginKind.SOURCE, source.kind, source.path)
    for stage in workflow.stages:
        yield from _planned(PluginKind.OPERATION, stage.op, (*stage.path, "op"))
        for write in stage.write:
            yield from _planned(PluginKind.SINK, write.kind, write.path)
        for render in stage.render:
            yield from _planned(PluginKind.RENDERER, render.name, render.path)
    for part in workflow.unexecuted:
        if part.matters:
            yield _not_yet(part.what), part.path


def _elsewhere(workflow: Workflow) -> _Found:
    """What only matters on other machines: a run that says `backend: local` does without it."""
    execution = workflow.execution
    yield from _planned(PluginKind.BACKEND, execution.backend, ("execution", "backend"))
    if not _stays_here(workflow):
        for what, path in _other_machines(workflow):
            yield _not_yet(what, "the backend `local` runs everything on this machine"), path


def _stays_here(workflow: Workflow) -> bool:
    """Whether the workflow says that everything runs on this machine, instead of saying nothing."""
    return runs_here(workflow.execution.backend) and workflow.origin("execution", "backend") is not None


def _other_machines(workflow: Workflow) -> Iterator[tuple[str, KeyPath]]:
    execution = workflow.execution
    parts: list[tuple[ExecutionSettings | PoolSettings, KeyPath]] = [(execution, ("execution",))]
    for part, path in [*parts, *((pool, pool.path) for pool in execution.pools)]:
        named = [(PluginKind.STRATEGY, part.strategy, "strategy")]
        named += [(PluginKind.ENVIRONMENT, part.environment["type"] if part.environment else None, "environment")]
        named += [(PluginKind.CREDENTIAL, one["type"], "credentials") for one in part.credentials or ()]
        for kind, name, key in named:
            if name and (later := registry.is_planned(kind, name)):
                yield f"{kind.value} '{name}' comes with {later}", (*path, key)


def _left_out(workflow: Workflow) -> Iterator[str]:
    for part in workflow.unexecuted:
        if not part.matters:
            yield _warning(workflow, part.what, part.path)
    if _stays_here(workflow):
        for what, path in _other_machines(workflow):
            yield _warning(workflow, what, path)
        backend = workflow.execution.backend
        for strategy in _batch_strategies(workflow):
            yield f"strategy '{strategy}' starts no workers: `backend: {backend}` runs everything on this machine"
        for pool in workflow.execution.pools:
            if pool.environment and not registry.is_planned(PluginKind.ENVIRONMENT, pool.environment["type"]):
                yield f"pool '{pool.name}' gets the run's environment: `backend: {backend}` has one for all pools"
            if pool.credentials:
                yield f"pool '{pool.name}' gets the run's credentials: `backend: {backend}` has one list for all pools"
            if pool.pass_variables:
                yield f"pool '{pool.name}' gets the run's variables: `backend: {backend}` has one list for all pools"


def _batch_strategies(workflow: Workflow) -> list[str]:
    execution = workflow.execution
    named = [execution.strategy, *(pool.strategy for pool in execution.pools if pool.strategy)]
    known = registry.names(PluginKind.STRATEGY)
    return [strategy for strategy in dict.fromkeys(named) if strategy in known and not starts_here(strategy)]


def _warning(workflow: Workflow, what: str, path: KeyPath) -> str:
    place = workflow.place(*path)
    where = f"{place}: " if place else ""
    return f"{where}not supported yet, ignored (results are unaffected): {what}"
