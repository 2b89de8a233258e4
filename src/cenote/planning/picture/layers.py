"""Arrange boxes in columns from left to right, and write shapes as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from html import escape
from itertools import pairwise
from typing import Literal

from cenote.common.values import dataclass

# Define the shapes that a picture is made of, and write them as SVG.


Point = tuple[float, float]
FONT = "Inter, 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Box:
    """A rectangle with round corners."""

    corner: Point
    size: Point
    fill: str
    stroke: str
    radius: float = 8.0
    line: float = 1.0


@dataclass(frozen=True)
class Words:
    """One line of text; `at` is on its base line."""

    at: Point
    text: str
    size: float
    colour: str
    bold: bool = False
    anchor: Literal["start", "middle", "end"] = "start"


@dataclass(frozen=True)
class Curve:
    """A line that leaves and enters every point horizontally, with an arrow head at its end."""

    points: tuple[Point, ...]
    colour: str
    line: float = 1.4
    dashed: bool = False
    upright: bool = False
    """Straight down instead: between the rows of a card."""


Shape = Box | Words | Curve


@dataclass(frozen=True)
class Drawing:
    """Shapes in the order in which they are painted."""

    size: Point
    title: str
    shapes: tuple[Shape, ...]


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a line is, near enough for any sans-serif font to fit."""
    units = sum(
        0.34 if c in "iljtfrI.,:;'|()[] " else 0.92 if c in "mwMW@%" else 0.68 if c.isupper() else 0.6 for c in text
    )
    return units * size * (1.07 if bold else 1.0)


def controls(curve: Curve) -> list[tuple[Point, Point, Point]]:
    """The curve as cubic pieces: two control points and an end each."""
    pieces = []
    for (x0, y0), (x1, y1) in zip(curve.points, curve.points[1:], strict=False):
        middle = (x0 + x1) / 2
        pieces.append(((x0, y0), (x1, y1), (x1, y1)) if curve.upright else ((middle, y0), (middle, y1), (x1, y1)))
    return pieces


def arrow_head(curve: Curve) -> tuple[Point, Point, Point]:
    """The triangle at the end of a curve."""
    x, y = curve.points[-1]
    reach = 4.0 + 2 * curve.line
    half = reach * 0.5
    if curve.upright:
        return ((x, y), (x - half, y - reach), (x + half, y - reach))
    return ((x, y), (x - reach, y - half), (x - reach, y + half))


def as_svg(drawing: Drawing) -> str:
    """A standalone SVG file."""
    width, height = drawing.size
    page = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {page} role="img" font-family="{FONT}">',
        f"<title>{escape(drawing.title, quote=False)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        *(_svg(shape) for shape in drawing.shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _svg(shape: Shape) -> str:
    match shape:
        case Box((x, y), (width, height)):
            return (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{shape.radius:g}" '
                f'fill="{shape.fill}" stroke="{shape.stroke}" stroke-width="{shape.line:g}"/>'
            )
        case Words((x, y), text):
            weight = ' font-weight="600"' if shape.bold else ""
            return (
                f'<text x="{x:.1f}" y="{y:.1f}" font-size="{shape.size:g}"{weight} fill="{shape.colour}" '
                f'text-anchor="{shape.anchor}">{escape(text, quote=False)}</text>'
            )
        case Curve():
            return _svg_curve(shape)


def _svg_curve(curve: Curve) -> str:
    def at(*points: Point) -> str:
        return " ".join(f"{x:.1f} {y:.1f}" for x, y in points)

    path = f"M{at(curve.points[0])}" + "".join(f" C{at(*piece)}" for piece in controls(curve))
    dashes = ' stroke-dasharray="5 4"' if curve.dashed else ""
    return (
        f'<path d="{path}" fill="none" stroke="{curve.colour}" stroke-width="{curve.line:g}"{dashes}/>'
        f'<path d="M{at(*arrow_head(curve))}Z" fill="{curve.colour}"/>'
    )


Edge = tuple[str, str]
_SWEEPS = 8
_BEND = 4.0
"""Height that is kept free for an arrow which passes a column."""


@dataclass(frozen=True)
class Arranged:
    """Where everything is; the origin is the upper left corner."""

    corners: Mapping[str, Point]
    """The upper left corner of each box."""
    bends: Mapping[Edge, tuple[Point, ...]]
    """Points that an arrow passes on its way through the columns in between: pairs, in and out of each."""
    width: float
    height: float


def arrange(
    sizes: Mapping[str, Point],
    edges: Sequence[Edge],
    *,
    gap: Point,
    last: frozenset[str] = frozenset(),
    anchors: Mapping[str, float] | None = None,
) -> Arranged:
    """Columns by the longest way to each box, then an order with few crossings, then heights near the neighbours.

    Edges must not form a circle. `last` are boxes that stand in a column behind all others. `anchors` says how far
    below its middle a box has its arrows.
    """
    ranks = _ranks(sizes, edges, last)
    passing = {
        edge: [f"{edge[0]}>{edge[1]}@{rank}" for rank in range(ranks[edge[0]] + 1, ranks[edge[1]])]
        for edge in dict.fromkeys(edges)
    }
    all_ranks = dict(ranks)
    for edge, names in passing.items():
        all_ranks.update({name: ranks[edge[0]] + 1 + i for i, name in enumerate(names)})
    heights = {name: sizes[name][1] if name in sizes else _BEND for name in all_ranks}
    steps = [step for edge, names in passing.items() for step in zip([edge[0], *names], [*names, edge[1]], strict=True)]
    columns = _ordered(_columns(all_ranks), steps)
    middles = _middles(columns, steps, heights, gap=gap[1], anchors=anchors or {})
    return _finished(columns, middles, sizes, passing, gap)


