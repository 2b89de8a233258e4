"""The plugins of a run in this process, each built and prepared once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cenote.analysis.modifiers.interface import Following, Modifier
from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.support.varied import as_varied
from cenote.analysis.products.interface import Product
from cenote.analysis.sources.interface import Source
from cenote.execution.worker.compiled_group import CompiledGroup, Group
from cenote.execution.worker.process.warm_processes import used_plugins
from cenote.execution.worker.task_spec import RunSpec, TaskSpec
from cenote.language.plugins import registry, resources
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.shipped import bring_along, extend_path
from cenote.planning.plan import FusedSteps, Segment, Step


class RunPlugins:
    """Sources, operations, modifiers and products of a run, for tasks in several threads."""

    def __init__(self, run_spec: RunSpec) -> None:
        self._preparing = threading.Lock()
        self._loading = threading.Lock()
        self._grouping = threading.Lock()
        self._sources: dict[int, Source] = {}
        self._operations: dict[tuple[int, str, str], Operation] = {}
        self._modifiers: dict[tuple[int, str], dict[str, Modifier]] = {}
        self._followers: dict[tuple[int, str, str, str], Following | None] = {}
        self._groups: dict[tuple[int, str, str], list[CompiledGroup]] = {}
        self._parts: dict[tuple[int, str, frozenset[str], frozenset[str], frozenset[str]], Segment] = {}
        self._segments = run_spec.segments
        resources.serve(run_spec.resources, run_spec.workflow, run_spec.folder)
        extend_path(run_spec.path)
        bring_along(run_spec.sources, complete=True)
        for target, kind, name in run_spec.plugins:
            registry.add_travelled(target, kind, name, run_spec.sources)
        self._load_all(run_spec)

    def segment_of(self, spec: TaskSpec) -> Segment:
        """The stages that a task runs: its segment, or what of it leads to what is wanted."""
        segment = self._segments[spec.segment]
        if spec.whole or spec.kind == "merge":
            return segment
        dataset = spec.pieces[0].partition.dataset
        key = (segment.index, dataset, spec.wanted, frozenset(spec.leaving), frozenset(spec.given))
        if key not in self._parts:
            self._parts[key] = segment.only(dataset, spec.wanted, spec.leaving, spec.given)
        return self._parts[key]

    def source(self, segment: Segment) -> Source:
        """What the segment reads with."""
        if segment.index not in self._sources:
            step = segment.source
            assert step is not None, "the plan lets only segments with a source read"
            self._sources[segment.index] = self._make(PluginKind.SOURCE, step.kind, step.settings)
        return self._sources[segment.index]

    def opened_source(self, segment: Segment) -> Source | None:
        """The same, if a task has read with it."""
        return self._sources.get(segment.index)

    def operation(self, segment: Segment, step: Step, dataset: str = "") -> Operation:
        """What a step does, with the settings of its own that a dataset may have."""
        params = step.own_params.get(dataset, step.params)
        key = (segment.index, step.stage, dataset if dataset in step.own_params else "")
        with self._preparing:  # workers with several slots run tasks in threads
            if key not in self._operations:
                known_as = step.varied.stage if step.varied else step.stage
                made: Operation = self._make(PluginKind.OPERATION, step.op, params).for_stage(known_as)
                operation = as_varied(made, step.varied, step.fillings)
                operation.prepare()
                self._operations[key] = operation
            return self._operations[key]

    def modifiers(self, segment: Segment, step: Step) -> dict[str, Modifier]:
        """Those around a step, by their names."""
        key = (segment.index, step.stage)
        if key not in self._modifiers:
            self._modifiers[key] = {
                planned.name: self._make(PluginKind.MODIFIER, planned.name, planned.params)
                for planned in step.modifiers
            }
        return self._modifiers[key]

    def following(self, segment: Segment, step: Step, dataset: str) -> Following | None:
        """The stage that takes the events of this one, where it alone does and takes no others."""
        key = (segment.index, segment.part, step.stage, dataset)
        if key not in self._followers:
            self._followers[key] = self._found_following(segment, step, dataset)
        return self._followers[key]

    def _found_following(self, segment: Segment, step: Step, dataset: str) -> Following | None:
        inputs = segment.inputs_for(dataset)
        takers = [one for one in segment.steps if step.stage in inputs.get(one.stage, ())]
        if len(takers) != 1 or inputs[takers[0].stage] != (step.stage,) or step.stage in segment.exports or step.writes:
            return None
        taker = takers[0]
        if taker.writes or taker.given:
            return None
        operation = self.operation(segment, taker, dataset)
        return Following(operation, taker.reads, taker.live, self.modifiers(segment, taker))

    def groups(self, segment: Segment, dataset: str) -> list[CompiledGroup]:
        """The steps that are compiled together for a dataset."""
        key = (segment.index, segment.part, dataset)
        with self._grouping:
            if key not in self._groups:
                self._groups[key] = [self._group(segment, one, dataset) for one in segment.fused_for(dataset)]
            return self._groups[key]

    def _group(self, segment: Segment, fused: FusedSteps, dataset: str) -> CompiledGroup:
        inputs, inside = segment.inputs_for(dataset), {step.stage for step in fused.steps}
        outside = {name for stage, names in inputs.items() if stage not in inside for name in names}
        written = {step.stage for step in fused.steps if step.writes}
        operations = {step.stage: self.operation(segment, step, dataset) for step in fused.steps}
        return CompiledGroup(Group(fused, operations, inputs, outside | written | segment.exports.keys()))

    def product(self, kind: str) -> Product:
        """The kind of a product: how its parts are merged."""
        made: Product = self._load(PluginKind.PRODUCT, kind)()
        return made

    def _load_all(self, run_spec: RunSpec) -> None:
        """Import what the tasks will use, before there are any: later, tasks run in several threads, and imports that
        meet there can fail. What cannot be imported here may be for another pool; if not, the task that needs it says
        so."""
        for kind, name in sorted(used_plugins(run_spec.segments), key=str):
            with suppress(Exception):
                self._load(kind, name).warm_up()

    def _make(self, kind: PluginKind, name: str, settings: Mapping[str, Any]) -> Any:  # Any: one of the kind's own type
        with self._loading:
            return registry.make(kind, name, settings)

    def _load(self, kind: PluginKind, name: str) -> registry.Factory:
        with self._loading:
            return registry.load(kind, name)
