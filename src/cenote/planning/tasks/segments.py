"""Fuse stages into segments: neighbours on the same pool run in one task and pass data in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from cenote.analysis.modifiers.interface import Effect, Modifier
from cenote.analysis.operations.interface import Operation, Scope
from cenote.analysis.sources.interface import find_column
from cenote.common.text import first_to_last
from cenote.common.values import dataclass
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.workflow import PluginUse, Workflow
from cenote.planning.placement.pools import Placement, largest, most_of_each
from cenote.planning.plan import Fill, PlannedModifier, Segment, SourceStep, Step, WriteStep
from cenote.planning.stages.columns import ColumnFlow, is_beside
from cenote.planning.stages.resolve import SOURCE, Resolved, ResolvedStage, same_settings
from cenote.planning.stages.selection import class_of, modifiers_of, why_not_compiled


@dataclass(frozen=True)
class _Kind:
    """Stages fuse only with their like."""

    pools: tuple[str, ...]
    shared: bool
    scope: Scope
    root: str


def group_stages(
    stages: Sequence[ResolvedStage], placement: Placement, kept: Collection[str] = ()
) -> list[list[ResolvedStage]]:
    """Stages that run together, groups in an order in which needs come first. What is `kept` ends its group: the
    events that leave it are stored.

    A stage's depth counts the changes of kind on the longest way to it, so equal depths cannot depend on each
    other through another segment. Of those, stages fuse that are neighbours, or that wait for the same things.
    """
    placed = placement.by_stage
    kinds = {s.id: _Kind(placed[s.id].pools, placed[s.id].shared, s.scope, s.root) for s in stages}
    depth: dict[str, int] = {}
    for stage in stages:
        depth[stage.id] = max(
            (
                depth[need] + (kinds[need] != kinds[stage.id] or need in kept)
                for need in stage.stage.needs
                if need in depth
            ),
            default=0,
        )
    leader: dict[str, str] = {stage.id: stage.id for stage in stages}
    waits: dict[str, frozenset[str]] = {}
    first_waiting: dict[tuple[_Kind, int, frozenset[str]], str] = {}
    for stage in stages:
        together = [n for n in stage.stage.needs if n in depth and _same(n, stage.id, kinds, depth)]
        apart = {_lead(leader, n) for n in stage.stage.needs if n in depth and n not in together}
        waits[stage.id] = frozenset(apart.union(*(waits[n] for n in together))) if together else frozenset(apart)
        for need in together:
            leader[_lead(leader, stage.id)] = _lead(leader, need)
        key = (kinds[stage.id], depth[stage.id], waits[stage.id])
        other = first_waiting.setdefault(key, stage.id)
        if stage.scope is Scope.PARTITION:
            leader[_lead(leader, stage.id)] = _lead(leader, other)
    groups: dict[str, list[ResolvedStage]] = {}
    for stage in stages:
        groups.setdefault(_lead(leader, stage.id), []).append(stage)
    return sorted(groups.values(), key=lambda group: depth[group[0].id])


def _same(one: str, other: str, kinds: Mapping[str, _Kind], depth: Mapping[str, int]) -> bool:
    alone = kinds[one].scope is not Scope.PARTITION
    return not alone and kinds[one] == kinds[other] and depth[one] == depth[other]


def _lead(leader: dict[str, str], stage: str) -> str:
    while leader[stage] != stage:
        leader[stage] = leader[leader[stage]]
        stage = leader[stage]
    return stage


def make_segments(
    workflow: Workflow,
    resolved: Resolved,
    flow: ColumnFlow,
    placement: Placement,
    *,
    fills: Mapping[str, Mapping[str, Fill]] | None = None,
) -> list[Segment]:
    """Every segment with what it reads, imports and exports; `fills` has for each source what files may lack."""
    modifiers = {stage.id: modifiers_of(stage, workflow) for stage in resolved.stages}
    kept = {
        stage.id
        for stage in resolved.stages
        if not is_beside(stage) and any(class_of(one).keeps_output for one in modifiers[stage.id])
    }
    groups = group_stages(resolved.stages, placement, kept)
    segment_of = {stage.id: number for number, group in enumerate(groups) for stage in group}
    crossing = _crossing(resolved, flow, segment_of)
    work = _Fusing(workflow, resolved, flow, placement, fills or {}, crossing, modifiers, kept)
    return [work.segment(number, group) for number, group in enumerate(groups)]


def _crossing(resolved: Resolved, flow: ColumnFlow, segment_of: Mapping[str, int]) -> dict[str, set[str]]:
    """Stage → the columns that leave its segment with its events."""
    crossing: dict[str, set[str]] = {}
    for (number, stage), inputs in flow.inputs.items():
        needed = flow.needed.get((number, stage))
        if needed is None:
            continue
        for name in inputs:
            if name != SOURCE and segment_of[name] != segment_of[stage]:
                available = resolved.available.get((number, name))
                crossing.setdefault(name, set()).update(needed if available is None else needed & available.keys())
    return crossing


@dataclass(frozen=True)
class _Fusing:
    """Makes segments of groups of stages."""

    workflow: Workflow
    resolved: Resolved
    flow: ColumnFlow
    placement: Placement
    fills: Mapping[str, Mapping[str, Fill]]
    crossing: Mapping[str, set[str]]
    modifiers: Mapping[str, Sequence[PluginUse]]
    """Stage → what is around it."""
    kept: Collection[str]
    """Stages whose events are stored for later runs."""

    @cached_property
    def stages(self) -> dict[str, ResolvedStage]:
        return {stage.id: stage for stage in self.resolved.stages}

    def segment(self, number: int, group: list[ResolvedStage]) -> Segment:
        steps = tuple(self._step(stage) for stage in group)
        members = {stage.id for stage in group}
        imports = dict.fromkeys(name for stage in group for name in stage.stage.needs if name not in members)
        exports = {s.id: tuple(sorted(self.crossing[s.id])) for s in group if s.id in self.crossing}
        source = self._source_step(group)
        placed = self.placement.by_stage[group[0].id]
        asked = [stage.stage.requirement.amounts for stage in group]
        return Segment(
            index=number,
            name=first_to_last(list(dict.fromkeys(s.stage.varied.stage if s.stage.varied else s.id for s in group))),
            steps=steps,
            scope=group[0].scope.value,
            pools=placed.pools,
            shared=placed.shared,
            source=source,
            root=group[0].root,
            imports=tuple(imports),
            exports=exports,
            amounts=most_of_each(asked),
            room=largest(asked),
            kept=any(stage in self.kept for stage in exports),
        )

    def _step(self, stage: ResolvedStage) -> Step:
        requirement = stage.stage.requirement
        needed = [self.stages[need] for need in stage.stage.needs if need in self.stages]
        usual = next(iter(stage.applied.values()), None)
        passes = self._passes_events(stage)
        not_compiled = why_not_compiled(stage, self.modifiers[stage.id])
        return Step(
            stage=stage.id,
            op=stage.stage.op,
            params=usual.params() if usual else {},
            own_params=self._own_params(stage, usual.operation) if usual else {},
            inputs=stage.inputs,
            live=tuple(sorted(self.flow.live[stage.id])),
            reads=stage.reads,
            adds=stage.adds,
            product=stage.product,
            varied=stage.stage.varied,
            fillings=stage.stage.fillings,
            datasets=stage.datasets,
            needs_products=tuple(s.id for s in needed if s.scope is not Scope.PARTITION and s.product),
            modifiers=tuple(_planned(modifier) for modifier in self.modifiers[stage.id]),
            copies=_copies(stage),
            passes_events=passes,
            writes=tuple(_write_step(stage, number) for number in range(len(stage.stage.write))),
            timeout=requirement.timeout,
            retries=requirement.retries,
            not_compiled=not_compiled,
            for_later=self._for_later(stage) if not_compiled and (stage.adds or not passes) else None,
        )

    def _passes_events(self, stage: ResolvedStage) -> bool:
        keeps = all(applied.operation.keeps_every_event() for applied in stage.applied.values())
        return keeps and not self._is_changed(stage)

    def _for_later(self, stage: ResolvedStage) -> tuple[str, ...] | None:
        """Of copies those that something reads: others are not made."""
        if stage.scope is not Scope.PARTITION or self._is_changed(stage):
            return None
        copies, live = _copies(stage), self.flow.live[stage.id]
        return tuple(name for name in stage.adds if name not in copies or name in live)

    def _is_changed(self, stage: ResolvedStage) -> bool:
        """Whether a modifier may do to its events what it does not say."""
        return any(class_of(one).effect is Effect.CHANGES for one in self.modifiers[stage.id])

    def _own_params(self, stage: ResolvedStage, usual: Operation) -> dict[str, dict[str, Any]]:
        """Dataset → its params, where its columns give the operation other settings than usual."""
        found: dict[str, dict[str, Any]] = {}
        for number, applied in stage.applied.items():
            if not same_settings(applied.operation, usual):
                found.update(dict.fromkeys(self.resolved.flavours[number].datasets, applied.params()))
        return found

    def _source_step(self, group: list[ResolvedStage]) -> SourceStep | None:
        root, flow = group[0].root, self.flow
        columns: dict[str, tuple[str, ...]] = {}
        for number, flavour in enumerate(self.resolved.flavours):
            readers = [s.id for s in group if s.id in flavour.applies and SOURCE in flow.inputs.get((number, s.id), ())]
            if not readers:
                continue
            there = flavour.columns.get(root)
            wanted = set().union(*(flow.needed.get((number, reader), frozenset()) for reader in readers))
            names = tuple(sorted(name for name in wanted if there is None or name in there))
            columns.update(dict.fromkeys(flavour.datasets, names))
        use = next((source for source in self.workflow.sources if source.id == root), None)
        if not columns or use is None:
            return None
        renames = {field.alias: field.branch for field in self.workflow.fields}
        in_file = dict.fromkeys(renames.get(name, name) for names in columns.values() for name in names)
        lacking = self.fills.get(root, {})
        fills = {name: lacking[known] for name in in_file if (known := find_column(name, lacking)) is not None}
        return SourceStep(
            id=use.id, kind=use.kind, settings=use.settings, columns=columns, renames=renames, fills=fills
        )


def _copies(stage: ResolvedStage) -> dict[str, str]:
    return {name: other for applied in stage.applied.values() for name, other in applied.operation.copies().items()}


def _planned(modifier: PluginUse) -> PlannedModifier:
    made: Modifier = registry.make(PluginKind.MODIFIER, modifier.name, modifier.settings)
    return PlannedModifier(
        modifier.name,
        modifier.settings,
        effect=made.effect.value,
        measures=made.measures,
        limits_time=made.limits_time,
        keeps_output=made.keeps_output,
        shares_process=made.shares_process,
    )


def _write_step(stage: ResolvedStage, number: int) -> WriteStep:
    entry = stage.stage.write[number]
    return WriteStep(
        kind=entry.kind,
        settings=dict(entry.settings),
        path_template=entry.path_template,
        per_dataset=entry.per_dataset,
        per_run=entry.per_run,
        keep=tuple(dict.fromkeys(name for applied in stage.applied.values() for name in applied.writes[number])),
    )
