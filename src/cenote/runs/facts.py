"""Hold what a reader of a journal must know of the plan: which task runs which stages, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cenote.language.execution import FallbackWhen
from cenote.placement.pools import PlacedPool
from cenote.plan.as_json import task_blocks
from cenote.plan.plan import Plan
from cenote.plan.probe_cache import ProbeHistory, as_seen_by, probe_key
from cenote.plan.probe_result import Probed


@dataclass(frozen=True)
class StageFacts:
    """A stage as the author wrote it, and the segment that runs it (None where nothing needs it)."""

    id: str
    op: str
    segment: int | None


@dataclass(frozen=True)
class SegmentFacts:
    """Stages that run in the same tasks, and the pools those tasks may run in."""

    stages: tuple[str, ...]
    pools: tuple[str, ...]
    shared: bool
    """Whether the pools share the tasks; otherwise every pool but the first is a fallback."""
    imports: tuple[str, ...] = ()
    """Stages of earlier segments whose events come in."""


@dataclass(frozen=True)
class TaskBlock:
    """Tasks with consecutive numbers that are alike; the blocks of a plan together number every task."""

    count: int
    segment: int
    merge: bool


@dataclass(frozen=True)
class PoolFacts:
    """A pool, and what one worker of it costs per hour."""

    name: str
    strategy: str
    slots: int
    workers: int
    """How many it may ever have."""
    cost: float | None = None
    elastic: bool = False
    fallback: tuple[str, ...] = ()
    no_worker_for: int | None = None
    """Seconds without a worker after which waiting work falls back."""
    says_when: bool = False
    """Whether its `fallback_when` says anything: then it falls back for nothing else."""
    queue_timeout: int | None = None
    probe_key: str = ""
    """What probes of it are kept under."""
    probe: Probed | None = None
    """The last one."""


@dataclass(frozen=True)
class ProductFacts:
    """A product that the run will leave."""

    name: str
    """The stage's id; skims have `:files` behind it."""
    stage: str
    kind: str


@dataclass(frozen=True)
class RunFacts:
    """The plan, as far as following a run needs it."""

    stages: tuple[StageFacts, ...]
    segments: tuple[SegmentFacts, ...]
    blocks: tuple[TaskBlock, ...]
    pools: tuple[PoolFacts, ...]
    products: tuple[ProductFacts, ...] = ()
    merge_pool: str = "default"
    warnings: tuple[str, ...] = ()
    events: int = 0
    """Events to read, all datasets together."""
    workflow: str = ""
    """Name of the file."""

    @property
    def tasks(self) -> int:
        """How many tasks the plan has, merges included."""
        return sum(block.count for block in self.blocks)

    @classmethod
    def from_plan(cls, plan: Plan) -> RunFacts:
        """From the plan itself."""
        return cls(
            stages=tuple(StageFacts(stage.stage, stage.op, stage.segment) for stage in plan.stages),
            segments=tuple(
                SegmentFacts(segment.stages, segment.pools, segment.shared, segment.imports)
                for segment in plan.segments
            ),
            blocks=tuple(TaskBlock(*block) for block in task_blocks(plan.tasks)),
            pools=tuple(
                replace(_pool_of(pool), probe_key=probe_key(plan, pool), probe=plan.probes.get(pool.name))
                for pool in plan.placement.pools
            ),
            products=tuple(ProductFacts(product.name, product.stage, product.kind) for product in plan.products),
            merge_pool=plan.placement.merge_pool,
            warnings=plan.warnings,
            events=plan.events,
            workflow=plan.workflow.file.name,
        )

    @classmethod
    def from_json(cls, plan: Mapping[str, Any]) -> RunFacts:  # Any: parsed JSON
        """From the content of `plan.json`."""
        return cls(
            stages=tuple(StageFacts(stage["id"], stage["op"], stage["segment"]) for stage in plan["stages"]),
            segments=tuple(
                SegmentFacts(
                    tuple(segment["stages"]),
                    tuple(segment["pools"]),
                    bool(segment["shared"]),
                    tuple(segment["imports"]),
                )
                for segment in plan["segments"]
            ),
            blocks=tuple(TaskBlock(*block) for block in plan["task_blocks"]),
            pools=tuple(_pool_from_json(pool) for pool in plan["pools"]),
            products=tuple(
                ProductFacts(product["name"], product["stage"], product["kind"]) for product in plan["products"]
            ),
            merge_pool=plan["merge_pool"],
            warnings=tuple(plan["warnings"]),
            events=plan["events"],
            workflow=plan["workflow"],
        )

    def with_probes(self, history: ProbeHistory) -> RunFacts:
        """With the last probe of each pool, which may be younger than the run."""
        known = history.of(pool.probe_key for pool in self.pools if pool.probe_key)
        found = {key: as_seen_by(probe, self.workflow) for key, probe in known.items()}
        return replace(self, pools=tuple(replace(pool, probe=found.get(pool.probe_key)) for pool in self.pools))


def _pool_of(pool: PlacedPool) -> PoolFacts:
    return PoolFacts(
        name=pool.name,
        strategy=pool.strategy,
        slots=pool.slots,
        workers=pool.most_workers,
        cost=pool.cost,
        elastic=pool.elastic is not None,
        fallback=pool.fallback,
        no_worker_for=pool.fallback_when.no_worker_for,
        says_when=pool.fallback_when != FallbackWhen(),
        queue_timeout=pool.queue_timeout,
    )


def _pool_from_json(pool: Mapping[str, Any]) -> PoolFacts:  # Any: parsed JSON
    granted = pool["granted"]
    most = granted["elastic"]["max"] if "elastic" in granted else granted["workers"] or 0
    return PoolFacts(
        name=pool["name"],
        strategy=pool["strategy"],
        slots=granted["slots"],
        workers=most,
        cost=pool["cost"],
        elastic="elastic" in granted,
        fallback=tuple(pool["fallback"]),
        no_worker_for=pool["fallback_when"]["no_worker_for"],
        says_when=FallbackWhen(**pool["fallback_when"]) != FallbackWhen(),
        queue_timeout=pool["queue_timeout"],
        probe_key=pool.get("probe", {}).get("key", ""),
    )
