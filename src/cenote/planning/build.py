"""Build the plan: ask every other part of planning in turn and put their answers together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from cenote.analysis.sources.interface import FileInfo
from cenote.common.errors import UNKNOWN_OPERATION, UNKNOWN_PLUGIN, CenoteError, Problem
from cenote.common.machine import Machine
from cenote.common.values import dataclass
from cenote.language.availability import unavailable
from cenote.language.plugins import own_files
from cenote.language.plugins.resources import ResourceFile
from cenote.language.workflow import Workflow
from cenote.planning.fingerprint import digest_of
from cenote.planning.identity import lineages, segment_digest
from cenote.planning.inputs.look import Inputs, Look, Unreadable, look_at_inputs, nothing_to_read
from cenote.planning.inputs.metadata import InputsProgress
from cenote.planning.inputs.missing_branches import (
    Columns,
    Lacking,
    filled_in,
    known_columns,
    only_listed,
    unknown_branches,
    what_is_lacking,
    with_asked_for,
    with_leaves,
    with_whole_names,
)
from cenote.planning.outputs.rules import output_clashes, renders_of
from cenote.planning.placement.place import place
from cenote.planning.placement.pools import Placement
from cenote.planning.plan import UNREADABLE, Partition, Plan, ProductPlan, Segment, SkippedFile, StageSummary, maker_of
from cenote.planning.stages.columns import ColumnFlow, column_flow, missing_software
from cenote.planning.stages.condition_types import no_conditions
from cenote.planning.stages.drawable import drawn_once, nan_shown_as_overflow, snapshots, undrawable
from cenote.planning.stages.resolve import Resolved, dataset_infos, flavours_of, resolve_stages
from cenote.planning.stages.selection import misfits, select
from cenote.planning.stages.variations import expand, with_replaced_datasets, without_stages
from cenote.planning.tasks.partitions import make_partitions, missing_columns
from cenote.planning.tasks.segments import make_segments
from cenote.planning.tasks.tasks import lay_out


@dataclass(frozen=True)
class PlanRequest:
    """What is asked of a plan beside what the file says."""

    until: tuple[str, ...] = ()
    """Stages that it ends with."""
    only: tuple[str, ...] = ()
    """Stages for whose results it is."""
    strict: bool = False
    """Whether hardware that this machine lacks is an error."""
    keep_going: bool = False
    """Whether files that are bad fail later, on their own."""
    unreadable: Unreadable = field(default_factory=dict)
    """Files that an earlier attempt could not read: their datasets do without them, or there is no plan."""
    progress: InputsProgress | None = None
    """Hears how many files have been looked at, of how many."""

    def without(self, unreadable: Unreadable) -> PlanRequest:
        """The same, once these files are known."""
        return replace(self, unreadable=unreadable)


_AS_WRITTEN = PlanRequest()


@dataclass(frozen=True)
class Analysed:
    """A workflow whose stages are resolved against its data."""

    workflow: Workflow
    """With the stages that variations add."""
    placement: Placement
    inputs: Inputs
    resolved: Resolved
    flow: ColumnFlow
    lacking: Lacking
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]


def analyse(
    workflow: Workflow,
    machine: Machine,
    look: Look,
    request: PlanRequest = _AS_WRITTEN,
) -> Analysed:
    """Everything that can be found wrong with a workflow, at once. Whatever passes here has a plan."""
    later, left_out = unavailable(workflow)
    workflow, inputs, resolved, unvaried = _read(workflow, look, request)
    placement = place(workflow, machine, strict=request.strict)
    flow = column_flow(workflow, resolved)
    lacking = what_is_lacking(workflow, inputs)
    no_data = [nothing_to_read(workflow)] if not workflow.datasets and look is not Look.NONE else []
    return Analysed(
        workflow=workflow,
        placement=placement,
        inputs=inputs,
        resolved=resolved,
        flow=flow,
        lacking=lacking,
        problems=(
            *later,
            *placement.problems,
            *no_data,
            *inputs.problems,
            *resolved.problems,
            *unvaried,
            *missing_software(workflow, resolved, placement),
            *misfits(workflow, resolved),
            *flow.problems,
            *lacking.problems,
            *_result_problems(workflow, inputs, resolved),
        ),
        warnings=(
            *placement.warnings,
            *inputs.warnings,
            *lacking.warnings,
            *resolved.warnings,
            *drawn_once(resolved.stages),
            *nan_shown_as_overflow(resolved.stages),
            *left_out,
        ),
    )


def stage_problems(workflow: Workflow, look: Look) -> list[Problem]:
    """What is wrong with the stages of a workflow that has other faults already: pools are not looked at."""
    later, _ = unavailable(workflow)
    workflow, inputs, resolved, unvaried = _read(workflow, look)
    results = _result_problems(workflow, inputs, resolved)
    found = [*later, *inputs.problems, *inputs.unreadable(), *resolved.problems, *unvaried, *results]
    # Names that are not there were reported when the file was read, or are a broken plugin's.
    return [problem for problem in found if problem.kind not in (UNKNOWN_OPERATION, UNKNOWN_PLUGIN)]


def _read(
    workflow: Workflow, look: Look, request: PlanRequest = _AS_WRITTEN
) -> tuple[Workflow, Inputs, Resolved, Sequence[Problem]]:
    """The workflow with what its variations add, its inputs, its stages; and what is wrong with branches and
    variations."""
    workflow = with_replaced_datasets(workflow)
    inputs = look_at_inputs(workflow, look, progress=request.progress, unreadable=request.unreadable)
    workflow, wrong = with_whole_names(workflow, inputs)
    wrong += unknown_branches(workflow, inputs)
    workflow, resolved = _resolved(workflow, inputs)
    if workflow.systematics is None:
        return workflow, inputs, resolved, wrong
    expanded = expand(workflow, resolved)
    exported = {name for one in workflow.systematics.variations for name in one.export}
    if (resolved.problems and not exported) or expanded.problems:  # what is exported is not there without variations
        return workflow, inputs, resolved, [*wrong, *expanded.problems]
    varied, resolved = _resolved(expanded.workflow, inputs)
    if unused := column_flow(varied, resolved).unused:
        varied, resolved = _resolved(without_stages(varied, unused), inputs)
    return varied, inputs, replace(resolved, warnings=(*resolved.warnings, *expanded.warnings)), wrong


def _resolved(workflow: Workflow, inputs: Inputs) -> tuple[Workflow, Resolved]:
    """The stages; they see what `branches` lists and, of what else files have, only what they ask for by name."""
    refused = inputs.refused()

    def resolve(columns: Columns) -> Resolved:
        return resolve_stages(workflow, flavours_of(workflow, columns), refused)

    everything = known_columns(workflow, inputs)
    columns = only_listed(workflow, inputs, everything)
    resolved = resolve(columns)
    while (wider := with_asked_for(columns, everything, resolved.unknown)) is not None:
        columns, resolved = wider, resolve(wider)
    if resolved.problems and columns != everything:  # an operation may look what there is before it asks
        resolved = resolve(everything)
    named = with_leaves(workflow, inputs, resolved.unknown) if resolved.unknown else None
    return (workflow, resolved) if named is None else _resolved(named, inputs)


def _result_problems(workflow: Workflow, inputs: Inputs, resolved: Resolved) -> list[Problem]:
    """What is wrong with stages whose columns are known."""
    return [
        *no_conditions(workflow, resolved, inputs),
        *undrawable(workflow, resolved.stages),
        *output_clashes(workflow, resolved),
    ]


def build_plan(workflow: Workflow, machine: Machine, request: PlanRequest = _AS_WRITTEN) -> Plan:
    """The plan, or every reason why there is none."""
    workflow = select(workflow, until=request.until, only=request.only)
    analysed = analyse(workflow, machine, Look.EVERY, request)
    bad, workflow = analysed.inputs.unreadable(), analysed.workflow
    if analysed.problems or (bad and not request.keep_going):
        raise CenoteError([*analysed.problems, *bad])
    fills = analysed.lacking.fills
    segments = make_segments(workflow, analysed.resolved, analysed.flow, analysed.placement, fills=fills)
    filled = _filled(workflow, segments)
    missing = _missing_columns(workflow, segments, analysed.inputs, filled)
    if missing and not request.keep_going:
        raise CenoteError(missing)
    partitions = _partitions(workflow, segments, analysed.inputs, filled)
    notes = [problem.message for problem in (*(file.problem for file in analysed.inputs.bad), *missing)]
    notes += filled_in(analysed.inputs, fills, _source_columns(segments))
    datasets = dataset_infos(workflow)
    lineage, made_of = lineages(workflow, segments, analysed.resolved, analysed.flow, datasets)
    table, layout, ids, results = lay_out(segments, partitions, datasets, analysed.resolved, analysed.flow, lineage)
    return Plan(
        workflow=workflow,
        placement=analysed.placement,
        datasets=datasets,
        partitions=tuple(partitions),
        segments=tuple(replace(segment, digest=segment_digest(segment, lineage)) for segment in segments),
        tasks=table,
        layout=layout,
        ids=ids,
        made_of=made_of,
        products=_products(workflow, segments, analysed.resolved, results),
        stages=_summaries(workflow, segments, analysed.resolved, [len(runs) for runs in layout.runs]),
        limits=workflow.execution.limits,
        warnings=tuple(dict.fromkeys([*analysed.warnings, *notes])),
        digest=digest_of(table.keys.hex()),
        resources=_resources(workflow, analysed.resolved),
        snapshots=snapshots(workflow, analysed.resolved, analysed.inputs),
        skipped=tuple(
            SkippedFile(file.dataset, file.url, file.problem.message, file.events) for file in analysed.inputs.skipped
        ),
    )


def _resources(workflow: Workflow, resolved: Resolved) -> tuple[ResourceFile, ...]:
    declared = [file for stage in resolved.stages for file in stage.files]
    return tuple(dict.fromkeys([*own_files.resources_of(plugin.target for plugin in workflow.plugins), *declared]))


def _source_columns(segments: Sequence[Segment]) -> dict[tuple[str, str], list[str]]:
    """(dataset, source) → the names in the files that any segment reads."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for segment in segments:
        if segment.source is not None:
            for dataset, names in segment.source.columns.items():
                renames = segment.source.renames
                in_file = dict.fromkeys(renames.get(name, name) for name in names)
                found.setdefault((dataset, segment.source.id), {}).update(in_file)
    return {key: list(names) for key, names in found.items()}


