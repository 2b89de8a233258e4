"""Build plans from a few words per stage, for tests and pictures that are about shape and not about data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cenote.analysis.operations.support.events import DatasetInfo
from cenote.common.machine import Machine
from cenote.common.text import first_to_last
from cenote.language.execution import Pool
from cenote.language.systematics import KeyPath, Origin
from cenote.language.workflow import Execution, Requirement, Stage, Workflow
from cenote.planning.placement.place import place
from cenote.planning.plan import (
    Partition,
    Plan,
    ProductPlan,
    Segment,
    SourceStep,
    StageSummary,
    Step,
    TaskLayout,
    TaskTable,
)


@dataclass(frozen=True)
class StageSketch:
    """A stage in a few words; `pool` is a label that it requires."""

    id: str
    needs: tuple[str, ...] = ()
    pool: str | None = None
    op: str = "hep.define"
    product: str | None = None
    columns: tuple[str, ...] = ("Muon_pt",)
    """What it adds, and what crosses from it to another pool."""


def plan_of(
    stages: Sequence[StageSketch],
    pools: Sequence[Pool],
    *,
    partitions: int = 4,
    origins: Mapping[KeyPath, Origin] | None = None,
) -> Plan:
    """A plan whose neighbouring stages on the same pool form one segment; it has no tasks."""
    workflow = Workflow(
        file=Path("flow.yaml"),
        folder=Path(),
        stages=tuple(
            Stage(s.id, s.op, needs=s.needs, requirement=Requirement(labels=(s.pool,) if s.pool else ()))
            for s in stages
        ),
        execution=Execution(pools=tuple(pools)),
        origins=origins or {},
    )
    placement = place(workflow, Machine(cpus=4, memory=16 * 10**9), on_this_machine=False)
    home = _homes(stages)
    segments = tuple(_segment(index, stages, home, pools) for index in range(max(home.values(), default=-1) + 1))
    none = np.zeros(0, dtype=np.int32)
    starts = np.zeros(1, dtype=np.int64)
    return Plan(
        workflow=workflow,
        placement=placement,
        datasets=(DatasetInfo("data", eventtype="data"), DatasetInfo("zmumu", group="signal")),
        partitions=tuple(Partition("data", "events", f"{i}.root", 0, 10_000) for i in range(partitions)),
        segments=segments,
        tasks=TaskTable(none.astype(np.uint8), none, none, starts, none, starts, none, b""),
        layout=TaskLayout(tuple({i: i for i in range(partitions)} for _ in segments), {}, {}, {}),
        products=tuple(ProductPlan(s.id, s.id, s.product, 0) for s in stages if s.product),
        stages=tuple(StageSummary(s.id, s.op, home[s.id], partitions, (), s.columns) for s in stages),
        warnings=placement.warnings,
        digest="d",
    )


def _homes(stages: Sequence[StageSketch]) -> dict[str, int]:
    """Stage → segment: that of its first input, where that is on the same pool and nothing later lies between."""
    by_id = {stage.id: stage for stage in stages}
    home: dict[str, int] = {}
    newest = -1
    for stage in stages:
        before = [by_id[name] for name in stage.needs]
        latest = max((home[other.id] for other in before), default=-1)
        joins = [other for other in before if other.pool == stage.pool and home[other.id] == latest]
        if joins:
            home[stage.id] = home[joins[0].id]
        else:
            newest += 1
            home[stage.id] = newest
    return home


def _segment(index: int, stages: Sequence[StageSketch], home: Mapping[str, int], pools: Sequence[Pool]) -> Segment:
    own = [stage for stage in stages if home[stage.id] == index]
    abroad = {name for stage in stages if home[stage.id] != index for name in stage.needs if home[name] == index}
    starts = any(not stage.needs for stage in own)
    return Segment(
        index=index,
        name=first_to_last([stage.id for stage in own]),
        steps=tuple(
            Step(s.id, s.op, {}, inputs=s.needs, live=s.columns, adds=s.columns, product=s.product) for s in own
        ),
        scope="partition",
        pools=(own[0].pool or pools[0].name,),
        shared=False,
        source=SourceStep("events", "root_tree", {}, {"data": ("Muon_pt", "Muon_eta", "Muon_phi", "nMuon", "HLT")})
        if starts
        else None,
        root="events",
        imports=tuple({name: None for stage in own for name in stage.needs if home[name] != index}),
        exports={stage.id: stage.columns for stage in own if stage.id in abroad},
        digest=f"segment {index}",
    )
