"""Write the specs of tasks: what a worker needs to know, and where columns are in its files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from cenote.analysis.sources.interface import Source
from cenote.execution.runtime.demand import Demand, SegmentParts, everything, made_in_full, positions_of
from cenote.execution.worker.results.store import ResultName
from cenote.execution.worker.task_spec import Piece, RunSpec, TaskSpec
from cenote.language.plugins import own_files, registry
from cenote.language.plugins.kinds import PluginKind
from cenote.language.plugins.resources import packed
from cenote.language.plugins.shipped import own_path
from cenote.planning.fingerprint import digest_of
from cenote.planning.identity import combined
from cenote.planning.inputs.metadata import noted_places
from cenote.planning.plan import (
    MERGE,
    RUN,
    Partition,
    Plan,
    Segment,
    SourceStep,
    columns_of,
    events_of,
    is_skim,
    maker_of,
)
from cenote.planning.tasks.tasks import part_numbers, place_of, product_tasks

# Tell tasks where the columns that they read are in their files, as far as planning found it out.


TOGETHER = 256
"""Partitions whose places are looked up at once."""
KEPT = 8
"""So many times that: the places of ten thousand files would weigh down the driver."""


class PlacesOfColumns:
    """Looks them up in the cache of metadata, for the next partitions together."""

    def __init__(self, plan: Plan) -> None:
        self._partitions = plan.partitions
        self._sources: dict[int, Source] = {}
        self._known: OrderedDict[tuple[int, str, int], Mapping[int, bytes]] = OrderedDict()

    def of(self, segment: Segment, position: int) -> bytes:
        """For a task of this segment on the partition with this position; empty where it has to look itself."""
        step = segment.source
        if step is None or self._partitions[position].dataset not in step.columns:
            return b""
        key = (segment.index, segment.part, position // TOGETHER)
        if key not in self._known:
            start = key[2] * TOGETHER
            some = range(start, min(start + TOGETHER, len(self._partitions)))
            self._known[key] = self._looked_up(segment.index, step, some)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return self._known[key].get(position, b"")

    def _looked_up(self, segment: int, step: SourceStep, positions: Sequence[int]) -> dict[int, bytes]:
        if segment not in self._sources:
            self._sources[segment] = registry.make(PluginKind.SOURCE, step.kind, step.settings)
        source = self._sources[segment]
        if not source.finds_places():
            return {}
        alike: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
        for position in positions:
            partition = self._partitions[position]
            if partition.source == step.id and partition.dataset in step.columns:
                alike.setdefault((partition.url, partition.stamp, _columns(step, partition)), []).append(position)
        found: dict[int, bytes] = {}
        noted = noted_places([(source, step.kind, url, stamp) for url, stamp, _ in alike])
        for (_, _, columns), some, places in zip(alike, alike.values(), noted, strict=True):
            if places:
                ranges = [(self._partitions[position].start, self._partitions[position].stop) for position in some]
                found.update(zip(some, source.cut_places(places, columns, ranges), strict=True))
        return found


def _columns(step: SourceStep, partition: Partition) -> tuple[str, ...]:
    """As the file names them, those that it has."""
    names = (step.renames.get(name, name) for name in step.columns[partition.dataset])
    return tuple(dict.fromkeys(name for name in names if name not in partition.lacks))


def make_run_spec(plan: Plan, *, store: Path, files: Path) -> RunSpec:
    """What all tasks share."""
    return RunSpec(
        segments=plan.segments,
        datasets={info.own_name: info for info in plan.datasets},
        constants=dict(plan.workflow.constants),
        plugins=tuple((plugin.target, plugin.kind, plugin.name) for plugin in plan.workflow.plugins),
        sources=own_files.sources_of(plugin.target for plugin in plan.workflow.plugins),
        path=own_path(),
        resources=packed(plan.resources),
        store=str(store.absolute()),
        files=str(files.absolute()),
        folder=str(Path.cwd()),
        workflow=str(plan.workflow.folder.absolute()),
    )


_FOUND, _FOUND_FILES, _FIRST_STAGE = 1, 2, 3
"""Parts of the results of a task, beside what it makes itself: products that earlier runs made, lists of files that
they wrote, and from there on what its stages do to events."""
_FOR_LATER = 1
"""Part of events that leave a task, beside what later tasks read: what later runs read."""


class TaskSpecs:
    """Writes specs for the tasks of one plan, as far as there is something to do."""

    def __init__(self, plan: Plan, demand: Demand | None = None) -> None:
        self._plan = plan
        self.demand = everything(plan) if demand is None else demand
        self._number_of = {info.own_name: number for number, info in enumerate(plan.datasets)}
        self._partial: dict[int, str] = {}
        """Merges with parts missing → the name that their result lies under instead."""
        self._places = PlacesOfColumns(plan)
        self._parts = SegmentParts()
        self._part = part_numbers(plan.partitions)
        self.held = {
            self.name_of_events(task, stage): (task, events_of(stage), self._leaving_of(task)[stage])
            for task, stages in self.demand.held.items()
            for stage in stages
        }
        """Name of events that earlier runs handed over → the task, the product that they were kept as, and its id."""

    def write(self, task: int, *, attempt: int, split: int = 1, missing: Sequence[int] = ()) -> TaskSpec:
        """The spec of a task; `missing` are the parts of a merge that failed."""
        table = self._plan.tasks
        segment = self._plan.segments[int(table.segment[task])]
        made = self.demand.made[task]
        if table.kind[task] == MERGE:
            needs = table.needs_of(task)
            parts = tuple(name for need in needs if need not in missing for name in self.bundles(need))
            if parts != tuple(name for need in needs for name in self._whole_bundles(need)):
                # a result with parts missing must never be taken for the whole by a later run
                self._partial[task] = digest_of(["partial", table.key(task), parts])
            name = self.name_of(task)
            return TaskSpec(task, name, "merge", segment.index, parts=parts, attempt=attempt, wanted=made)
        positions = positions_of(self._plan, segment, int(table.partition[task]))
        stages = self.demand.leaving.get(task, frozenset[str]())
        return TaskSpec(
            task,
            table.key(task),
            "run",
            segment.index,
            pieces=tuple(self._piece(task, position) for position in positions),
            products=self._products(segment, positions),
            attempt=attempt,
            split=split,
            wanted=made,
            leaving={stage: self.name_of_events(task, stage) for stage in segment.exports if stage in stages},
            whole=made_in_full(self._plan, task, self.demand),
            given=self.given(task),
            # of a partition that did not fit into memory whole, no more is held there than must be
            for_later={} if split > 1 else {product: name for product, (name, _) in self.for_later(task).items()},
        )

    def _piece(self, task: int, position: int) -> Piece:
        partition = self._plan.partitions[position]
        layout = self._plan.layout
        part = self._parts.of_task(self._plan, task, self.demand, partition.dataset)
        imports = []
        for stage in part.imports_for(partition.dataset):
            names = [
                ""
                if crossing.segment < 0
                else self.name_of_events(layout.runs[crossing.segment][position], crossing.stage)
                for crossing in layout.crossings[layout.flavour_of[partition.dataset], stage]
            ]
            imports.append((stage, tuple(names)))
        places = self._places.of(part, position)
        return Piece(partition, self._part[position], imports=tuple(imports), places=places)

    def _products(self, segment: Segment, positions: Sequence[int]) -> tuple[tuple[str, str], ...]:
        whole = segment.scope == "run" or not positions
        number = -1 if whole else self._number_of[self._plan.partitions[positions[0]].dataset]
        needed = product_tasks(self._plan.layout.product_tasks, segment, number, self._plan.datasets)
        return tuple((stage, name) for stage, task in needed for name in self.bundles(task))

    def name_of(self, task: int) -> str:
        """The name under which this task leaves its products in the store."""
        return self._partial.get(task) or self._plan.tasks.key(task)

    def name_of_found(self, task: int) -> str:
        """The name under which those of its products lie there that earlier runs made."""
        return self._name_of_part(task, _FOUND)

    def name_of_found_files(self, task: int) -> str:
        """The same, of lists of the files that they wrote."""
        return self._name_of_part(task, _FOUND_FILES)

    def name_of_events(self, task: int, stage: str) -> str:
        """The name under which the events of a stage lie there that leave this task."""
        known_by = self._leaving_of(task)[stage]
        return combined(
            f"leaving {stage}", [known_by, place_of(self._plan.partitions[int(self._plan.tasks.partition[task])])]
        ).hex()

    def given(self, task: int) -> dict[str, str]:
        """Stages that a task need not run → the name under which what they do to events lies there."""
        return {stage: self._name_of_columns(task, stage) for stage in self.demand.given.get(task, ())}

    def for_later(self, task: int) -> dict[str, tuple[str, bytes]]:
        """What a task that runs may keep for later runs → under which name, and what it is known by then."""
        segment = self._plan.segments[int(self._plan.tasks.segment[task])]
        ids = self._plan.ids.of(self._plan.tasks, task)
        kept = [name for name in ids if name.endswith(columns_of(""))]
        is_one = segment.scope == "partition" and self._plan.tasks.kind[task] == RUN and self.demand.runs(task)
        if not is_one or not (kept or segment.exports) or not self._plan.workflow.execution.store.limit:
            return {}
        dataset = self._plan.partitions[int(self._plan.tasks.partition[task])].dataset
        part = self._parts.of_task(self._plan, task, self.demand, dataset)
        runs = self._parts.running(part, dataset)
        found = {
            name: (self._name_of_columns(task, maker_of(name)), ids[name]) for name in kept if maker_of(name) in runs
        }
        leaving = self._leaving_of(task)
        for stage in self.demand.leaving.get(task, ()):
            name = str(ResultName(self.name_of_events(task, stage), _FOR_LATER))
            found[events_of(stage)] = (name, leaving[stage])
        return found

    def _leaving_of(self, task: int) -> dict[str, bytes]:
        return self._plan.ids.leaving_of(self._plan.segments[int(self._plan.tasks.segment[task])], task)

    def _name_of_columns(self, task: int, stage: str) -> str:
        segment = self._plan.segments[int(self._plan.tasks.segment[task])]
        return self._name_of_part(task, _FIRST_STAGE + segment.stages.index(stage))

    def _name_of_part(self, task: int, part: int) -> str:
        return str(ResultName(self._plan.tasks.key(task), part))

    def bundles(self, task: int) -> tuple[str, ...]:
        """Every name under which its products lie there: of this run, and of earlier ones."""
        return ((self.name_of(task),) if self.demand.runs(task) else ()) + self._found(task)

    def _whole_bundles(self, task: int) -> tuple[str, ...]:
        return ((self._plan.tasks.key(task),) if self.demand.runs(task) else ()) + self._found(task)

    def _found(self, task: int) -> tuple[str, ...]:
        found = {is_skim(product) for product in self.demand.found.get(task, ())}
        names = ((False, self.name_of_found(task)), (True, self.name_of_found_files(task)))
        return tuple(name for of_files, name in names if of_files in found)

    def is_partial(self, task: int) -> bool:
        """Whether this task's products lack some of the data."""
        return task in self._partial

    def names_of_events(self, task: int) -> list[str]:
        """Every name under which events that leave it lie in the store, of this run and of earlier ones."""
        demand = self.demand
        stages = demand.leaving.get(task, frozenset()) | demand.held.get(task, frozenset())
        return [self.name_of_events(task, stage) for stage in sorted(stages)]
