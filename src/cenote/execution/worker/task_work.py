"""What one task has found so far, and how the findings of its pieces are added up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cenote.analysis.modifiers.support.measures import KeptWarnings, Measured, joined
from cenote.engine.messages import GroupStats, KeptStats, StageStats
from cenote.execution.worker.process.memory import TaskMemory
from cenote.execution.worker.results.bundle import Exchange
from cenote.execution.worker.task_spec import TaskSpec, TimeLimit
from cenote.planning.plan import Segment, Step

OnStep = Callable[[str, TimeLimit | None], None]
"""Told of the stage that begins, and of how long it may take; an empty stage says that the task is over."""


@dataclass
class TaskWork:
    """What one task has found so far."""

    spec: TaskSpec
    segment: Segment
    exchange: Exchange
    on_step: OnStep
    memory: TaskMemory
    began: float
    stats: dict[str, StageStats] = field(default_factory=dict)
    groups: list[GroupStats] = field(default_factory=list)
    products: dict[str, Any] = field(default_factory=dict)
    events: int = 0
    bytes_read: int = 0
    bytes_out: int = 0
    warnings: KeptWarnings = field(default_factory=KeptWarnings)
    files: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Modifier → what it keeps for later stages."""
    kept_for_later: dict[str, KeptStats] = field(default_factory=dict)
    """What is kept for later runs, and what was read that earlier ones kept."""
    spared: float = 0.0
    """Seconds that it took earlier runs to compute what was read."""

    def for_piece(self, exchange: Exchange) -> TaskWork:
        """For a piece of the partition, whose findings `add` takes up."""
        return replace(self, exchange=exchange, products={}, stats={}, groups=[], events=0, bytes_read=0, kept={})

    def add(self, parts: Iterable[TaskWork]) -> None:
        """What was read and measured of all pieces."""
        steps = {step.stage: step for step in self.segment.steps}
        groups: list[GroupStats] = []
        for part in parts:
            self.events += part.events
            self.bytes_read += part.bytes_read
            groups += part.groups
            for stage, stats in part.stats.items():
                before = self.stats.get(stage)
                self.stats[stage] = stats if before is None else _added(steps[stage], before, stats)
        self.groups += _groups_added(steps, groups)


def _added(step: Step, one: StageStats, other: StageStats) -> StageStats:
    """Of two pieces of a partition."""
    return StageStats(
        seconds=one.seconds + other.seconds,
        events_in=one.events_in + other.events_in,
        events_out=one.events_out + other.events_out,
        modifiers=_joined(step, one.modifiers, other.modifiers),
    )


def _joined(step: Step, one: Mapping[str, Measured], other: Mapping[str, Measured]) -> dict[str, Measured]:
    nothing = Measured()
    return {
        m.name: joined(m.measures, one.get(m.name, nothing), other.get(m.name, nothing))
        for m in step.modifiers
        if m.name in one or m.name in other
    }


def _groups_added(steps: Mapping[str, Step], groups: Iterable[GroupStats]) -> Iterator[GroupStats]:
    """Of all pieces of a partition, each group once."""
    found: dict[tuple[str, ...], Mapping[str, Measured]] = {}
    for group in groups:
        before = found.get(group.stages)
        found[group.stages] = (
            group.modifiers if before is None else _joined(steps[group.stages[0]], before, group.modifiers)
        )
    yield from (GroupStats(stages, dict(measured)) for stages, measured in found.items())
