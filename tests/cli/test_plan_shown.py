"""Test the table of a plan: where stages run and why, who set what, what comes out."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from builders.plans import a_plan, a_segment
from cenote.cli.views.origins import origins_of_pool
from cenote.cli.views.tables.plan import show_plan, worker_in_words, workers_in_words
from cenote.common.errors import Place
from cenote.language.execution import Amounts, Elastic, Pool
from cenote.language.systematics import Origin
from cenote.language.workflow import Workflow
from cenote.planning.placement.pools import PlacedPool, StagePlacement, Verdict
from cenote.planning.plan import Plan, StageSummary


def a_pool(**changes: object) -> PlacedPool:
    pool = PlacedPool(
        spec=Pool("gpu"),
        strategy="local",
        workers=2,
        elastic=None,
        slots=1,
        resources=Amounts(cpus=1, memory=16 * 10**9, gpus=1),
        granted=Amounts(cpus=1, memory=8 * 10**9),
    )
    return replace(pool, **changes)  # type: ignore[arg-type]  # whichever fields a test changes


def a_placed_plan() -> Plan:
    plan = a_plan(
        segments=[a_segment("Index", pools=["high_memory"]), a_segment("MuonPt", needs=["Index"], product=True)]
    )
    placements = (
        StagePlacement("Index", ("high_memory",), Verdict.YES, "requires 'high_memory'"),
        StagePlacement("MuonPt", ("default", "spare"), Verdict.NOT_NOW, "the pool has no workers yet"),
    )
    stages = (
        StageSummary("Index", "custom.index", 0, 4, ("Muon_pt",), ("n",)),
        StageSummary("MuonPt", "hep.hist", 1, 4, ("n",), ()),
    )
    return replace(plan, placement=replace(plan.placement, stages=placements), stages=stages)


def shown(plan: Plan, width: int) -> str:
    file = StringIO()
    show_plan(plan, Console(file=file, width=width, highlight=False, markup=False))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 120, 160])
def test_the_table_tells_every_stage_its_pool_and_why(width: int) -> None:
    told = shown(a_placed_plan(), width)
    for words in ("Index", "custom.index", "high_memory", "requires", "MuonPt", "not now:", "default", "then"):
        assert words in told
    assert max(len(line.rstrip()) for line in told.splitlines()) <= width


def test_a_wide_table_keeps_each_stage_on_a_line() -> None:
    (line,) = [line for line in shown(a_placed_plan(), 160).splitlines() if line.startswith("MuonPt")]
    assert " ".join(line.split()) == "MuonPt hep.hist default, then spare not now: the pool has no workers yet 1 4"


def test_the_totals_count_data_work_and_products() -> None:
    told = shown(a_placed_plan(), 120)
    assert "4 partitions" in told
    assert "2 segments" in told
    assert "MuonPt (histogram)" in told


def test_a_worker_tells_what_was_asked_for_and_what_it_gets() -> None:
    assert worker_in_words(a_pool()) == "1 CPU, 8 GB (asked: 1 CPU, 16 GB, 1 GPU)"
    assert worker_in_words(a_pool(granted=a_pool().resources)) == "1 CPU, 16 GB, 1 GPU"
    assert workers_in_words(a_pool()) == "2"
    assert workers_in_words(a_pool(workers=None, elastic=Elastic(min=0, max=20))) == "0 to 20"


def test_settings_are_grouped_by_who_set_them() -> None:
    start = ("execution", "pools", "gpu")
    here, site = "flow.yaml", "profile site.yaml"
    workflow = Workflow(
        file=Path("flow.yaml"),
        folder=Path(),
        origins={
            start: Origin(here, Place("flow.yaml", 30, 5)),
            (*start, "workers"): Origin("command line"),
            (*start, "resources"): Origin(site, Place("site.yaml", 4, 7)),
            (*start, "resources", "memory"): Origin(site, Place("site.yaml", 5, 7)),
            (*start, "resources", "gpus"): Origin(here, Place("flow.yaml", 31, 7)),
            ("execution", "pools", "gpu2", "workers"): Origin(here, Place("flow.yaml", 40, 7)),
        },
    )
    assert origins_of_pool(workflow, "gpu") == [
        "workers: command line",
        "resources.memory: profile site.yaml:5",
        "resources.gpus: flow.yaml:31",
    ]
    assert origins_of_pool(workflow, "default") == ["built-in"]