def _ranks(sizes: Mapping[str, Point], edges: Sequence[Edge], last: frozenset[str]) -> dict[str, int]:
    before: dict[str, list[str]] = {name: [] for name in sizes}
    for source, target in edges:
        before[target].append(source)
    ranks: dict[str, int] = {}
    for name in TopologicalSorter(before).static_order():
        ranks[name] = max((ranks[other] + 1 for other in before[name]), default=0)
    final = max((rank + 1 for name, rank in ranks.items() if name not in last), default=0)
    return {name: final if name in last else ranks[name] for name in sizes}


def _columns(ranks: Mapping[str, int]) -> list[list[str]]:
    columns: list[list[str]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for name, rank in ranks.items():
        columns[rank].append(name)
    return columns


def _neighbours(steps: Sequence[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for source, target in steps:
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    return before, after


def _ordered(columns: list[list[str]], steps: Sequence[Edge]) -> list[list[str]]:
    """Sweep forth and back, each time sorting a column by the average position of its neighbours; keep the best."""
    before, after = _neighbours(steps)
    best, fewest = [list(column) for column in columns], _crossings(columns, after)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        order = range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1)
        for index in order:
            beside = columns[index - 1 if forward else index + 1]
            position = {name: i for i, name in enumerate(beside)}
            near = before if forward else after
            columns[index].sort(key=lambda name: _mean([position[n] for n in near.get(name, ()) if n in position]))
        crossings = _crossings(columns, after)
        if crossings < fewest:
            best, fewest = [list(column) for column in columns], crossings
    return best


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _crossings(columns: Sequence[Sequence[str]], after: Mapping[str, Sequence[str]]) -> int:
    total = 0
    for left, right in pairwise(columns):
        position = {name: i for i, name in enumerate(right)}
        ends = [sorted(position[name] for name in after.get(source, ()) if name in position) for source in left]
        seen: list[int] = []
        for targets in ends:
            total += sum(1 for target in targets for other in seen if other > target)
            seen += targets
    return total


def _middles(
    columns: Sequence[Sequence[str]],
    steps: Sequence[Edge],
    heights: Mapping[str, float],
    *,
    gap: float,
    anchors: Mapping[str, float],
) -> dict[str, float]:
    """The middle of each box: near its neighbours, in the order of its column, without overlap."""
    before, after = _neighbours(steps)
    middles: dict[str, float] = {}
    for column in columns:
        top = -sum(heights[name] + gap for name in column) / 2
        for name in column:
            middles[name] = top + heights[name] / 2
            top += heights[name] + gap
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            near = before if forward else after
            wanted = [
                _mean([middles[n] + anchors.get(n, 0.0) for n in near[name]]) - anchors.get(name, 0.0)
                if near.get(name)
                else middles[name]
                for name in column
            ]
            middles.update(zip(column, _spread(wanted, [heights[name] for name in column], gap), strict=True))
    return middles


def _spread(wanted: Sequence[float], heights: Sequence[float], gap: float) -> list[float]:
    """As near to the wanted middles as the order and the gaps allow: blocks that collide settle at their average."""
    offsets = [0.0]
    for above, below in pairwise(heights):
        offsets.append(offsets[-1] + (above + below) / 2 + gap)
    blocks: list[tuple[float, int]] = []
    for middle, offset in zip(wanted, offsets, strict=False):
        block = (middle - offset, 1)
        while blocks and blocks[-1][0] > block[0]:
            value, count = blocks.pop()
            block = ((value * count + block[0] * block[1]) / (count + block[1]), count + block[1])
        blocks.append(block)
    settled = [value for value, count in blocks for _ in range(count)]
    return [value + offset for value, offset in zip(settled, offsets, strict=False)]


def _finished(
    columns: Sequence[Sequence[str]],
    middles: Mapping[str, float],
    sizes: Mapping[str, Point],
    passing: Mapping[Edge, Sequence[str]],
    gap: Point,
) -> Arranged:
    widths = [max((sizes[name][0] for name in column if name in sizes), default=0.0) for column in columns]
    lefts = [sum(widths[:i]) + gap[0] * i for i in range(len(columns))]
    rank = {name: i for i, column in enumerate(columns) for name in column}
    top = min((middles[name] - (sizes[name][1] if name in sizes else _BEND) / 2 for name in rank), default=0.0)
    bottom = max((middles[name] + (sizes[name][1] if name in sizes else _BEND) / 2 for name in rank), default=0.0)
    corners = {name: (lefts[rank[name]], middles[name] - height / 2 - top) for name, (_, height) in sizes.items()}
    bends = {
        edge: tuple(
            (x, middles[name] - top)
            for name in names
            for x in (lefts[rank[name]], lefts[rank[name]] + widths[rank[name]])
        )
        for edge, names in passing.items()
    }
    return Arranged(corners, bends, sum(widths) + gap[0] * max(0, len(widths) - 1), bottom - top)
