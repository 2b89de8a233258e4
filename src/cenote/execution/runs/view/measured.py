"""Gather what the modifiers of a run measured, and word it."""

from __future__ import annotations

from collections.abc import Mapping

from cenote.analysis.modifiers.support.measures import Folded, Measure, MeasuredStage
from cenote.common.text import compiled_together
from cenote.common.units import format_bytes, format_seconds
from cenote.common.values import dataclass
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.follow import read_if_whole
from cenote.execution.runs.summary import StageRecord, Summary
from cenote.planning.record import PlanRecord


@dataclass(frozen=True)
class ModifierRecord:
    """One modifier, in all stages that it was around."""

    name: str
    measures: Mapping[str, Measure]
    stages: tuple[tuple[StageRecord, MeasuredStage], ...]
    """In the order of the plan."""
    groups: tuple[tuple[tuple[str, ...], MeasuredStage], ...] = ()
    """Of stages that were compiled together, which it measured as one."""
    files: tuple[str, ...] = ()
    """What it left, relative to the run's folder; files of the whole run come first."""

    @property
    def measured(self) -> tuple[tuple[str, MeasuredStage], ...]:
        """The stages of which there is something, by the words for them."""
        together = ((compiled_together(stages), found) for stages, found in self.groups)
        alone = ((stage.id, found) for stage, found in self.stages)
        return tuple((words, found) for words, found in (*together, *alone) if found.values or found.rows)

    @property
    def reused(self) -> bool:
        """Whether it would measure and saw nothing, because an earlier run had done all tasks of its stages."""
        if not self.measures or self.groups:
            return False
        return all(not found.calls and stage.reused and stage.reused == stage.tasks for stage, found in self.stages)

    def title(self, measure: str) -> str:
        """As a table heads it."""
        return self.measures[measure].title if measure in self.measures else measure

    def worded(self, measure: str, value: Folded) -> str:
        """With its unit."""
        return worded(self.measures.get(measure, Measure(measure)), value)


def read_modifiers(folder: RunFolder, summary: Summary) -> list[ModifierRecord]:
    """Every modifier, in the order in which stages name them."""
    if not any(stage.modifiers for stage in summary.stages):
        return []
    plan = read_if_whole(folder.plan, PlanRecord) or PlanRecord(workflow="")
    planned = {(stage.id, one.name): one for stage in plan.stages for one in stage.modifiers}
    stages: dict[str, list[tuple[StageRecord, MeasuredStage]]] = {}
    measures: dict[str, Mapping[str, Measure]] = {}
    for stage in summary.stages:
        for found in stage.modifiers:
            stages.setdefault(found.name, []).append((stage, found))
            if (stage.id, found.name) in planned:
                measures[found.name] = planned[stage.id, found.name].measures
    together: dict[str, list[tuple[tuple[str, ...], MeasuredStage]]] = {}
    for group in summary.compiled:
        for found in group.modifiers:
            together.setdefault(found.name, []).append((group.stages, found))
    return [
        ModifierRecord(
            name, measures.get(name, {}), tuple(uses), tuple(together.get(name, ())), files=_files(folder, name)
        )
        for name, uses in stages.items()
    ]


def _files(folder: RunFolder, modifier: str) -> tuple[str, ...]:
    own = folder.modifiers / modifier
    found = [path for path in own.rglob("*") if path.is_file()]
    found.sort(key=lambda path: (len(path.relative_to(own).parts), path))
    return tuple(path.relative_to(folder.path).as_posix() for path in found)


def worded(measure: Measure, value: Folded) -> str:
    """`3.2 s`, `210 MB`, `1,234`, `float32 (12), float64 (1)`."""
    if isinstance(value, dict):
        only = len(value) == 1
        return ", ".join(word if only else f"{word} ({count:,})" for word, count in value.items())
    if measure.unit == "seconds":
        return format_seconds(value)
    if measure.unit == "bytes":
        return format_bytes(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
