"""This file composes the picture of a plan: segments as tinted frames, cards of stages in them, arrows between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cenote.placement.pools import PlacedPool
from cenote.placement.resources import all_in_words
from cenote.plan.picture_cards import DATA, Card, Frame, Link, Sketch, sketch
from cenote.plan.picture_layers import Arranged, Edge, Point, arrange
from cenote.plan.picture_shapes import Box, Curve, Drawing, Shape, Words, text_width
from cenote.plan.plan import Plan

INK, GREY, FAINT = "#1f2933", "#66717e", "#c3cad2"
PALETTE = ("#2f6db3", "#d9822b", "#2e8b6f", "#8a5fb5", "#c2484f", "#3a96b7", "#8c7b2f", "#b0568e")
"""One colour per pool, in the order written; told apart also by people who see red and green alike."""

_MARGIN, _PADDING, _HEADER, _TITLE = 28.0, 14.0, 44.0, 52.0
_ROW, _CONNECTOR, _LEGEND_ROW = 32.0, 9.0, 22.0
_INNER_GAP, _OUTER_GAP, _PORT = (26.0, 18.0), (30.0, 26.0), 6.0
_MOST_COLUMNS_NAMED = 4
_TOP_LEFT: Point = (_MARGIN, _MARGIN + _TITLE)


@dataclass(frozen=True)
class _Inside:
    """A segment and the arrangement of its cards."""

    frame: Frame
    cards: Mapping[str, Card]
    arranged: Arranged

    @property
    def size(self) -> Point:
        header = max(text_width(self.frame.title, 14, bold=True), text_width(self.frame.detail, 10.5))
        width = max(self.arranged.width, header) + 2 * _PADDING
        return (width, self.arranged.height + _HEADER + _PADDING)


def compose(plan: Plan) -> Drawing:
    """Where everything goes and how it looks."""
    shown = sketch(plan)
    colours = {pool.name: PALETTE[i % len(PALETTE)] for i, pool in enumerate(plan.placement.pools)}
    insides = {frame.segment: _inside(frame, shown) for frame in shown.frames}
    outer = _arranged_frames(shown, insides)
    used = {name for frame in shown.frames for name in frame.pools} | {plan.placement.merge_pool}
    legend = [pool for pool in plan.placement.pools if pool.name in used]
    below = _TOP_LEFT[1] + outer.height + 30
    shapes: list[Shape] = [*_heading(plan)]
    for segment, inside in insides.items():
        shapes += _frame_shapes(inside, _shift(outer.corners[_frame_id(segment)], _TOP_LEFT), colours)
    shapes += _curves(shown, insides, outer)
    shapes += _card_shapes(shown, insides, outer, colours)
    shapes += [shape for link in shown.links for shape in _label_shapes(link, outer)]
    shapes += _legend(legend, colours, below)
    if shown.left_out:
        shapes.append(Words((_MARGIN, below - 8), f"… and {shown.left_out:,} more segments", 12, GREY))
    names = [text_width(_pool_in_words(pool), 11) + text_width(pool.name, 12, bold=True) + 50 for pool in legend]
    width = max([outer.width, text_width(plan.workflow.file.name, 18, bold=True), 380.0, *names])
    size = (width + 2 * _MARGIN, below + _LEGEND_ROW * len(legend) + _MARGIN)
    return Drawing(size, f"Plan of {plan.workflow.file.name}", tuple(shapes))


def _frame_id(segment: int) -> str:
    return "data" if segment == DATA else f"#{segment}"


def _label_id(link: Link) -> str:
    return f"label {link.source} > {link.target}"


def _shift(point: Point, by: Point) -> Point:
    return (point[0] + by[0], point[1] + by[1])


# Arranging


def _inside(frame: Frame, shown: Sketch) -> _Inside:
    """The cards of a segment, with a port on its left and right edge for each card that others reach."""
    cards = {card.id: card for card in shown.cards if card.segment == frame.segment}
    sizes = {name: _card_size(card) for name, card in cards.items()}
    edges: list[Edge] = []
    leaving: set[str] = set()
    for link in shown.links:
        if link.source in cards and link.target in cards:
            edges.append((link.source, link.target))
        elif link.target in cards:
            edges.append((f"in {link.target}", link.target))
        elif link.source in cards:
            edges.append((link.source, f"out {link.source}"))
            leaving.add(f"out {link.source}")
    ports = dict.fromkeys(name for edge in edges for name in edge if name not in cards)
    sizes.update(dict.fromkeys(ports, (0.0, _PORT)))
    arranged = arrange(sizes, list(dict.fromkeys(edges)), gap=_INNER_GAP, last=frozenset(leaving))
    return _Inside(frame, cards, arranged)


def _arranged_frames(shown: Sketch, insides: Mapping[int, _Inside]) -> Arranged:
    """Frames from left to right, with the labels of what crosses in columns of their own."""
    home = {card.id: card.segment for card in shown.cards}
    sizes = {_frame_id(segment): inside.size for segment, inside in insides.items()}
    sizes["data"] = _card_size(next(card for card in shown.cards if card.segment == DATA))
    edges: list[Edge] = []
    for link in shown.links:
        source, target = home[link.source], home[link.target]
        if source != target:
            sizes[_label_id(link)] = _label_size(link)
            edges += [(_frame_id(source), _label_id(link)), (_label_id(link), _frame_id(target))]
    return arrange(sizes, edges, gap=_OUTER_GAP)


def _card_size(card: Card) -> Point:
    chips = [_chip_width(row.product) for row in card.rows if row.product]
    titles = [max(text_width(row.title, 12.5, bold=True), text_width(row.detail, 10)) for row in card.rows]
    space = _CONNECTOR if card.kind == "chain" else 0.0
    height = len(card.rows) * _ROW + (len(card.rows) - 1) * space + 10
    return (max(titles) + max([c + 12 for c in chips], default=0.0) + 22, height)


def _chip_width(text: str | None) -> float:
    return text_width(text or "", 9.5) + 12


def _label_lines(link: Link) -> list[str]:
    if link.product:
        return ["product"]
    named = link.columns if len(link.columns) <= _MOST_COLUMNS_NAMED else link.columns[: _MOST_COLUMNS_NAMED - 1]
    more = len(link.columns) - len(named)
    return [*(_cut(name) for name in named), *([f"+ {more} more"] if more else [])]


def _cut(name: str) -> str:
    return name if len(name) <= 24 else f"{name[:23]}…"


def _label_size(link: Link) -> Point:
    lines = _label_lines(link)
    return (max((text_width(line, 10.5) for line in lines), default=0.0) + 14, 14.0 * len(lines) + 8 if lines else 4.0)


# Drawing


def _heading(plan: Plan) -> Iterator[Shape]:
    facts = (
        f"{len(plan.stages) or sum(len(s.steps) for s in plan.segments):,} stages in {len(plan.segments):,} segments, "
    )
    yield Words((_MARGIN, _MARGIN + 14), plan.workflow.file.name, 18, INK, bold=True)
    yield Words((_MARGIN, _MARGIN + 34), f"{facts}{len(plan.tasks):,} tasks", 11.5, GREY)


def _tint(colour: str, strength: float) -> str:
    """A colour mixed with white."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - (255 - part) * strength):02x}" for part in parts)


