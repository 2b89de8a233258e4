"""State the software that operations need: its versions, and what workers will lack, as far as it is known here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from cenote import errors
from cenote.errors import Problem
from cenote.language.workflow import Workflow
from cenote.operations.interface import Operation
from cenote.placement.pools import Placement
from cenote.plan.stages.resolve import Resolved, ResolvedStage
from cenote.software import installed_packages

_CURRENT = "current"
"""The environment in which workers run the software of this process; what others hold is not known here."""


def missing_software(workflow: Workflow, resolved: Resolved, placement: Placement) -> list[Problem]:
    """A problem for each stage that may run with the software of this process, and needs more."""
    return [problem for stage in resolved.stages for problem in _missing(workflow, stage, placement)]


def versions_of(operation: Operation) -> Iterator[tuple[str, str]]:
    """What an operation needs beyond Cenote, with the versions here: another version may give other last bits. Of a
    module that several packages bring (`onnxruntime`, `onnxruntime-gpu`), all that are installed."""
    installed = installed_packages() if operation.software else {}
    for module in operation.software:
        yield from ((name, found) for name, found in installed.items() if f"{name}-".startswith(f"{module}-"))


def _missing(workflow: Workflow, stage: ResolvedStage, placement: Placement) -> Iterator[Problem]:
    placed = placement.by_stage.get(stage.id)
    types = [workflow.execution.environment_of(pool)["type"] for pool in (placed.pools if placed else ())]
    for module, extra in stage.operation.software.items() if _CURRENT in types else ():
        if importlib.util.find_spec(module) is None:
            yield Problem(
                errors.ENVIRONMENT,
                f"stage '{stage.id}' needs {module}, which is not installed",
                place=workflow.place(*stage.stage.path, "op"),
                hint=f"pip install 'cenote[{extra}]'",
            )
