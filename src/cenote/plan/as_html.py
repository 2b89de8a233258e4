"""Show a plan inside a notebook: its picture, and its stages with their pools."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from cenote.plan.picture.draw import svg
from cenote.plan.plan import Plan
from cenote.text import html_table

MOST_ROWS = 50


def plan_as_html(plan: Plan) -> str:
    """Self-contained: the picture is part of it, as an image that runs and fetches nothing."""
    image = b64encode(svg(plan).encode()).decode()
    rows = []
    written = [stage for stage in plan.stages if not stage.variation]
    for stage in written[:MOST_ROWS]:
        placement = plan.placement.by_stage.get(stage.stage)
        where = (", ".join(placement.pools), placement.reason) if placement is not None else ("", "")
        rows.append((stage.stage, stage.op, *where, f"{stage.tasks:,}"))
    more = len(written) - len(rows)
    words = repr(plan).removeprefix("Plan(").removesuffix(")")
    source, style = f"data:image/svg+xml;base64,{image}", "max-width: 100%; background: #fff"
    parts = [
        f"<p><b>{escape(plan.workflow.file.name)}</b>: {escape(words)}</p>",
        f'<img src="{source}" alt="The plan as a graph of stages" style="{style}">',
        html_table(("stage", "operation", "pools", "why", "tasks"), rows),
        f"<p>… and {more:,} more stages</p>" if more else "",
        *(f"<p>warning: {escape(warning)}</p>" for warning in plan.warnings),
    ]
    return "".join(parts)
