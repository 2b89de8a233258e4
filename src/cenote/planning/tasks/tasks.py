"""Lay out the tasks: each segment over its partitions, then merges in a tree of fixed shape.

The shape depends on the data alone, never on workers or on what finishes first: that is why results are equal
bit for bit everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.operations.support.events import DatasetInfo
from cenote.planning.fingerprint import partition_digest
from cenote.planning.identity import Lineage, combined
from cenote.planning.plan import (
    MERGE,
    RUN,
    Crossing,
    Fill,
    Partition,
    ResultIds,
    Segment,
    TaskLayout,
    TaskTable,
    skims_of,
)
from cenote.planning.stages.columns import ColumnFlow
from cenote.planning.stages.resolve import SOURCE, Resolved

FAN_IN = 32
"""Parts per merge: few enough for memory, many enough for a flat tree (a million parts: four levels)."""


_NOTHING = bytes(16)


@dataclass
class _Layout:
    segments: Sequence[Segment]
    partitions: Sequence[Partition]
    datasets: Sequence[DatasetInfo]
    flavour_of: Mapping[str, int]
    crossings: Mapping[tuple[int, str], tuple[Crossing, ...]]
    lineages: Mapping[tuple[int, str], Lineage]
    data: Sequence[bytes]
    """Per partition: the digest of its data."""
    parts: Sequence[int]
    """Per partition: its number within its dataset."""
    kind: list[int] = field(default_factory=list)
    segment: list[int] = field(default_factory=list)
    partition: list[int] = field(default_factory=list)
    needs: list[list[int]] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)
    leaving: list[bytes] = field(default_factory=list)
    runs: list[dict[int, int]] = field(default_factory=list)
    results: dict[str, int] = field(default_factory=dict)
    product_tasks: dict[str, dict[int, int]] = field(default_factory=dict)
    """Stage of scope dataset or run → dataset number (-1: run) → task."""

    def is_replacement(self, segment: Segment, number: int) -> bool:
        """Whether a run over a whole dataset is for one that stands in for another: its product is for later stages
        alone."""
        return segment.scope == "dataset" and bool(self.datasets[number].stands_in)

    def add_run(self, segment: Segment, number: int, needs: list[int], positions: Sequence[int], dataset: int) -> int:
        """A task of a segment over these partitions."""
        used: dict[frozenset[str], list[bytes]] = {}

        def known_by(name: str, *, leaves: bool) -> bytes:
            made_of: list[bytes] = []
            reaching: frozenset[str] = frozenset()
            for position in positions:
                lineage = self.lineages[segment.index, self.partitions[position].dataset]
                found = (lineage.leaving if leaves else lineage.products).get(name)
                if found is not None:
                    made_of += [found, self.data[position]]
                    reaching |= lineage.uses[name]
            if not made_of:
                return _NOTHING
            if reaching not in used:
                used[reaching] = list(self._used(reaching, dataset))
            numbers = [self.parts[position].to_bytes(16, "big") for position in positions]
            return combined("run", [*made_of, *used[reaching], *(numbers if name in skims else ())])

        skims = {skims_of(step.stage) for step in segment.steps if step.writes}
        ids = b"".join(known_by(name, leaves=False) for name in self.names[segment.index])
        leaving = b"".join(known_by(name, leaves=True) for name in segment.exports)
        where = [place_of(self.partitions[position]) for position in positions]
        key = combined("run " + segment.stages[0], [ids, leaving, *where])
        return self._add(RUN, segment, max(number, 0), needs=needs, key=key, ids=ids, leaving=leaving)

    def _used(self, stages: frozenset[str], dataset: int) -> Iterator[bytes]:
        """What the products of whole datasets or of the run are known by that a task on this dataset gets."""
        for stage in sorted(stages):
            tasks = self.product_tasks[stage]
            for number in sorted(tasks) if dataset < 0 else [dataset if dataset in tasks else -1]:
                if number in tasks:
                    yield self._id(tasks[number], stage)

    def add_merge(self, segment: Segment, position: int, parts: list[int]) -> int:
        """A merge of what these tasks made."""
        found = ([known for part in parts if (known := self._id(part, name)) != _NOTHING] for name in segment.merged)
        ids = b"".join(combined("merge", one) if one else _NOTHING for one in found)
        key = combined("merge", [ids, *(self.keys[part] for part in parts)])
        return self._add(MERGE, segment, position, needs=parts, key=key, ids=ids, leaving=b"")

    def _id(self, task: int, name: str) -> bytes:
        segment = self.segments[self.segment[task]]
        names = tuple(segment.merged) if self.kind[task] == MERGE else self.names[segment.index]
        if name not in names:
            return _NOTHING
        at = 16 * names.index(name)
        return self.ids[task][at : at + 16]

    def _add(
        self, kind: int, segment: Segment, position: int, *, needs: list[int], key: bytes, ids: bytes, leaving: bytes
    ) -> int:
        number = len(self.kind)
        self.kind.append(kind)
        self.segment.append(segment.index)
        self.partition.append(position)
        self.needs.append(needs)
        self.keys.append(key)
        self.ids.append(ids)
        self.leaving.append(leaving)
        return number


def lay_out(
    segments: Sequence[Segment],
    partitions: Sequence[Partition],
    datasets: Sequence[DatasetInfo],
    resolved: Resolved,
    flow: ColumnFlow,
    lineages: Mapping[tuple[int, str], Lineage],
) -> tuple[TaskTable, TaskLayout, ResultIds, dict[str, int]]:
    """All tasks in an order in which needs come first; the layout; what their results are known by; product → the task
    that holds it, whole."""
    flavour_of = {name: number for number, flavour in enumerate(resolved.flavours) for name in flavour.datasets}
    segment_of = {stage: segment.index for segment in segments for stage in segment.stages}
    layout = _Layout(
        segments,
        partitions,
        datasets,
        flavour_of,
        _crossings(segments, resolved, flow, segment_of),
        lineages,
        data=_digests(segments, partitions),
        parts=part_numbers(partitions),
        names=[_names(segment, lineages) for segment in segments],
    )
    made_by = _made_by(segments)
    whole_after: dict[int, list[int]] = {}
    for number, makers in made_by.items():
        whole_after.setdefault(max(makers), []).append(number)
    for segment in segments:
        _add_runs(layout, segment)
        for number in whole_after.get(segment.index, ()):
            _add_merges(layout, segments[number], made_by[number])
    ways = TaskLayout(tuple(layout.runs), flavour_of, layout.crossings, layout.product_tasks)
    table = task_table(
        kind=layout.kind, segment=layout.segment, partition=layout.partition, needs=layout.needs, keys=layout.keys
    )
    merged = tuple(tuple(segment.merged) for segment in segments)
    ids = ResultIds(tuple(layout.names), merged, tuple(layout.ids), tuple(layout.leaving))
    return table, ways, ids, layout.results


def _names(segment: Segment, lineages: Mapping[tuple[int, str], Lineage]) -> tuple[str, ...]:
    """Everything that tasks of a segment may make."""
    found = (lineage.products for (number, _), lineage in lineages.items() if number == segment.index)
    return tuple(dict.fromkeys(name for products in found for name in products))


def _digests(segments: Sequence[Segment], partitions: Sequence[Partition]) -> list[bytes]:
    fills: dict[str, dict[str, Fill]] = {}
    for segment in segments:
        if segment.source is not None:
            fills.setdefault(segment.source.id, {}).update(segment.source.fills)
    return [partition_digest(partition, fills.get(partition.source, {})) for partition in partitions]


def place_of(partition: Partition) -> bytes:
    """Tells tasks apart whose results are equal, since they read the same data in two places."""
    where = f"{partition.dataset}\0{partition.url}\0{partition.start}\0{partition.stop}\0{partition.source}"
    return combined(where, [])


def part_numbers(partitions: Sequence[Partition]) -> list[int]:
    """Of each partition: its number among those of its dataset that one source reads."""
    counts: dict[tuple[str, str], int] = {}
    found = []
    for partition in partitions:
        key = (partition.source, partition.dataset)
        counts[key] = counts.get(key, -1) + 1
        found.append(counts[key])
    return found


def _crossings(
    segments: Sequence[Segment], resolved: Resolved, flow: ColumnFlow, segment_of: Mapping[str, int]
) -> dict[tuple[int, str], tuple[Crossing, ...]]:
    scopes = {stage.id: stage.scope.value for stage in resolved.stages}
    found: dict[tuple[int, str], tuple[Crossing, ...]] = {}
    for number, flavour in enumerate(resolved.flavours):
        for stage in dict.fromkeys(name for segment in segments for name in segment.imports):
            carries = stage in flavour.applies and scopes[stage] == "partition"
            origins = (stage,) if carries else flow.inputs[number, stage]
            found[number, stage] = tuple(
                Crossing(-1, SOURCE) if name == SOURCE else Crossing(segment_of[name], name) for name in origins
            )
    return found


def applies(segment: Segment, dataset: str) -> bool:
    """Whether any stage of the segment runs on this dataset."""
    return any(step.applies(dataset) for step in segment.steps)


def product_tasks(
    made_by: Mapping[str, Mapping[int, int]], segment: Segment, dataset: int, datasets: Sequence[DatasetInfo]
) -> Iterator[tuple[str, int]]:
    """(stage, task) of every product that this segment needs for a dataset (by number), or for the run (-1).

    `made_by` has the tasks of each stage by dataset, or one under -1. A run needs the products of all datasets, without
    those that stand in for another one.
    """
    for stage in dict.fromkeys(stage for step in segment.steps for stage in step.needs_products):
        tasks = made_by[stage]
        if dataset < 0:
            yield from ((stage, task) for one, task in tasks.items() if one < 0 or not datasets[one].stands_in)
        elif (task := tasks.get(dataset, tasks.get(-1))) is not None:
            yield stage, task


def _made_by(segments: Sequence[Segment]) -> dict[int, list[int]]:
    """Segment → those that make its products: itself, and where variations of its histograms run after other pools than
    the nominal stage, those too."""
    home = {name: segment.index for segment in segments for name in segment.merged}
    found = {segment.index: [segment.index] for segment in segments}
    for segment in segments:
        for number in {home[name] for name in segment.products if home[name] != segment.index}:
            found[number].append(segment.index)
    return found


def _add_merges(layout: _Layout, segment: Segment, made_by: Sequence[int]) -> None:
    """What is made of one partition in several segments stays together: a sum over partitions has the same shape then,
    to the last bit, as where one segment makes all."""
    runs = [layout.runs[number] for number in made_by]
    places = sorted({place for some in runs for place in some if not layout.is_replacement(segment, place)})
    if segment.merged and places:
        parts = [[some[place] for some in runs if place in some] for place in places]
        whole = merge_tree(parts, partial(layout.add_merge, segment))
        layout.results.update(dict.fromkeys(segment.merged, whole))


def _add_runs(layout: _Layout, segment: Segment) -> None:
    """One task per partition, one per dataset, or one for the run: it needs the events of all partitions there."""
    whole = segment.scope != "partition"
    numbers = {info.own_name: -1 if segment.scope == "run" else number for number, info in enumerate(layout.datasets)}
    names = [info.own_name for info in layout.datasets]
    imports = {name: segment.imports_for(name) for name in names if applies(segment, name)}
    wanted: dict[int, list[int]] = {}
    for position, partition in enumerate(layout.partitions):
        if partition.source == segment.root and partition.dataset in imports:
            wanted.setdefault(numbers[partition.dataset] if whole else position, []).append(position)
    runs: dict[int, int] = {}
    layout.runs.append(runs)
    for number, positions in wanted.items():
        dataset = numbers[layout.partitions[positions[0]].dataset]
        needs = dict.fromkeys(
            layout.runs[crossing.segment][position]
            for position in positions
            for stage in imports[layout.partitions[position].dataset]
            for crossing in layout.crossings[layout.flavour_of[layout.partitions[position].dataset], stage]
            if crossing.segment >= 0
        )
        needs.update(
            dict.fromkeys(task for _, task in product_tasks(layout.product_tasks, segment, dataset, layout.datasets))
        )
        runs[number] = layout.add_run(segment, number, list(needs), positions, dataset)
    if whole:
        layout.product_tasks.update({step.stage: dict(runs) for step in segment.steps})


def merge_tree(parts: list[list[int]], add: Callable[[int, list[int]], int], fan_in: int = FAN_IN) -> int:
    """Merge level by level, until one task holds all parts: its number. Several tasks may make one part. `add` makes a
    merge of a group of parts, whose first is at this position of the level. The last group of a level may have one."""
    while len(parts) > 1 or len(parts[0]) > 1:
        groups = [(at, parts[at : at + fan_in]) for at in range(0, len(parts), fan_in)]
        parts = [[add(at, [task for part in group for task in part])] for at, group in groups]
    return parts[0][0]


def task_table(
    *,
    kind: Sequence[int],
    segment: Sequence[int],
    partition: Sequence[int],
    needs: Sequence[Sequence[int]],
    keys: Sequence[bytes],
) -> TaskTable:
    """The table of tasks in this order, with who reads whom."""
    counts = np.fromiter((len(some) for some in needs), np.int64, len(needs))
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    read: NDArray[np.int32] = np.fromiter((need for some in needs for need in some), np.int32, int(start[-1]))
    user = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    order = np.argsort(read, kind="stable")
    users_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(read, minlength=len(counts)))])
    return TaskTable(
        kind=np.array(kind, np.uint8),
        segment=np.array(segment, np.int32),
        partition=np.array(partition, np.int32),
        needs_start=start,
        needs=read,
        users_start=users_start.astype(np.int64),
        users=user[order],
        keys=b"".join(keys),
    )
