"""The modifiers around stages, each with what it may know of one call."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cenote.modifiers.interface import Modifier, StageCall
from cenote.operations.interface import Operation, Result
from cenote.operations.support.events import Events
from cenote.plan.plan import PlannedModifier, Step
from cenote.text import compiled_together, first_to_last
from cenote.worker.compiled_group import CompiledGroup
from cenote.worker.failure import ModifierFailure
from cenote.worker.modified import run_modified
from cenote.worker.run_plugins import RunPlugins
from cenote.worker.task_spec import Piece, TimeLimit
from cenote.worker.task_work import TaskWork

Calls = list[tuple[Modifier, StageCall]]


class ModifierCalls:
    """Makes the calls that the modifiers of a run take part in."""

    def __init__(self, plugins: RunPlugins) -> None:
        self._plugins = plugins

    def around(self, work: TaskWork, piece: Piece, step: Step, operation: Operation) -> Calls:
        """Those around a stage."""
        whole = work.segment.scope == "partition"
        following = self._plugins.following(work.segment, step, piece.partition.dataset) if whole else None
        known = {"stage": step.stage, "operation": operation, "reads": step.reads, "adds": step.adds}
        return self._made(work, piece, step, known | {"following": following})

    def around_group(self, work: TaskWork, piece: Piece, group: CompiledGroup, loop: Operation) -> Calls:
        """Those around compiled stages, which are the same for all of them."""
        if not group.fused.modifiers:
            return []
        known = {"stage": first_to_last(group.stages), "stages": group.stages, "operation": loop}
        return self._made(work, piece, group.fused.steps[0], known | {"reads": group.reads, "adds": group.adds})

    def _made(self, work: TaskWork, piece: Piece, step: Step, known: Mapping[str, Any]) -> Calls:
        partition, whole = piece.partition, work.segment.scope == "partition"
        made = self._plugins.modifiers(work.segment, step)
        return [
            (
                made[planned.name],
                StageCall(
                    modifier=planned.name,
                    dataset=partition.dataset if work.segment.scope != "run" else "",
                    file=partition.url if whole else "",
                    entries=(partition.start, partition.stop) if whole else (0, 0),
                    kept=work.kept.setdefault(planned.name, {}),
                    seconds=lambda: time.perf_counter() - work.began,
                    memory=work.memory,
                    limit=partial(_limit, work, step.stage, planned),
                    measures=planned.measures,
                    warnings=work.warnings,
                    files=work.files,
                    **known,
                ),
            )
            for planned in step.modifiers
        ]


def observed(calls: Sequence[tuple[Modifier, StageCall]], loop: Operation, events: Events) -> Result:
    """What a loop returns; a modifier that fails says which stages it is around."""
    try:
        return run_modified(calls, loop.run, events)
    except ModifierFailure as failure:
        if len(calls[0][1].stages) > 1:
            failure.around = compiled_together(calls[0][1].stages)
        raise


def _limit(work: TaskWork, stage: str, modifier: PlannedModifier, seconds: float) -> None:
    if not modifier.limits_time:
        raise ValueError(
            "a modifier that calls `limit` declares `limits_time=True`: a process is then used that can end"
        )
    if not 0 < seconds < math.inf:
        raise ValueError(f"a limit is a number of seconds above zero, not {seconds}")
    work.on_step(stage, TimeLimit(math.ceil(seconds), modifier.name))
