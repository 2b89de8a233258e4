"""Decide from the workflow alone which stages are compiled, and say of the others why they are not."""

from __future__ import annotations

from collections.abc import Sequence

from cenote.language.workflow import PluginUse
from cenote.operations.interface import Scope
from cenote.plan.stages.modifiers import class_of
from cenote.plan.stages.resolve import ResolvedStage


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
