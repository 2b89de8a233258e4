"""Write the sections about the work: the plan, the stages, the pools and when they were busy."""

from __future__ import annotations

import base64

from cenote.report.markup import Markup, element, joined
from cenote.report.run_record import RunRecord, SegmentRecord, StageRecord
from cenote.report.tables import Cell, badge, bar, clock, count, folded, table
from cenote.report.task_timeline import task_timeline
from cenote.report.timeline import timeline
from cenote.runs.pool_words import pool_word
from cenote.text import plural
from cenote.units import format_bytes, format_count, format_seconds

NOTHING = Cell("–")


def plan(run: RunRecord) -> Markup | None:
    """The picture of the plan, and why each stage runs where it does."""
    if not run.stages:
        return None
    rows = [
        (
            stage.id,
            element("code", stage.op),
            ", ".join(stage.planned_pools) or "–",
            _verdict(stage.verdict),
            stage.reason or "–",
            Cell("–" if stage.segment is None else str(stage.segment), stage.segment),
        )
        for stage in run.stages
    ]
    why = table(("Stage", "Operation", "Pools", "Fits", "Why", "Segment"), rows, caption="Where each stage may run")
    return joined(_picture(run), folded("Why each stage runs where it does", why))


def _verdict(verdict: str) -> Markup | str:
    kind = {"yes": "succeeded", "not now": "partial", "never": "failed"}.get(verdict)
    return badge(verdict, kind) if kind else "–"


def _picture(run: RunRecord) -> Markup:
    """The plan's own drawing as an image: within one, a browser runs nothing and fetches nothing."""
    if run.picture:
        data = base64.b64encode(run.picture.encode()).decode()
        stages = ", ".join(stage.id for stage in run.stages)
        image = element("img", src=f"data:image/svg+xml;base64,{data}", alt=f"The plan as a graph of stages: {stages}")
        return element("figure", image, class_="paper plan")
    if not run.segments:
        return element("ol", (element("li", stage.id) for stage in run.stages), class_="flow")
    return element("ol", (_segment(segment) for segment in run.segments), class_="flow")


def _segment(segment: SegmentRecord) -> Markup:
    return element(
        "li",
        element("span", " or ".join(segment.pools) or "–", class_="pool"),
        element("ul", (element("li", stage) for stage in segment.stages)),
        element("span", plural(segment.tasks, "task"), class_="detail"),
    )


def stages(run: RunRecord) -> Markup | None:
    """What each stage did."""
    if not run.stages:
        return None
    longest = max(stage.seconds for stage in run.stages) or 1.0
    headings = (
        *("Stage", "Operation", "Ran on", "Tasks", "Done", "Failed", "Time"),
        *("Peak memory", "Events in", "Events out", "Kept", "Events/s"),
    )
    return table(headings, (_stage(stage, longest) for stage in run.stages), caption="Stages, in the order written")


def _stage(stage: StageRecord, longest: float) -> tuple[str | Markup | Cell, ...]:
    where = ", ".join(f"{pool} ({tasks})" for pool, tasks in stage.pools) or "–"
    done = f"{stage.done} ({stage.reused} reused)" if stage.reused else str(stage.done)
    failed = Cell(badge(str(stage.failed), "failed"), stage.failed) if stage.failed else count(0)
    kept = stage.events_out / stage.events_in if stage.events_in else None
    return (
        stage.id,
        element("code", stage.op),
        where,
        count(stage.tasks),
        Cell(done, stage.done),
        failed,
        Cell(bar(stage.seconds / longest, format_seconds(stage.seconds)), stage.seconds),
        Cell(format_bytes(stage.peak_memory), stage.peak_memory) if stage.peak_memory else NOTHING,
        count(stage.events_in),
        count(stage.events_out),
        NOTHING if kept is None else Cell(f"{kept:.1%}", kept),
        NOTHING if stage.rate is None else Cell(format_count(stage.rate), stage.rate),
    )


def pools(run: RunRecord) -> Markup | None:
    """What each pool offered, how well it was used, and when."""
    if not run.pools:
        return None
    rows = []
    for pool in run.pools:
        whole = pool.busy + pool.idle
        lost = Cell(badge(str(pool.workers_lost), "failed"), pool.workers_lost) if pool.workers_lost else count(0)
        used = pool.busy / whole if whole else None
        rows.append(
            (
                pool.name,
                pool.strategy or "–",
                _state(pool.state),
                pool.resources,
                Cell(f"{pool.workers} × {pool.slots}"),
                count(pool.workers_started),
                lost,
                count(pool.tasks),
                Cell(format_seconds(pool.busy), pool.busy),
                Cell(format_seconds(pool.idle), pool.idle),
                NOTHING if used is None else Cell(bar(used, f"{used:.0%}"), used),
                NOTHING if pool.cost is None else Cell(f"{pool.cost:.4g}", pool.cost),
            )
        )
    headings = (
        *("Pool", "Strategy", "State", "One worker has", "Workers × slots", "Started", "Lost"),
        *("Tasks", "Slots busy", "Idle", "Use", "Cost"),
    )
    return joined(
        table(headings, rows, caption="Pools, in the order written"),
        timeline(run.timeline),
        task_timeline(run.timeline, run.task_names),
    )


def _state(state: str) -> Markup:
    word = pool_word(state)
    return joined(word.short, element("span", word.meaning, class_="detail") if word.meaning else None)


def fallbacks(run: RunRecord) -> Markup | None:
    """Work that ran elsewhere than first meant."""
    if not run.fallbacks:
        return None
    rows = [
        (one.stage, Cell(one.task), one.from_pool, one.to_pool, one.reason, clock(one.at) or "–")
        for one in run.fallbacks
    ]
    return table(("Stage", "Task", "From", "To", "Reason", "When"), rows, caption="Tasks that moved to another pool")