def _filled(workflow: Workflow, segments: Sequence[Segment]) -> dict[str, list[str]]:
    """Source → the names in the files that may be missing there."""
    found: dict[str, dict[str, None]] = {use.id: {} for use in workflow.sources}
    for segment in segments:
        if segment.source is not None:
            found[segment.source.id].update(dict.fromkeys(segment.source.fills))
    return {source: list(names) for source, names in found.items()}


def _missing_columns(
    workflow: Workflow, segments: Sequence[Segment], inputs: Inputs, filled: Mapping[str, Sequence[str]]
) -> list[Problem]:
    paths = {dataset.name: dataset.path for dataset in workflow.datasets}
    return [
        problem.at(workflow.place(*paths[dataset], "files"))
        for (dataset, source), names in _source_columns(segments).items()
        for problem in missing_columns(
            inputs.infos.get((dataset, source), ()), [name for name in names if name not in filled[source]]
        )
    ]


def _partitions(
    workflow: Workflow, segments: Sequence[Segment], inputs: Inputs, filled: Mapping[str, Sequence[str]]
) -> list[Partition]:
    columns = _source_columns(segments)
    used = {segment.root for segment in segments}
    bad = {(file.dataset, file.source, file.url) for file in inputs.bad}
    partitions: list[Partition] = []
    for use in workflow.sources:
        for dataset in workflow.datasets if use.id in used else ():
            infos: Sequence[FileInfo] = inputs.infos.get((dataset.name, use.id), ())
            partitions += make_partitions(
                infos,
                columns.get((dataset.name, use.id), []),
                dataset=dataset.name,
                source=use.id,
                chunk_size=use.chunk_size,
                start=use.start,
                stop=use.stop,
                most=dataset.limit[1] if dataset.limit else None,
                filled=filled[use.id],
            )
            partitions += [
                Partition(d, s, url, 0, 0, UNREADABLE) for d, s, url in bad if (d, s) == (dataset.name, use.id)
            ]
    return partitions


