"""Write `report.html` of a run: read the run's records, fill the template, put the page in place."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec.structs import replace

from cenote.common import storage
from cenote.execution.runs.changed.code import without_variations
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runs.summary import PoolRecord, StageRecord, Summary
from cenote.execution.runs.view.task_names import TaskNames, products_for_people, stages_for_people
from cenote.execution.runs.view.timeline import read_timeline
from cenote.planning.record import PlannedPool, PlannedStage, PlanRecord
from cenote.report.products_shown import data_uri, read_pictures, read_tables, shown_modifiers
from cenote.report.records import read_all
from cenote.report.render import render
from cenote.report.timeline import task_timeline, timeline


def write_report(folder: Path) -> Path:
    """Make the page in the folder of a run and return where it is. The file is whole whenever it is there."""
    run = RunFolder(folder)
    return storage.write_text(run.report, page(run))


def page(run: RunFolder) -> str:
    """The whole document. A record that is missing or damaged costs what it would have said."""
    plan, summary, provenance = read_all(run)
    work = read_timeline(run)
    return render(
        "page.html.j2",
        name=plan.workflow or Path(provenance.workflow.file).name or run.path.name,
        summary=summary,
        plan=plan,
        provenance=provenance,
        command=shlex.join(provenance.command) if provenance.command else "",
        stages=_stages(plan, summary),
        pools=_pools(plan, summary),
        why=without_variations(summary.why, {stage.id: stage.variation_of for stage in plan.stages})[0],
        warnings=list(dict.fromkeys((*plan.warnings, *summary.warnings))),
        drawing=_drawing(run),
        pictures=read_pictures(run, summary.products),
        tables=read_tables(run, [product for product, _ in products_for_people(summary.products, summary.stages)]),
        pool_lanes=timeline(work),
        task_lanes=task_timeline(work, TaskNames(plan)),
        modifiers=shown_modifiers(run, summary),
    )


def _stages(plan: PlanRecord, summary: Summary) -> list[tuple[PlannedStage, StageRecord]]:
    """As planned and as run, in the order of the plan; those that only the summary knows come last."""
    planned = {one.id: one for one in plan.stages}
    ran = {one.id: one for one in summary.stages}
    ran |= {name: _not_run(stage) for name, stage in planned.items() if name not in ran}
    rows = stages_for_people([ran[name] for name in dict.fromkeys((*planned, *ran))])
    return [
        (replace(planned.get(stage.id, PlannedStage("")), id=words), replace(stage, id=words)) for words, stage in rows
    ]


def _not_run(stage: PlannedStage) -> StageRecord:
    of, variation = stage.variation_of, stage.variation
    return StageRecord(stage.id, stage.op, stage.segment, tasks=stage.tasks, variation_of=of, variation=variation)


def _pools(plan: PlanRecord, summary: Summary) -> list[tuple[PlannedPool, PoolRecord]]:
    planned = {one.name: one for one in plan.pools}
    ran = {one.name: one for one in summary.pools}
    return [
        (planned.get(name, PlannedPool(name)), ran.get(name) or PoolRecord(name, planned[name].strategy, "–"))
        for name in dict.fromkeys((*planned, *ran))
    ]


def _drawing(run: RunFolder) -> str:
    """The plan, within the page; empty where there is none."""
    try:
        drawing = run.picture.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
    return data_uri(drawing.encode(), run.picture.suffix) if drawing else ""
