"""Fuse stages into segments: neighbours on the same pool run in one task and pass data in memory."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cenote.language.workflow import SourceUse, Workflow
from cenote.operations.interface import Scope
from cenote.placement.pools import Placement
from cenote.placement.resources import most_of_each
from cenote.plan.fingerprint import digest_of, segment_digest
from cenote.plan.plan import Fill, Segment, SourceStep, Step, WriteStep
from cenote.plan.stages.columns import ColumnFlow
from cenote.plan.stages.resolve import SOURCE, Resolved, ResolvedStage, same_settings
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sources.interface import find_column
from cenote.text import first_to_last


@dataclass(frozen=True)
class _Kind:
    """Stages fuse only with their like."""

    pools: tuple[str, ...]
    shared: bool
    scope: Scope
    root: str


def group_stages(stages: Sequence[ResolvedStage], placement: Placement) -> list[list[ResolvedStage]]:
    """Stages that run together, groups in an order in which needs come first.

    A stage's depth counts the changes of kind on the longest way to it, so equal depths cannot depend on each
    other through another segment. Of those, stages fuse that are neighbours, or that wait for the same things.
    """
    kinds = {s.id: _kind(s, placement) for s in stages}
    depth: dict[str, int] = {}
    for stage in stages:
        depth[stage.id] = max(
            (depth[need] + (kinds[need] != kinds[stage.id]) for need in stage.stage.needs if need in depth), default=0
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


def _kind(stage: ResolvedStage, placement: Placement) -> _Kind:
    placed = placement.by_stage[stage.id]
    return _Kind(placed.pools, placed.shared, stage.scope, stage.root)


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
    groups = group_stages(resolved.stages, placement)
    home = {stage.id: number for number, group in enumerate(groups) for stage in group}
    crossing = _crossing(resolved, flow, home)
    sources = {source.id: source for source in workflow.sources}
    return [
        _segment(number, group, workflow, resolved, flow, placement, crossing, sources, fills or {})
        for number, group in enumerate(groups)
    ]


def _crossing(resolved: Resolved, flow: ColumnFlow, home: Mapping[str, int]) -> dict[str, set[str]]:
    """Stage → the columns that leave its segment with its events."""
    crossing: dict[str, set[str]] = {}
    for (number, stage), inputs in flow.inputs.items():
        needed = flow.needed.get((number, stage))
        if needed is None:
            continue
        for name in inputs:
            if name != SOURCE and home[name] != home[stage]:
                available = resolved.available.get((number, name))
                crossing.setdefault(name, set()).update(needed if available is None else needed & available.keys())
    return crossing


def _segment(
    number: int,
    group: list[ResolvedStage],
    workflow: Workflow,
    resolved: Resolved,
    flow: ColumnFlow,
    placement: Placement,
    crossing: Mapping[str, set[str]],
    sources: Mapping[str, SourceUse],
    fills: Mapping[str, Mapping[str, Fill]],
) -> Segment:
    by_id = {stage.id: stage for stage in resolved.stages}
    steps = tuple(_step(stage, workflow, resolved, flow, by_id) for stage in group)
    members = {stage.id for stage in group}
    imports = dict.fromkeys(name for stage in group for name in stage.stage.needs if name not in members)
    exports = {s.id: tuple(sorted(crossing[s.id])) for s in group if s.id in crossing}
    source = _source_step(group, workflow, resolved, flow, sources.get(group[0].root), fills.get(group[0].root, {}))
    placed = placement.by_stage[group[0].id]
    digest = segment_digest(
        [(step, code_of(step, stage, workflow)) for step, stage in zip(steps, group, strict=True)],
        source,
        exports,
        code="" if source is None else _code(PluginKind.SOURCE, source.kind),
        constants=workflow.constants,
        datasets=[dataset.name for dataset in workflow.datasets],
    )
    return Segment(
        index=number,
        name=first_to_last([stage.id for stage in group]),
        steps=steps,
        scope=group[0].scope.value,
        pools=placed.pools,
        shared=placed.shared,
        source=source,
        root=group[0].root,
        imports=tuple(imports),
        exports=exports,
        digest=digest,
        amounts=most_of_each([stage.stage.requirement.amounts for stage in group]),
    )


def code_of(step: Step, stage: ResolvedStage, workflow: Workflow) -> list[list[str]]:
    """What a step does, apart from its settings: the code of all plugins that take part, and files."""
    own_modifiers = [(name, settings) for name, settings in step.modifiers if _code(PluginKind.MODIFIER, name)]
    return [
        ["operation", stage.operation.fingerprint, _code(PluginKind.OPERATION, step.op)],
        ["product", _code(PluginKind.PRODUCT, step.product or "")],
        *(["sink", _code(PluginKind.SINK, write.kind)] for write in step.writes),
        *(
            ["modifier", name, digest_of(settings), _code(PluginKind.MODIFIER, name)]
            for name, settings in own_modifiers
        ),
        *(["file", os.path.relpath(file.path, workflow.folder), file.digest] for file in stage.files),
    ]


def _code(kind: PluginKind, name: str) -> str:
    return registry.code_digest(kind, name)


def _step(
    stage: ResolvedStage,
    workflow: Workflow,
    resolved: Resolved,
    flow: ColumnFlow,
    by_id: Mapping[str, ResolvedStage],
) -> Step:
    requirement = stage.stage.requirement
    return Step(
        stage=stage.id,
        op=stage.stage.op,
        **_params(stage, resolved),
        inputs=stage.inputs,
        live=tuple(sorted(flow.live[stage.id])),
        reads=stage.reads,
        adds=stage.adds,
        product=stage.operation.product,
        datasets=stage.datasets,
        needs_products=tuple(
            need
            for need in stage.stage.needs
            if need in by_id and by_id[need].scope is not Scope.PARTITION and by_id[need].operation.product
        ),
        modifiers=tuple((m.name, m.settings) for m in (*workflow.execution.modifiers, *requirement.modifiers)),
        writes=tuple(_write_step(stage, number) for number in range(len(stage.stage.write))),
        timeout=requirement.timeout,
        retries=requirement.retries,
    )


def _params(stage: ResolvedStage, resolved: Resolved) -> dict[str, Any]:
    """`params`, and `own_params` of datasets whose columns give the operation other settings."""
    usual = next(iter(stage.applied.values()), None)
    own = {
        n: applied.params()
        for n, applied in stage.applied.items()
        if usual and not same_settings(applied.operation, usual.operation)
    }
    return {
        "params": usual.params() if usual else {},
        "own_params": {dataset: own[n] for n in own for dataset in resolved.flavours[n].datasets},
    }


def _write_step(stage: ResolvedStage, number: int) -> WriteStep:
    entry = stage.stage.write[number]
    return WriteStep(
        kind=entry.kind,
        settings=dict(entry.settings),
        path_template=entry.path_template,
        per_dataset=entry.per_dataset,
        keep=tuple(dict.fromkeys(name for applied in stage.applied.values() for name in applied.writes[number])),
    )


def _source_step(
    group: list[ResolvedStage],
    workflow: Workflow,
    resolved: Resolved,
    flow: ColumnFlow,
    use: SourceUse | None,
    fills: Mapping[str, Fill],
) -> SourceStep | None:
    columns: dict[str, tuple[str, ...]] = {}
    for number, flavour in enumerate(resolved.flavours):
        readers = [s.id for s in group if s.id in flavour.applies and SOURCE in flow.inputs.get((number, s.id), ())]
        if not readers:
            continue
        there = flavour.columns.get(group[0].root)
        wanted = set().union(*(flow.needed.get((number, reader), frozenset()) for reader in readers))
        names = tuple(sorted(name for name in wanted if there is None or name in there))
        columns.update(dict.fromkeys(flavour.datasets, names))
    if not columns or use is None:
        return None
    renames = {field.alias: field.branch for field in workflow.fields}
    in_file = dict.fromkeys(renames.get(name, name) for names in columns.values() for name in names)
    standing_in = {name: fills[known] for name in in_file if (known := find_column(name, fills)) is not None}
    return SourceStep(
        id=use.id, kind=use.kind, settings=use.settings, columns=columns, renames=renames, fills=standing_in
    )
