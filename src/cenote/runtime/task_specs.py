"""Write the specs of tasks: from the plan's table to what a worker needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cenote.plan.fingerprint import digest_of
from cenote.plan.plan import MERGE, Plan, Segment
from cenote.plan.tasks import applies, product_tasks
from cenote.plugins import own_files
from cenote.plugins.resources import packed
from cenote.plugins.shipped import own_path
from cenote.runtime.places import PlacesOfColumns
from cenote.worker.task_spec import Piece, RunSpec, TaskSpec


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


class TaskSpecs:
    """Writes specs for the tasks of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._number_of = {info.own_name: number for number, info in enumerate(plan.datasets)}
        self._partial: dict[int, str] = {}
        """Merges with parts missing → the name that their result lies under instead."""
        self._places = PlacesOfColumns(plan)
        self._imports_for: dict[tuple[int, str], tuple[str, ...]] = {}
        self._part: list[int] = []
        counts: dict[tuple[str, str], int] = {}
        for partition in plan.partitions:
            counts[partition.source, partition.dataset] = counts.get((partition.source, partition.dataset), -1) + 1
            self._part.append(counts[partition.source, partition.dataset])

    def write(self, task: int, *, attempt: int, split: int = 1, missing: Sequence[int] = ()) -> TaskSpec:
        """The spec of a task; `missing` are the parts of a merge that failed."""
        table = self._plan.tasks
        segment = self._plan.segments[int(table.segment[task])]
        key = table.key(task)
        if table.kind[task] == MERGE:
            parts = tuple(self.name_of(need) for need in table.needs_of(task) if need not in missing)
            if parts != tuple(table.key(need) for need in table.needs_of(task)):
                # a result with parts missing must never be taken for the whole by a later run
                self._partial[task] = digest_of(["partial", key, parts])
            return TaskSpec(task, self.name_of(task), "merge", segment.index, parts=parts, attempt=attempt)
        positions = self._positions(segment, int(table.partition[task]))
        return TaskSpec(
            task,
            key,
            "run",
            segment.index,
            pieces=tuple(self._piece(segment, position) for position in positions),
            products=self._products(segment, positions),
            attempt=attempt,
            split=split,
        )

    def _positions(self, segment: Segment, number: int) -> list[int]:
        if segment.scope == "partition":
            return [number]
        wanted = self._plan.datasets[number].own_name if segment.scope == "dataset" else None
        return [
            position
            for position, partition in enumerate(self._plan.partitions)
            if partition.source == segment.root
            and (wanted is None or partition.dataset == wanted)
            and applies(segment, partition.dataset)
        ]

    def _piece(self, segment: Segment, position: int) -> Piece:
        partition = self._plan.partitions[position]
        layout, table = self._plan.layout, self._plan.tasks
        imports = []
        for stage in self._imports(segment, partition.dataset):
            names = []
            for crossing in layout.crossings[layout.flavour_of[partition.dataset], stage]:
                if crossing.segment < 0:
                    names.append("")
                    continue
                exports = list(self._plan.segments[crossing.segment].exports)
                key = table.key(layout.runs[crossing.segment][position])
                names.append(f"{key}-{exports.index(crossing.stage)}")
            imports.append((stage, tuple(names)))
        places = self._places.of(segment, position)
        return Piece(partition, self._part[position], imports=tuple(imports), places=places)

    def _imports(self, segment: Segment, dataset: str) -> tuple[str, ...]:
        key = (segment.index, dataset)
        if key not in self._imports_for:
            self._imports_for[key] = segment.imports_for(dataset)
        return self._imports_for[key]

    def _products(self, segment: Segment, positions: Sequence[int]) -> tuple[tuple[str, str], ...]:
        whole = segment.scope == "run" or not positions
        number = -1 if whole else self._number_of[self._plan.partitions[positions[0]].dataset]
        needed = product_tasks(self._plan.layout.product_tasks, segment, number, self._plan.datasets)
        return tuple((stage, self._plan.tasks.key(task)) for stage, task in needed)

    def name_of(self, task: int) -> str:
        """The name under which this task's products lie in the store."""
        return self._partial.get(task) or self._plan.tasks.key(task)

    def is_partial(self, task: int) -> bool:
        """Whether this task's products lack some of the data."""
        return task in self._partial

    def is_kept(self, task: int) -> bool:
        """Whether its results stay for later runs, although no task reads them any more."""
        return self._plan.segments[int(self._plan.tasks.segment[task])].kept

    def stored_names(self, task: int) -> list[str]:
        """Every name under which this task's results lie in the store."""
        name = self.name_of(task)
        if self._plan.tasks.kind[task] == MERGE:
            return [name]
        segment = self._plan.segments[int(self._plan.tasks.segment[task])]
        if not segment.exports:
            return [name]
        dataset = self._plan.partitions[int(self._plan.tasks.partition[task])].dataset
        leaving = {step.stage for step in segment.steps if step.applies(dataset)}
        return [name, *(f"{name}-{n}" for n, stage in enumerate(segment.exports) if stage in leaving)]
