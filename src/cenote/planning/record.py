"""Define the record of a plan, as `plan.json` and `cenote plan --json` have it, and make one of a plan.

Readers of a run decode this record; it says everything that following a run needs to know of its plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from cenote.common import storage
from cenote.common.values import dataclass
from cenote.language.execution import Amounts, Elastic, PoolSize, PoolTerms, RunLimits, settings_of
from cenote.language.plugins.registry import runs_here
from cenote.language.systematics import KeyPath, Origin
from cenote.planning.placement.pools import Candidate, PlacedPool, StagePlacement
from cenote.planning.plan import (
    MERGE,
    Learned,
    Partition,
    Plan,
    PlannedModifier,
    Segment,
    SkippedFile,
    StageSummary,
    TaskTable,
)
from cenote.planning.probes.cache import probe_key
from cenote.planning.probes.result import Finding, Probed, ProbeVerdict


class PlannedStage(msgspec.Struct, frozen=True):
    """A stage as the author wrote it, and where it may run."""

    id: str
    op: str = ""
    pools: tuple[str, ...] = ()
    """Pools that may run it, first choice first."""
    shared: bool = False
    """Whether these pools share the work, instead of standing in for each other."""
    verdict: str = ""
    """`yes`, `not now` (no worker yet) or `never`."""
    reason: str = ""
    """Why it runs there."""
    considered: tuple[Candidate, ...] = ()
    segment: int | None = None
    """Number of its segment; null where nothing runs it."""
    tasks: int = 0
    reads: tuple[str, ...] = ()
    """Columns that it reads."""
    adds: tuple[str, ...] = ()
    """Columns that it adds."""
    modifiers: tuple[PlannedModifier, ...] = ()
    """Around it, the first one outermost."""
    not_compiled: str = ""
    """Why it runs the ordinary way; empty where it is compiled."""
    variation_of: str = ""
    """The stage that it is a variation of; empty for a stage of the file."""
    variation: str = ""
    """The variation that it runs for."""

    @classmethod
    def of(cls, stage: StageSummary, placement: StagePlacement | None) -> Self:
        """From the plan's own row."""
        found = cls(
            id=stage.stage,
            op=stage.op,
            segment=stage.segment,
            tasks=stage.tasks,
            reads=stage.reads,
            adds=stage.adds,
            modifiers=stage.modifiers,
            not_compiled=stage.not_compiled,
            variation_of=stage.variation_of,
            variation=stage.variation,
        )
        if placement is None:
            return found
        return msgspec.structs.replace(
            found,
            pools=placement.pools,
            shared=placement.shared,
            verdict=placement.verdict.value,
            reason=placement.reason,
            considered=placement.considered,
        )


class ProbeRecord(msgspec.Struct, frozen=True):
    """The last probe of a pool; nulls where there was none."""

    key: str = ""
    """What probes of the pool are kept under."""
    at: str | None = None
    verdict: ProbeVerdict | None = None
    host: str | None = None
    findings: tuple[Finding, ...] = ()
    """Those that are not ok."""

    @classmethod
    def of(cls, key: str, probe: Probed | None) -> Self:
        """From the probe itself."""
        if probe is None:
            return cls(key)
        at = datetime.fromtimestamp(probe.at, UTC).isoformat(timespec="seconds")
        return cls(key, at, probe.verdict, probe.host or None, probe.troubles)


class GrantedPool(msgspec.Struct, frozen=True):
    """What there will be of a pool, which a small machine makes smaller. Either `workers` or `elastic` is set."""

    workers: int | UnsetType | None = UNSET
    elastic: Elastic | UnsetType = UNSET
    slots: int = 1
    resources: Amounts = Amounts()


@dataclass(frozen=True)
class _DecidedPool:
    """What the file and placement say of a pool."""

    name: str
    strategy: str = ""
    workers: int | UnsetType | None = UNSET
    elastic: Elastic | UnsetType = UNSET
    slots: int = 1
    """Tasks at once per worker."""
    resources: Amounts = Amounts()
    """Of one worker."""
    granted: GrantedPool = GrantedPool()
    labels: tuple[str, ...] = ()
    """What stages may require to reach it."""
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedPool(PoolTerms, _DecidedPool):
    """A pool as the file asks for it; `granted` is what there will be. Either `workers` or `elastic` is set."""

    environment: str = "current"
    """The type of the software that its workers run."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Setting (`resources.memory`) → where its value came from. What is not there is built in."""
    probe: ProbeRecord = ProbeRecord()

    @property
    def is_elastic(self) -> bool:
        """Whether it grows and shrinks."""
        return self.granted.elastic is not UNSET

    @property
    def most_workers(self) -> int:
        """How many workers it may ever have."""
        if self.granted.elastic is not UNSET:
            return self.granted.elastic.max
        return self.granted.workers or 0 if self.granted.workers is not UNSET else 0

    @classmethod
    def of(cls, pool: PlacedPool, environment: str, origins: dict[str, str], probe: ProbeRecord) -> Self:
        """From the pool itself."""
        return cls(
            name=pool.name,
            strategy=pool.strategy,
            **_size(pool.asked_size),
            resources=pool.resources,
            granted=GrantedPool(**_size(pool.size), resources=pool.granted),
            labels=tuple(sorted(pool.spec.labels)),
            fallback=pool.fallback,
            **settings_of(pool.spec, PoolTerms),
            environment=environment,
            origins=origins,
            probe=probe,
        )


