"""Choose a part of a workflow, and state of each stage whether it is compiled and which modifiers are around it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from cenote.analysis.modifiers.interface import Modifier
from cenote.analysis.operations.interface import Scope
from cenote.common import errors
from cenote.common.errors import CenoteError, Problem
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.workflow import PluginUse, Stage, Workflow
from cenote.planning.stages.resolve import Resolved, ResolvedStage


def select(workflow: Workflow, *, until: Sequence[str] = (), only: Sequence[str] = ()) -> Workflow:
    """The same workflow with fewer stages: with `until` those named and all that they need, with `only` the same, and
    of what they need nothing is written, drawn or published. Raises with the nearest names for unknown ones."""
    if until and only:
        raise errors.error(errors.USAGE, "--until and --only choose different parts of the workflow: choose one")
    if not (until or only):
        return workflow
    refuse_unknown((*until, *only), workflow)
    kept = _reached((*until, *only), {stage.id: stage.needs for stage in workflow.stages})
    helpers = kept - set(only) if only else frozenset()
    return replace(
        workflow,
        stages=tuple(
            replace(stage, write=(), render=()) if stage.id in helpers else _drawable(stage, kept - helpers)
            for stage in workflow.stages
            if stage.id in kept
        ),
        helpers=helpers,
        left_out=frozenset(stage.id for stage in workflow.stages) - kept,
    )


def _drawable(stage: Stage, kept: Collection[str]) -> Stage:
    """Without pictures of several products of which some are left out."""
    return replace(stage, render=tuple(one for one in stage.render if {*one.together.values()} <= {*kept}))


def refuse_unknown(names: Iterable[str], workflow: Workflow) -> None:
    """Raise for names that are no stage's."""
    known = [stage.id for stage in workflow.stages]
    problems = []
    for name in dict.fromkeys(names):
        if name not in known:
            left_out = name in workflow.left_out
            words = f"stage '{name}' is not part of this run" if left_out else f"there is no stage '{name}'"
            problems.append(errors.unknown_name(errors.UNKNOWN_STAGE, words, name, known, what="stages"))
    if problems:
        raise CenoteError(problems)


def followers_of(workflow: Workflow, stages: Collection[str]) -> frozenset[str]:
    """These stages, and all that follow them."""
    followers: dict[str, list[str]] = {stage.id: [] for stage in workflow.stages}
    for stage in workflow.stages:
        for need in stage.needs:
            followers[need].append(stage.id)
    return _reached(stages, followers)


def _reached(first: Iterable[str], ways: Mapping[str, Sequence[str]]) -> frozenset[str]:
    found: set[str] = set()
    waiting = list(first)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += ways.get(name, ())
    return frozenset(found)


# State which modifiers are around a stage, and compare them with it while planning.


def modifiers_of(stage: ResolvedStage, workflow: Workflow) -> tuple[PluginUse, ...]:
    """Those of the run, then those of the stage, which replace one of the run with the same name."""
    own = stage.stage.requirement.modifiers
    names = {modifier.name for modifier in own}
    return (*(modifier for modifier in workflow.execution.modifiers if modifier.name not in names), *own)


def class_of(modifier: PluginUse) -> type[Modifier]:
    """What it is."""
    return registry.load(PluginKind.MODIFIER, modifier.name)


def misfits(workflow: Workflow, resolved: Resolved) -> list[Problem]:
    """What modifiers find wrong with the stages that they are around."""
    return [problem for stage in resolved.stages for problem in _misfits(workflow, stage)]


def _misfits(workflow: Workflow, stage: ResolvedStage) -> Iterator[Problem]:
    for use in modifiers_of(stage, workflow):
        modifier: Modifier = registry.make(PluginKind.MODIFIER, use.name, use.settings)
        try:
            modifier.check_stage(stage.id, stage.reads)
        except CenoteError as problem:
            for found in problem.problems:
                yield replace(found, message=f"modifier '{use.name}': {found.message}").at(workflow.place(*use.path))


# Decide from the workflow alone which stages are compiled, and say of the others why they are not.


def why_not_compiled(stage: ResolvedStage, modifiers: Sequence[PluginUse]) -> str:
    """Why a stage runs the ordinary way; empty where it is compiled together with its neighbours."""
    for modifier in modifiers:
        if obstacle := class_of(modifier).obstacle():
            return f"modifier '{modifier.name}' {obstacle}"
    if stage.stage.requirement.timeout is not None:
        return "its time is limited"
    if stage.scope is not Scope.PARTITION:
        return f"it sees a whole {stage.scope.value}"
    operations = [stage.operation, *(applied.operation for applied in stage.applied.values())]
    return next(filter(None, (operation.obstacle() for operation in operations)), "")