def _colour(frame: Frame, colours: Mapping[str, str]) -> str:
    return colours.get(frame.pools[0], GREY) if frame.pools else GREY


def _frame_shapes(inside: _Inside, corner: Point, colours: Mapping[str, str]) -> Iterator[Shape]:
    colour, (x, y) = _colour(inside.frame, colours), corner
    yield Box(corner, inside.size, _tint(colour, 0.1), _tint(colour, 0.55), radius=14, line=1.4)
    yield Words((x + _PADDING, y + 20), inside.frame.title, 14, colour, bold=True)
    yield Words((x + _PADDING, y + 35), inside.frame.detail, 10.5, GREY)


def _content(inside: _Inside, corner: Point) -> Point:
    """Where the arrangement of a frame begins."""
    spare = inside.size[0] - 2 * _PADDING - inside.arranged.width
    return (corner[0] + _PADDING + spare / 2, corner[1] + _HEADER)


def _card_shapes(
    shown: Sketch, insides: Mapping[int, _Inside], outer: Arranged, colours: Mapping[str, str]
) -> Iterator[Shape]:
    for card in shown.cards:
        corner = _shift(outer.corners[_frame_id(card.segment)], _TOP_LEFT)
        colour = GREY
        if card.segment != DATA:
            inside = insides[card.segment]
            corner = _shift(inside.arranged.corners[card.id], _content(inside, corner))
            colour = _colour(inside.frame, colours)
        yield from _one_card(card, corner, colour)


def _one_card(card: Card, corner: Point, colour: str) -> Iterator[Shape]:
    (x, y), (width, height) = corner, _card_size(card)
    fill = "#f3f5f7" if card.kind == "data" else "#ffffff"
    yield Box(corner, (width, height), fill, FAINT if card.kind == "data" else _tint(colour, 0.45))
    space = _CONNECTOR if card.kind == "chain" else 0.0
    for i, row in enumerate(card.rows):
        top = y + 5 + i * (_ROW + space)
        if i and space:
            yield Curve(((x + 17, top - space - 1), (x + 17, top + 2)), _tint(colour, 0.8), line=1.1, upright=True)
        middle = top + (14 if row.detail else 20)
        yield Words((x + 11, middle), row.title, 12.5, INK, bold=bool(row.detail))
        yield Words((x + 11, middle + 13), row.detail, 10, GREY)
        if row.product:
            chip = _chip_width(row.product)
            yield Box((x + width - chip - 9, top + 7), (chip, 17), _tint(colour, 0.16), "none", radius=8.5, line=0)
            yield Words((x + width - 9 - chip / 2, top + 19), row.product, 9.5, colour, anchor="middle")


