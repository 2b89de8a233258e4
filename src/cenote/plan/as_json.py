"""Write a plan as plain data for other programs: `cenote plan --json` and `plan.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cenote.language.origins import KeyPath, Origin
from cenote.placement.pools import PlacedPool, PoolSize, StagePlacement
from cenote.plan.plan import MERGE, Partition, Plan, Segment, StageSummary, TaskTable
from cenote.plan.probe_cache import probe_as_json, probe_key

Json = dict[str, Any]
"""Whatever `json.dumps` takes."""


def plan_as_json(plan: Plan) -> Json:
    """The plan with the keys that other programs may rely on, and more; equal plans give equal data."""
    return {
        "workflow": plan.workflow.file.name,
        "backend": plan.workflow.execution.backend,
        "digest": plan.digest,
        "stages": _stages(plan),
        "pools": _pools(plan),
        "merge_pool": plan.placement.merge_pool,
        "segments": [_segment(segment, plan) for segment in plan.segments],
        "datasets": _datasets(plan),
        "products": [
            {
                "name": product.name,
                "stage": product.stage,
                "kind": product.kind,
                "renders": [{"name": render.name, "out": render.out} for render in product.renders],
            }
            for product in plan.products
        ],
        "events": plan.events,
        "partitions": len(plan.partitions),
        "tasks": len(plan.tasks),
        "merges": int((plan.tasks.kind == MERGE).sum()),
        "task_blocks": task_blocks(plan.tasks),
        "input_files": _input_files(plan.partitions),
        "partition_blocks": _partition_blocks(plan),
        "learned": [asdict(learned) for learned in plan.learned],
        "warnings": list(plan.warnings),
    }


def task_blocks(tasks: TaskTable) -> list[tuple[int, int, bool]]:
    """(how many, segment, whether merges) of tasks with consecutive numbers: what a reader of the journal needs."""
    if len(tasks) == 0:
        return []
    rows = tasks.segment.astype(np.int64) * 2 + (tasks.kind == MERGE)
    starts = [0, *(np.flatnonzero(np.diff(rows)) + 1).tolist()]
    ends = [*starts[1:], len(rows)]
    return [
        (end - start, int(rows[start]) // 2, bool(rows[start] % 2)) for start, end in zip(starts, ends, strict=True)
    ]


def _input_files(partitions: Sequence[Partition]) -> list[Json]:
    """The files, each with the events at which it is cut: the partitions are what lies between, in this order."""
    found: list[Json] = []
    for partition in partitions:
        same = {"dataset": partition.dataset, "source": partition.source, "file": partition.url}
        if found and found[-1] | same == found[-1] and found[-1]["edges"][-1] == partition.start:
            found[-1]["edges"].append(partition.stop)
        else:
            found.append({**same, "edges": [partition.start, partition.stop]})
    return found


def _partition_blocks(plan: Plan) -> list[tuple[int, int, int]]:
    """(first task, first partition, how many): tasks with consecutive numbers that take consecutive partitions."""
    tasks = plan.tasks
    scopes = np.array([segment.scope == "partition" for segment in plan.segments] or [False])
    numbers = np.flatnonzero((tasks.kind != MERGE) & scopes[tasks.segment])
    if len(numbers) == 0:
        return []
    partitions = tasks.partition[numbers]
    breaks = (np.diff(numbers) != 1) | (np.diff(partitions) != 1)
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
    ends = [*starts[1:], len(numbers)]
    return [(int(numbers[start]), int(partitions[start]), end - start) for start, end in zip(starts, ends, strict=True)]


def _stages(plan: Plan) -> list[Json]:
    placed = plan.placement.by_stage or {placement.stage: placement for placement in plan.placement.stages}
    return [_stage(stage, placed.get(stage.stage)) for stage in plan.stages]


def _stage(stage: StageSummary, placement: StagePlacement | None) -> Json:
    found: Json = {"id": stage.stage, "op": stage.op}
    if placement is not None:
        found |= {
            "pools": list(placement.pools),
            "shared": placement.shared,
            "verdict": placement.verdict.value,
            "reason": placement.reason,
            "considered": [asdict(candidate) for candidate in placement.considered],
        }
    return found | {
        "segment": stage.segment,
        "tasks": stage.tasks,
        "reads": list(stage.reads),
        "adds": list(stage.adds),
    }


def _pools(plan: Plan) -> list[Json]:
    origins = _origins(plan)
    return [
        {
            **_pool(pool, origins[pool.name]),
            "probe": probe_as_json(probe_key(plan, pool), plan.probes.get(pool.name)),
        }
        for pool in plan.placement.pools
    ]


def _pool(pool: PlacedPool, origins: Json) -> Json:
    """As the file asks for it; `granted` is what there will be, smaller on a small machine."""
    return {
        "name": pool.name,
        "strategy": pool.strategy,
        **_size(pool.asked_size),
        "resources": asdict(pool.resources),
        "granted": {
            **_size(PoolSize(pool.workers, pool.elastic, pool.slots)),
            "resources": asdict(pool.granted),
        },
        "labels": sorted(pool.labels),
        "fallback": list(pool.fallback),
        "fallback_when": asdict(pool.fallback_when),
        "queue_timeout": pool.queue_timeout,
        "cost": pool.cost,
        "origins": origins,
    }


def _size(size: PoolSize) -> Json:
    """Either `workers` or `elastic`, never both."""
    many = {"elastic": asdict(size.elastic)} if size.elastic else {"workers": size.workers}
    return many | {"slots": size.slots}


def _origins(plan: Plan) -> dict[str, Json]:
    """Pool → setting (`resources.memory`) → where its value came from. What is not there is built in."""
    found: dict[str, Json] = {pool.name: {} for pool in plan.placement.pools}
    settings: Mapping[KeyPath, Origin] = {
        path: origin for path, origin in plan.workflow.origins.items() if path[:2] == ("execution", "pools")
    }
    parents = {path[:-1] for path in settings}
    for path, origin in settings.items():
        if len(path) > 3 and path not in parents and str(path[2]) in found:
            where = f" ({origin.place})" if origin.place is not None else ""
            found[str(path[2])][".".join(str(step) for step in path[3:])] = f"{origin.layer}{where}"
    return found


def _segment(segment: Segment, plan: Plan) -> Json:
    reads = {} if segment.source is None else segment.source.columns
    return {
        "index": segment.index,
        "name": segment.name,
        "stages": list(segment.stages),
        "pools": list(segment.pools),
        "shared": segment.shared,
        "scope": segment.scope,
        "tasks": len(plan.layout.runs[segment.index]) if segment.index < len(plan.layout.runs) else 0,
        "source": segment.source.id if segment.source else None,
        "reads": {dataset: list(columns) for dataset, columns in reads.items()},
        "imports": list(segment.imports),
        "crossing": {stage: list(columns) for stage, columns in segment.exports.items()},
        "digest": segment.digest,
    }


def _datasets(plan: Plan) -> list[Json]:
    events, partitions = Counter[str](), Counter[str]()
    files: dict[str, set[str]] = {}
    for partition in plan.partitions:
        events[partition.dataset] += partition.events
        partitions[partition.dataset] += 1
        files.setdefault(partition.dataset, set()).add(partition.url)
    return [
        {
            "name": dataset.name,
            "eventtype": dataset.eventtype,
            "group": dataset.group,
            "files": len(files.get(dataset.name, ())),
            "events": events[dataset.name],
            "partitions": partitions[dataset.name],
        }
        for dataset in plan.datasets
    ]