def _products(
    workflow: Workflow, segments: Sequence[Segment], resolved: Resolved, results: Mapping[str, int]
) -> tuple[ProductPlan, ...]:
    stages = {stage.id: stage for stage in resolved.stages}
    found = [
        ProductPlan(
            name=name,
            stage=maker_of(name),
            kind=kind,
            task=results[name],
            renders=renders_of(workflow, stages[name], kind) if name in stages else (),
        )
        for segment in segments
        for name, kind in segment.merged.items()
        if name in results and maker_of(name) not in workflow.helpers
    ]
    order = {stage.id: number for number, stage in enumerate(resolved.stages)}
    return tuple(sorted(found, key=lambda product: order[product.stage]))


def _summaries(
    workflow: Workflow, segments: Sequence[Segment], resolved: Resolved, tasks: Sequence[int]
) -> tuple[StageSummary, ...]:
    segment_of = {stage: segment.index for segment in segments for stage in segment.stages}
    steps = {step.stage: step for segment in segments for step in segment.steps}
    by_id = {stage.id: stage for stage in resolved.stages}
    return tuple(
        StageSummary(
            stage=stage.id,
            op=stage.op,
            segment=segment_of[stage.id],
            tasks=tasks[segment_of[stage.id]],
            reads=by_id[stage.id].reads,
            adds=by_id[stage.id].adds,
            modifiers=steps[stage.id].modifiers,
            not_compiled=steps[stage.id].not_compiled,
            variation_of=stage.varied.stage if stage.varied else "",
            variation=stage.varied.variation if stage.varied else "",
        )
        for stage in workflow.stages
    )