def _curves(shown: Sketch, insides: Mapping[int, _Inside], outer: Arranged) -> Iterator[Shape]:
    cards = {card.id: card for card in shown.cards}
    for link in shown.links:
        source, target = cards[link.source], cards[link.target]
        points: list[Point] = []
        if source.segment == target.segment:
            inside = insides[source.segment]
            content = _content(inside, _shift(outer.corners[_frame_id(source.segment)], _TOP_LEFT))
            middle = inside.arranged.bends[(source.id, target.id)]
            points += [
                _right(source, inside, content),
                *(_shift(p, content) for p in middle),
                _left(target, inside, content),
            ]
        else:
            points += [*_leaving(source, insides, outer), *_between(link, source, target, outer)]
            points += _entering(target, insides, outer)
        yield Curve(tuple(points), "#7b8794", dashed=link.product)


def _right(card: Card, inside: _Inside, content: Point) -> Point:
    width, height = _card_size(card)
    return _shift(inside.arranged.corners[card.id], (content[0] + width, content[1] + height / 2))


def _left(card: Card, inside: _Inside, content: Point) -> Point:
    return _shift(inside.arranged.corners[card.id], (content[0], content[1] + _card_size(card)[1] / 2))


def _leaving(card: Card, insides: Mapping[int, _Inside], outer: Arranged) -> list[Point]:
    """From the card to the right edge of its frame."""
    corner = _shift(outer.corners[_frame_id(card.segment)], _TOP_LEFT)
    if card.segment == DATA:
        width, height = _card_size(card)
        return [(corner[0] + width, corner[1] + height / 2)]
    inside = insides[card.segment]
    content, port = _content(inside, corner), f"out {card.id}"
    y = _shift(inside.arranged.corners[port], content)[1] + _PORT / 2
    bends = [_shift(point, content) for point in inside.arranged.bends[(card.id, port)]]
    return [_right(card, inside, content), *bends, (corner[0] + inside.size[0], y)]


def _entering(card: Card, insides: Mapping[int, _Inside], outer: Arranged) -> list[Point]:
    """From the left edge of the card's frame to the card."""
    corner = _shift(outer.corners[_frame_id(card.segment)], _TOP_LEFT)
    inside = insides[card.segment]
    content, port = _content(inside, corner), f"in {card.id}"
    y = _shift(inside.arranged.corners[port], content)[1] + _PORT / 2
    bends = [_shift(point, content) for point in inside.arranged.bends[(port, card.id)]]
    return [(corner[0], y), *bends, _left(card, inside, content)]


def _between(link: Link, source: Card, target: Card, outer: Arranged) -> list[Point]:
    """From frame to frame, through the label."""
    label = _label_id(link)
    (x, y), (width, height) = _shift(outer.corners[label], _TOP_LEFT), _label_size(link)
    before = outer.bends[(_frame_id(source.segment), label)]
    after = outer.bends[(label, _frame_id(target.segment))]
    return [
        *(_shift(point, _TOP_LEFT) for point in before),
        (x, y + height / 2),
        (x + width, y + height / 2),
        *(_shift(point, _TOP_LEFT) for point in after),
    ]


def _label_shapes(link: Link, outer: Arranged) -> Iterator[Shape]:
    lines = _label_lines(link)
    if _label_id(link) not in outer.corners or not lines:
        return
    corner, size = _shift(outer.corners[_label_id(link)], _TOP_LEFT), _label_size(link)
    yield Box(corner, size, "#ffffff", FAINT, radius=6, line=0.8)
    for i, line in enumerate(lines):
        yield Words((corner[0] + size[0] / 2, corner[1] + 15 + 14 * i), line, 10.5, GREY, anchor="middle")


def _pool_in_words(pool: PlacedPool) -> str:
    count = f"{pool.elastic.min} to {pool.elastic.max} workers" if pool.elastic else f"{pool.workers or 0} workers"
    count = count.removesuffix("s") if pool.workers == 1 and not pool.elastic else count
    slots = f" × {pool.slots} slots" if pool.slots > 1 else ""
    return f"{count}{slots}, each asking for {all_in_words(pool.resources)}"


def _legend(pools: Sequence[PlacedPool], colours: Mapping[str, str], top: float) -> Iterator[Shape]:
    for i, pool in enumerate(pools):
        y = top + _LEGEND_ROW * i
        yield Box((_MARGIN, y), (14, 14), _tint(colours[pool.name], 0.25), colours[pool.name], radius=4)
        yield Words((_MARGIN + 22, y + 11), pool.name, 12, INK, bold=True)
        yield Words((_MARGIN + 34 + text_width(pool.name, 12, bold=True), y + 11), _pool_in_words(pool), 11, GREY)
