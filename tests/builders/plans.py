"""Build small plans without files, for tests that are about running and not about reading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from cenote.analysis.operations.support.events import DatasetInfo
from cenote.language.execution import Amounts, Elastic, FallbackWhen, Pool
from cenote.language.workflow import Workflow
from cenote.planning.placement.pools import PlacedPool, Placement
from cenote.planning.plan import (
    MERGE,
    RUN,
    Partition,
    Plan,
    ProductPlan,
    ScopeName,
    Segment,
    Step,
    TaskLayout,
    TaskTable,
    WriteStep,
    skims_of,
)
from cenote.planning.tasks.tasks import merge_tree, task_table


@dataclass(frozen=True)
class Task:
    """A row of the table of tasks."""

    number: int
    kind: Literal["run", "merge"]
    segment: int
    partition: int
    """Index of the partition (scope partition) or dataset (scope dataset); 0 for a run; position for a merge."""
    key: str
    needs: tuple[int, ...]


def tasks_in(table: TaskTable) -> Iterator[Task]:
    """Every task of the table, in order."""
    for number in range(len(table)):
        yield Task(
            number=number,
            kind="merge" if table.kind[number] == MERGE else "run",
            segment=int(table.segment[number]),
            partition=int(table.partition[number]),
            key=table.key(number),
            needs=tuple(table.needs_of(number)),
        )


@dataclass(frozen=True)
class SegmentSketch:
    """What a test wants to say of a segment: one stage of the same name, unless it says otherwise."""

    name: str
    needs: tuple[str, ...] = ()
    pools: tuple[str, ...] = ("default",)
    shared: bool = False
    scope: ScopeName = "partition"
    product: bool = False
    skim: bool = False
    retries: int = 0


def a_segment(
    name: str,
    *,
    needs: Sequence[str] = (),
    pools: Sequence[str] = ("default",),
    shared: bool = False,
    scope: ScopeName = "partition",
    product: bool = False,
    skim: bool = False,
    retries: int = 0,
) -> SegmentSketch:
    """One segment for `a_plan`; `product` gives it something to merge, `skim` files that it writes."""
    return SegmentSketch(name, tuple(needs), tuple(pools), shared, scope, product, skim, retries)


def a_plan(
    *,
    partitions: int = 4,
    datasets: int = 1,
    segments: Sequence[SegmentSketch] = (SegmentSketch("Hist", product=True),),
    pools: Mapping[str, int] | Sequence[PlacedPool] | None = None,
    merge_pool: str | None = None,
    fan_in: int = 8,
    events: int = 100,
) -> Plan:
    """A plan whose tasks stand in the order of the segments, each followed by its merges.

    `pools` maps names to slots per worker, or holds whole pools; by default every pool that a segment names has one
    worker with one slot. Datasets share the partitions evenly, in order, each of `events` events.
    """
    placed = _placed(pools if pools is not None else {name: 1 for sketch in segments for name in sketch.pools})
    names = [pool.name for pool in placed]
    of_dataset = [partition * datasets // max(partitions, 1) for partition in range(partitions)]
    rows = _Rows(of_dataset, datasets)
    for index, sketch in enumerate(segments):
        rows.add_segment(index, sketch, fan_in)
    return Plan(
        workflow=Workflow(file=Path("flow.yaml"), folder=Path()),
        placement=Placement(pools=placed, stages=(), merge_pool=merge_pool or next(iter(names), "default")),
        datasets=tuple(DatasetInfo(f"dataset{number}") for number in range(datasets)),
        partitions=tuple(Partition(f"dataset{number}", "events", "a.root", 0, events) for number in of_dataset),
        segments=tuple(_segment(index, sketch) for index, sketch in enumerate(segments)),
        tasks=task_table(
            kind=rows.kinds,
            segment=rows.segments,
            partition=rows.positions,
            needs=rows.needs,
            keys=[number.to_bytes(16, "big") for number in range(len(rows.kinds))],
        ),
        layout=TaskLayout(rows.runs(), flavour_of={}, crossings={}, product_tasks={}),
        products=tuple(rows.products),
        stages=(),
    )


@dataclass
class _Rows:
    """The task table while it grows."""

    of_dataset: list[int]
    datasets: int
    kinds: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    needs: list[Sequence[int]] = field(default_factory=list)
    products: list[ProductPlan] = field(default_factory=list)
    tasks_of: dict[str, tuple[ScopeName, list[int]]] = field(default_factory=dict)

    def add_segment(self, index: int, sketch: SegmentSketch, fan_in: int) -> None:
        """Its tasks, then its merges."""
        size = {"partition": len(self.of_dataset), "dataset": self.datasets, "run": 1}[sketch.scope]
        tasks = [self._add(RUN, index, at, self._needs(sketch, at)) for at in range(size)]
        self.tasks_of[sketch.name] = (sketch.scope, tasks)
        if tasks and (sketch.product or sketch.skim):
            root = merge_tree([[task] for task in tasks], lambda at, group: self._add(MERGE, index, at, group), fan_in)
            if sketch.product:
                self.products.append(ProductPlan(sketch.name, sketch.name, "histogram", root))
            if sketch.skim:
                self.products.append(ProductPlan(skims_of(sketch.name), sketch.name, "files", root))

    def runs(self) -> tuple[dict[int, int], ...]:
        """Per segment: partition or dataset (-1 for the whole run) → its task."""
        return tuple(
            {-1: tasks[0]} if scope == "run" else dict(enumerate(tasks)) for scope, tasks in self.tasks_of.values()
        )

    def _needs(self, sketch: SegmentSketch, at: int) -> list[int]:
        return list(chain.from_iterable(self._read_from(name, sketch.scope, at) for name in sketch.needs))

    def _read_from(self, name: str, scope: ScopeName, at: int) -> Iterable[int]:
        its_scope, tasks = self.tasks_of[name]
        if its_scope == scope:
            return [tasks[at]]
        if its_scope == "run" or scope == "run":
            return tasks
        if its_scope == "dataset":
            return [tasks[self.of_dataset[at]]]
        return [task for task, dataset in zip(tasks, self.of_dataset, strict=True) if dataset == at]

    def _add(self, kind: int, segment: int, position: int, needs: Sequence[int]) -> int:
        self.kinds.append(kind)
        self.segments.append(segment)
        self.positions.append(position)
        self.needs.append(needs)
        return len(self.kinds) - 1


def _segment(index: int, sketch: SegmentSketch) -> Segment:
    skims = (WriteStep("parquet", {}, "skim/{dataset}.parquet", ()),) if sketch.skim else ()
    step = Step(
        stage=sketch.name,
        op="test.op",
        params={},
        inputs=sketch.needs,
        live=(),
        product="histogram" if sketch.product else None,
        writes=skims,
        retries=sketch.retries,
    )
    return Segment(
        index=index,
        name=sketch.name,
        steps=(step,),
        scope=sketch.scope,
        pools=sketch.pools,
        shared=sketch.shared,
        source=None,
        root="events",
        imports=sketch.needs,
        exports={},
        digest=sketch.name,
    )


def a_pool(
    name: str,
    *,
    workers: int | None = 1,
    elastic: Elastic | None = None,
    slots: int = 1,
    memory: int | None = None,
    fallback: Sequence[str] = (),
    fallback_when: FallbackWhen = FallbackWhen(),  # noqa: B008 (frozen)
    queue_timeout: int | None = None,
    cost: float | None = None,
) -> PlacedPool:
    """One pool for `a_plan`; `memory` is that of a worker."""
    spec = Pool(
        name,
        workers=None if elastic else workers,
        elastic=elastic,
        slots=slots,
        resources=Amounts(memory=memory),
        fallback=tuple(fallback),
        fallback_when=fallback_when,
        queue_timeout=queue_timeout,
        cost=cost,
    )
    return PlacedPool(
        spec=spec,
        strategy="local",
        workers=spec.workers,
        elastic=elastic,
        slots=slots,
        resources=spec.resources,
        granted=spec.resources,
        fallback=spec.fallback,
    )


def _placed(pools: Mapping[str, int] | Sequence[PlacedPool]) -> tuple[PlacedPool, ...]:
    if isinstance(pools, Mapping):
        return tuple(a_pool(name, slots=slots) for name, slots in pools.items())
    return tuple(pools)