class PlannedSegment(msgspec.Struct, frozen=True):
    """Stages that run in the same tasks, and the pools those tasks may run in."""

    index: int
    name: str = ""
    stages: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    shared: bool = False
    """Whether the pools share the tasks; otherwise every pool but the first is a fallback."""
    scope: str = "partition"
    """`partition`, `dataset` or `run`: what one task takes."""
    tasks: int = 0
    source: str | None = None
    """Null where its events come from earlier segments."""
    reads: dict[str, tuple[str, ...]] = {}
    """Dataset → columns."""
    imports: tuple[str, ...] = ()
    """Stages of earlier segments whose events come in."""
    crossing: dict[str, tuple[str, ...]] = {}
    """Stage whose events go to later segments → the columns that cross."""
    compiled: tuple[tuple[str, ...], ...] = ()
    """Stages that become one loop of machine code, group by group."""
    digest: str = ""

    @classmethod
    def of(cls, segment: Segment, tasks: int) -> Self:
        """From the segment itself."""
        return cls(
            index=segment.index,
            name=segment.name,
            stages=segment.stages,
            pools=segment.pools,
            shared=segment.shared,
            scope=segment.scope,
            tasks=tasks,
            source=segment.source.id if segment.source else None,
            reads={} if segment.source is None else dict(segment.source.columns),
            imports=segment.imports,
            crossing=dict(segment.exports),
            compiled=tuple(tuple(step.stage for step in fused.steps) for fused in segment.fused),
            digest=segment.digest,
        )


class PlannedDataset(msgspec.Struct, frozen=True):
    """A dataset, and how much of it there is."""

    name: str
    eventtype: str | None = None
    group: str | None = None
    files: int = 0
    events: int = 0
    partitions: int = 0


class PlannedPicture(msgspec.Struct, frozen=True):
    """A picture of a product: its renderer, and where it goes."""

    name: str
    out: str | None = None


class PlannedProduct(msgspec.Struct, frozen=True):
    """A product that the run will leave."""

    name: str
    """The stage's id; skims have `:files` behind it."""
    stage: str
    kind: str
    renders: tuple[PlannedPicture, ...] = ()


class TaskBlock(msgspec.Struct, frozen=True, array_like=True):
    """Tasks with consecutive numbers that are alike; the blocks of a plan together number every task."""

    count: int
    segment: int
    merge: bool


class PartitionBlock(msgspec.Struct, frozen=True, array_like=True):
    """Tasks with consecutive numbers that take consecutive partitions."""

    first_task: int
    first_partition: int
    """Counted through the edges of `input_files`."""
    count: int


class InputFile(msgspec.Struct, frozen=True):
    """A file with the events at which it is cut: the partitions lie between, in this order."""

    dataset: str
    source: str
    file: str
    edges: list[int]


class PlanRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A plan for readers and other programs; equal plans give equal records."""

    workflow: str
    """Name of the file."""
    backend: str = ""
    limits: RunLimits = RunLimits()
    """How much may go wrong before a task fails or a pool is given up."""
    digest: str = ""
    """Changes when anything that decides the results changes."""
    stages: tuple[PlannedStage, ...] = ()
    pools: tuple[PlannedPool, ...] = ()
    merge_pool: str = "default"
    """Where merges run."""
    segments: tuple[PlannedSegment, ...] = ()
    datasets: tuple[PlannedDataset, ...] = ()
    products: tuple[PlannedProduct, ...] = ()
    events: int = 0
    """To read, all datasets together."""
    partitions: int = 0
    tasks: int = 0
    """Merges included."""
    merges: int = 0
    task_blocks: tuple[TaskBlock, ...] = ()
    """How many tasks, of which segment, whether merges: all tasks in the order of their numbers."""
    input_files: tuple[InputFile, ...] = ()
    partition_blocks: tuple[PartitionBlock, ...] = ()
    """First task, first partition, how many: which task takes which partition."""
    learned: tuple[Learned, ...] = ()
    """From earlier runs."""
    skipped: tuple[SkippedFile, ...] = ()
    """Files that cannot be read, and that their datasets do without."""
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """The record of a plan."""
        runs = plan.layout.runs
        origins, here = _origins(plan), runs_here(plan.workflow.execution.backend)
        return cls(
            workflow=plan.workflow.file.name,
            backend=plan.workflow.execution.backend,
            limits=plan.limits,
            digest=plan.digest,
            stages=tuple(PlannedStage.of(stage, plan.placement.by_stage.get(stage.stage)) for stage in plan.stages),
            pools=tuple(
                PlannedPool.of(
                    pool,
                    plan.workflow.execution.environment_of("" if here else pool.name)["type"],
                    origins[pool.name],
                    ProbeRecord.of(probe_key(plan, pool), plan.probes.get(pool.name)),
                )
                for pool in plan.placement.pools
            ),
            merge_pool=plan.placement.merge_pool,
            segments=tuple(
                PlannedSegment.of(segment, len(runs[segment.index]) if segment.index < len(runs) else 0)
                for segment in plan.segments
            ),
            datasets=tuple(_datasets(plan)),
            products=tuple(
                PlannedProduct(
                    product.name,
                    product.stage,
                    product.kind,
                    tuple(PlannedPicture(render.name, render.out) for render in product.renders),
                )
                for product in plan.products
            ),
            events=plan.events,
            partitions=len(plan.partitions),
            tasks=len(plan.tasks),
            merges=int((plan.tasks.kind == MERGE).sum()),
            task_blocks=tuple(_task_blocks(plan.tasks)),
            input_files=tuple(_input_files(plan.partitions)),
            partition_blocks=tuple(_partition_blocks(plan)),
            learned=plan.learned,
            skipped=plan.skipped,
            warnings=plan.warnings,
        )


def json_text(record: object) -> str:
    """A record as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()


