"""State which modifiers are around a stage, and compare them with it while planning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cenote.errors import CenoteError, Problem
from cenote.language.workflow import PluginUse, Workflow
from cenote.modifiers.interface import Modifier
from cenote.plan.stages.resolve import Resolved, ResolvedStage
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind


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
