"""This file decides which columns are alive where: so that nothing else is read, kept, or sent to another pool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cenote import errors
from cenote.errors import Problem
from cenote.language.workflow import Workflow
from cenote.operations.interface import Scope
from cenote.plan.resolve import SOURCE, Flavour, Resolved, ResolvedStage


@dataclass(frozen=True)
class ColumnFlow:
    """What is alive, over all flavours."""

    live: Mapping[str, frozenset[str]]
    """Stage → columns that somebody reads after it."""
    needed: Mapping[tuple[int, str], frozenset[str]]
    """(flavour, stage) → columns that must come in: what it reads, and what others read after it."""
    inputs: Mapping[tuple[int, str], tuple[str, ...]]
    """(flavour, stage) → the stages its events really come from (`SOURCE` for the files): stages that do not
    apply, or that see all data at once, let events pass by."""
    problems: tuple[Problem, ...] = ()


@dataclass
class _Walk:
    """The backward walk over the stages of one flavour."""

    workflow: Workflow
    resolved: Resolved
    number: int
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    read_after: dict[str, set[str]] = field(default_factory=dict)
    needed: dict[str, frozenset[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def flavour(self) -> Flavour:
        return self.resolved.flavours[self.number]

    def run(self) -> None:
        by_id = {stage.id: stage for stage in self.resolved.stages}
        for stage in self.resolved.stages:
            self.inputs[stage.id] = self._effective_inputs(stage, by_id)
            self.read_after[stage.id] = set()
        for stage in reversed(self.resolved.stages):
            if stage.id in self.flavour.applies:
                self._add(stage)

    def _effective_inputs(self, stage: ResolvedStage, by_id: Mapping[str, ResolvedStage]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for need in stage.stage.needs:
            carries = need in self.flavour.applies and need in by_id and by_id[need].scope is Scope.PARTITION
            found.update(dict.fromkeys((need,) if carries else self.inputs.get(need, (SOURCE,))))
        return tuple(found) or (SOURCE,)

    def _add(self, stage: ResolvedStage) -> None:
        columns = self.resolved.available.get((self.number, stage.id))
        after = self.read_after[stage.id]
        if any(entry.keep is None for entry in stage.stage.write):
            after.update(columns or ())
        for entry in stage.stage.write:
            after.update(entry.keep or ())
        passing = set() if stage.scope is not Scope.PARTITION else after - set(stage.adds)
        needed = frozenset(passing | self._own_reads(stage))
        self.needed[stage.id] = needed
        for name in self.inputs[stage.id]:
            if name != SOURCE:
                self.read_after[name].update(needed)
        if len(self.inputs[stage.id]) > 1:
            self._check_clash(stage, needed)

    def _own_reads(self, stage: ResolvedStage) -> set[str]:
        """What it reads, without what other flavours' files have and this one's do not."""
        names: set[str] = set()
        for source in self.inputs[stage.id]:
            after = self.resolved.available.get((self.number, source))
            columns = self.flavour.columns.get(stage.root) if source == SOURCE else after
            if columns is None:
                return set(stage.reads)
            names.update(name for name in stage.reads if name in columns)
        return names

    def _check_clash(self, stage: ResolvedStage, needed: frozenset[str]) -> None:
        definers: dict[str, set[str]] = {}
        for source in self.inputs[stage.id]:
            columns = self.resolved.available.get((self.number, source))
            for name in needed & columns.keys() if columns is not None else ():
                definers.setdefault(name, set()).add(columns[name] if columns is not None else "")
        for name, stages in definers.items():
            if len(stages) > 1:
                written = sorted(stage or "the files" for stage in stages)
                self.problems.append(
                    Problem(
                        errors.COLUMN_CLASH,
                        f"stage '{stage.id}' joins branches that hold different columns '{name}'",
                        place=self.workflow.place(*stage.stage.path, "needs"),
                        details=(f"defined by: {', '.join(written)}",),
                        hint="give one of them another name",
                    )
                )


def column_flow(workflow: Workflow, resolved: Resolved) -> ColumnFlow:
    """Walk the stages backwards, once per flavour."""
    live: dict[str, set[str]] = {stage.id: set() for stage in resolved.stages}
    needed: dict[tuple[int, str], frozenset[str]] = {}
    inputs: dict[tuple[int, str], tuple[str, ...]] = {}
    problems: list[Problem] = []
    for number in range(len(resolved.flavours)):
        walk = _Walk(workflow, resolved, number)
        walk.run()
        for stage in resolved.stages:
            live[stage.id] |= walk.read_after[stage.id]
            inputs[number, stage.id] = walk.inputs[stage.id]
        needed.update({(number, stage): columns for stage, columns in walk.needed.items()})
        problems.extend(walk.problems)
    return ColumnFlow(
        live={stage: frozenset(columns) for stage, columns in live.items()},
        needed=needed,
        inputs=inputs,
        problems=tuple(problems),
    )