def write_record(path: Path, record: msgspec.Struct) -> None:
    """Write a record to a file that is whole whenever it is there."""
    storage.write_text(path, f"{json_text(record)}\n")


def as_json(record: msgspec.Struct) -> dict[str, Any]:  # Any: JSON nests as it likes
    """A record as the plain objects that its JSON has."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return found


def _size(size: PoolSize) -> dict[str, Any]:  # Any: keywords of the records above
    many = {"elastic": size.elastic} if size.elastic else {"workers": size.workers}
    return {**many, "slots": size.slots}


def _spans(breaks: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """(start, end) of the stretches that these breaks between neighbours leave."""
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
    return zip(starts, [*starts[1:], len(breaks) + 1], strict=True)


def _task_blocks(tasks: TaskTable) -> Iterator[TaskBlock]:
    if len(tasks):
        for start, end in _spans((np.diff(tasks.segment) != 0) | (np.diff(tasks.kind) != 0)):
            yield TaskBlock(end - start, int(tasks.segment[start]), bool(tasks.kind[start] == MERGE))


def _input_files(partitions: Sequence[Partition]) -> list[InputFile]:
    found: list[InputFile] = []
    for one in partitions:
        last = found[-1] if found else None
        same = last is not None and (last.dataset, last.source, last.file) == (one.dataset, one.source, one.url)
        if last is not None and same and last.edges[-1] == one.start:
            last.edges.append(one.stop)
        else:
            found.append(InputFile(one.dataset, one.source, one.url, [one.start, one.stop]))
    return found


def _partition_blocks(plan: Plan) -> Iterator[PartitionBlock]:
    tasks = plan.tasks
    scopes = np.array([segment.scope == "partition" for segment in plan.segments] or [False])
    numbers = np.flatnonzero((tasks.kind != MERGE) & scopes[tasks.segment])
    if len(numbers):
        partitions = tasks.partition[numbers]
        for start, end in _spans((np.diff(numbers) != 1) | (np.diff(partitions) != 1)):
            yield PartitionBlock(int(numbers[start]), int(partitions[start]), end - start)


def _origins(plan: Plan) -> dict[str, dict[str, str]]:
    """Pool → setting → where its value came from."""
    found: dict[str, dict[str, str]] = {pool.name: {} for pool in plan.placement.pools}
    settings: Mapping[KeyPath, Origin] = {
        path: origin for path, origin in plan.workflow.origins.items() if path[:2] == ("execution", "pools")
    }
    parents = {path[:-1] for path in settings}
    for path, origin in settings.items():
        if len(path) > 3 and path not in parents and str(path[2]) in found:
            where = f" ({origin.place})" if origin.place is not None else ""
            found[str(path[2])][".".join(str(step) for step in path[3:])] = f"{origin.layer}{where}"
    return found


def _datasets(plan: Plan) -> Iterator[PlannedDataset]:
    events, partitions = Counter[str](), Counter[str]()
    files: dict[str, set[str]] = {}
    for partition in plan.partitions:
        events[partition.dataset] += partition.events
        partitions[partition.dataset] += 1
        files.setdefault(partition.dataset, set()).add(partition.url)
    for dataset in plan.datasets:
        name = dataset.own_name
        counts = len(files.get(name, ())), events[name], partitions[name]
        yield PlannedDataset(name, dataset.eventtype, dataset.group, *counts)
