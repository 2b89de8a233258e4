"""Draw when each pool was busy, as a small picture within the page."""

from __future__ import annotations

from cenote.report.markup import Markup, element
from cenote.report.run_record import Timeline
from cenote.units import format_seconds

WIDTH, LANE, LEFT, GAP = 960.0, 44.0, 130.0, 10.0


def timeline(work: Timeline) -> Markup | None:
    """One lane per pool: the number of tasks that ran, over the course of the run."""
    if not work.pools:
        return None
    height = len(work.pools) * (LANE + GAP) + 26
    highest = ", ".join(f"{pool} up to {max(running):.3g}" for pool, running in work.pools)
    title = f"Tasks running at once over {format_seconds(work.seconds)}: {highest}"
    lanes = [_lane(pool, running, index) for index, (pool, running) in enumerate(work.pools)]
    drawing = element(
        "svg",
        element("title", title),
        lanes,
        label(LEFT, height - 6, "0", "start"),
        label(WIDTH, height - 6, format_seconds(work.seconds), "end"),
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_label=title,
    )
    return element("figure", drawing, element("figcaption", "Tasks running at once in each pool"), class_="timeline")


def _lane(pool: str, running: tuple[float, ...], index: int) -> Markup:
    base = index * (LANE + GAP) + LANE + 4
    most = max(running) or 1.0
    step = (WIDTH - LEFT) / len(running)
    points = [f"{LEFT:.1f},{base:.1f}"]
    for place, value in enumerate(running):
        y = base - LANE * value / most
        points += [f"{LEFT + place * step:.1f},{y:.1f}", f"{LEFT + (place + 1) * step:.1f},{y:.1f}"]
    points.append(f"{WIDTH:.1f},{base:.1f}")
    return element(
        "g",
        label(LEFT - 12, base - LANE / 2, pool if len(pool) <= 16 else f"{pool[:15]}…", "end"),
        label(LEFT - 12, base - LANE / 2 + 15, f"up to {most:.3g}", "end", class_="quiet"),
        element("polygon", points=" ".join(points), class_=f"lane lane{index % 5}"),
        element("line", x1=f"{LEFT:.0f}", x2=f"{WIDTH:.0f}", y1=f"{base:.1f}", y2=f"{base:.1f}"),
    )


def label(x: float, y: float, text: str, anchor: str, *, class_: str | None = None) -> Markup:
    """Words at a point."""
    return element("text", text, x=f"{x:.0f}", y=f"{y:.0f}", text_anchor=anchor, class_=class_)
