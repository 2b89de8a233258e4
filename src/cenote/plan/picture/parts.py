"""State how the parts of a picture look: cards of stages, labels of what crosses, the heading, the legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cenote.placement.pools import PlacedPool
from cenote.plan.picture.cards import Card, CardRow, Link
from cenote.plan.picture.shapes import Box, Curve, Point, Shape, Words, text_width
from cenote.plan.plan import Plan
from cenote.text import format_amounts, plural

INK, GREY, FAINT = "#1f2933", "#66717e", "#c3cad2"
PALETTE = ("#2f6db3", "#d9822b", "#2e8b6f", "#8a5fb5", "#c2484f", "#3a96b7", "#8c7b2f", "#b0568e")
"""One colour per pool, in the order written; told apart also by people who see red and green alike."""

MARGIN = 28.0
_ROW, _SHORT_ROW, _CONNECTOR, LEGEND_ROW = 32.0, 20.0, 9.0, 22.0
_MOST_COLUMNS_NAMED = 4


def heading(plan: Plan) -> Iterator[Shape]:
    """The name of the workflow, and how much there is to do."""
    stages = sum(len(segment.steps) for segment in plan.segments)
    facts = f"{plural(stages, 'stage')} in {plural(len(plan.segments), 'segment')}, "
    yield Words((MARGIN, MARGIN + 14), plan.workflow.file.name, 18, INK, bold=True)
    yield Words((MARGIN, MARGIN + 34), facts + plural(len(plan.tasks), "task"), 11.5, GREY)


def tint(colour: str, strength: float) -> str:
    """A colour mixed with white."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * strength):02x}" for part in parts)


def card_size(card: Card) -> Point:
    """Room for its rows, whatever the font."""
    chips = [_chip_width(row.product) for row in card.rows if row.product]
    titles = [max(text_width(row.title, 12.5, bold=True), text_width(row.detail, 10)) for row in card.rows]
    space = _CONNECTOR if card.kind == "chain" else 0.0
    height = sum(_row_height(row) for row in card.rows) + (len(card.rows) - 1) * space + 10
    return (max(titles) + max([c + 12 for c in chips], default=0.0) + 22, height)


def _row_height(row: CardRow) -> float:
    return _ROW if row.detail else _SHORT_ROW


def _chip_width(text: str | None) -> float:
    return text_width(text or "", 9.5) + 12


def label_lines(link: Link) -> list[str]:
    """The first few columns that cross, and how many more."""
    if link.product:
        return ["product"]
    named = link.columns if len(link.columns) <= _MOST_COLUMNS_NAMED else link.columns[: _MOST_COLUMNS_NAMED - 1]
    more = len(link.columns) - len(named)
    return [*(_cut(name) for name in named), *([f"+ {more} more"] if more else [])]


def _cut(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def label_size(link: Link) -> Point:
    """Room for its lines; hardly any where nothing is to be said."""
    lines = label_lines(link)
    return (max((text_width(line, 10.5) for line in lines), default=0.0) + 14, 14.0 * len(lines) + 8 if lines else 4.0)


def one_card(card: Card, corner: Point, colour: str) -> Iterator[Shape]:
    """Stages below each other; small arrows join those of a chain."""
    (x, y), (width, height) = corner, card_size(card)
    fill = "#f3f5f7" if card.kind == "data" else "#ffffff"
    yield Box(corner, (width, height), fill, FAINT if card.kind == "data" else tint(colour, 0.45))
    space = _CONNECTOR if card.kind == "chain" else 0.0
    top = y + 5
    for i, row in enumerate(card.rows):
        if i and space:
            yield Curve(((x + 17, top - space - 1), (x + 17, top + 2)), tint(colour, 0.8), line=1.1, upright=True)
        yield Words((x + 11, top + 14), row.title, 12.5, INK, bold=bool(row.detail))
        if row.detail:
            yield Words((x + 11, top + 27), row.detail, 10, GREY)
        if row.product:
            chip = _chip_width(row.product)
            yield Box((x + width - chip - 9, top + 7), (chip, 17), tint(colour, 0.16), "none", radius=8.5, line=0)
            yield Words((x + width - 9 - chip / 2, top + 19), row.product, 9.5, colour, anchor="middle")
        top += _row_height(row) + space


def label_shapes(link: Link, corner: Point) -> Iterator[Shape]:
    """What crosses, on the arrow that it takes."""
    lines, size = label_lines(link), label_size(link)
    if lines:
        yield Box(corner, size, "#ffffff", FAINT, radius=6, line=0.8)
    for i, line in enumerate(lines):
        yield Words((corner[0] + size[0] / 2, corner[1] + 15 + 14 * i), line, 10.5, GREY, anchor="middle")


def pool_in_words(pool: PlacedPool) -> str:
    """`2 workers, each with 8 slots, 8 CPUs, 128 GB`."""
    size = pool.asked_size
    fewest, most = (size.elastic.min, size.elastic.max) if size.elastic else (size.workers or 0, size.workers or 0)
    elastic = f"{fewest} to " if fewest != most else ""
    each = ", ".join(filter(None, (f"{size.slots} slots" if size.slots != 1 else "", format_amounts(pool.resources))))
    return f"{elastic}{plural(most, 'worker')}" + (f"{', each' if most > 1 else ''} with {each}" if each else "")


def legend(pools: Sequence[PlacedPool], colours: Mapping[str, str], top: float) -> Iterator[Shape]:
    """A line per pool: its colour, its name, its workers."""
    for i, pool in enumerate(pools):
        y = top + LEGEND_ROW * i
        yield Box((MARGIN, y), (14, 14), tint(colours[pool.name], 0.25), colours[pool.name], radius=4)
        yield Words((MARGIN + 22, y + 11), pool.name, 12, INK, bold=True)
        yield Words((MARGIN + 34 + text_width(pool.name, 12, bold=True), y + 11), pool_in_words(pool), 11, GREY)
