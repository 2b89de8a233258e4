"""Compose the picture of a plan: segments as tinted frames, cards of stages in them, arrows between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cenote.common.text import format_amounts, plural
from cenote.common.values import dataclass
from cenote.planning.picture.cards import DATA, Card, CardRow, Frame, Link, Sketch, sketch
from cenote.planning.picture.layers import Arranged, Box, Curve, Drawing, Edge, Point, Shape, Words, arrange, text_width
from cenote.planning.placement.pools import PlacedPool
from cenote.planning.plan import Plan

# State how the parts of a picture look: cards of stages, labels of what crosses, the heading, the legend.


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


_PADDING, _HEADER, _TITLE = 14.0, 44.0, 52.0
_INNER_GAP, _OUTER_GAP, _PORT = (26.0, 18.0), (30.0, 26.0), 6.0
_TOP_LEFT: Point = (MARGIN, MARGIN + _TITLE)


@dataclass(frozen=True)
class _Inside:
    """A segment and the arrangement of its cards."""

    frame: Frame
    cards: Mapping[str, Card]
    arranged: Arranged

    @property
    def left(self) -> float:
        """The free space before the cards: arrows that come in bring their own."""
        return 0.0 if any(name.startswith("in|") for name, _ in self.arranged.bends) else _PADDING

    @property
    def right(self) -> float:
        """The free space behind the cards."""
        return 0.0 if any(name.startswith("out|") for _, name in self.arranged.bends) else _PADDING

    @property
    def size(self) -> Point:
        header = max(text_width(self.frame.title, 14, bold=True), text_width(self.frame.detail, 10.5)) + 2 * _PADDING
        width = max(self.arranged.width + self.left + self.right, header)
        return (width, self.arranged.height + _HEADER + _PADDING)

    @property
    def anchor(self) -> float:
        """How far below the middle of the frame its arrows are, on average."""
        ports = [y for name, (_, y) in self.arranged.corners.items() if name not in self.cards]
        middle = sum(ports) / len(ports) + _PORT / 2 if ports else self.arranged.height / 2
        return _HEADER + middle - self.size[1] / 2


def compose(plan: Plan) -> Drawing:
    """Where everything goes and how it looks."""
    shown = sketch(plan)
    colours = {pool.name: PALETTE[i % len(PALETTE)] for i, pool in enumerate(plan.placement.pools)}
    insides = {frame.segment: _inside(frame, shown) for frame in shown.frames}
    outer = _arranged_frames(shown, insides)
    used = {name for frame in shown.frames for name in frame.pools} | {plan.placement.merge_pool}
    pools = [pool for pool in plan.placement.pools if pool.name in used]
    below = _TOP_LEFT[1] + outer.height + 30
    shapes: list[Shape] = [*heading(plan)]
    for segment, inside in insides.items():
        shapes += _frame_shapes(inside, _shift(outer.corners[_frame_id(segment)], _TOP_LEFT), colours)
    shapes += _curves(shown, insides, outer)
    shapes += _card_shapes(shown, insides, outer, colours)
    for link in shown.links:
        if _label_id(link) in outer.corners:
            shapes += label_shapes(link, _shift(outer.corners[_label_id(link)], _TOP_LEFT))
    shapes += legend(pools, colours, below)
    if shown.left_out:
        shapes.append(Words((MARGIN, below - 8), f"… and {shown.left_out:,} more segments", 12, GREY))
    names = [text_width(pool_in_words(pool), 11) + text_width(pool.name, 12, bold=True) + 50 for pool in pools]
    width = max([outer.width, text_width(plan.workflow.file.name, 18, bold=True), 380.0, *names])
    size = (width + 2 * MARGIN, below + LEGEND_ROW * len(pools) + MARGIN)
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
    sizes = {name: card_size(card) for name, card in cards.items()}
    edges: list[Edge] = []
    leaving: set[str] = set()
    for link in shown.links:
        if link.source in cards and link.target in cards:
            edges.append((link.source, link.target))
        elif link.target in cards:
            edges.append((f"in|{link.target}", link.target))
        elif link.source in cards:
            edges.append((link.source, f"out|{link.source}"))
            leaving.add(f"out|{link.source}")
    ports = dict.fromkeys(name for edge in edges for name in edge if name not in cards)
    sizes.update(dict.fromkeys(ports, (0.0, _PORT)))
    arranged = arrange(sizes, list(dict.fromkeys(edges)), gap=_INNER_GAP, last=frozenset(leaving))
    return _Inside(frame, cards, arranged)


def _arranged_frames(shown: Sketch, insides: Mapping[int, _Inside]) -> Arranged:
    """Frames from left to right, with the labels of what crosses in columns of their own."""
    segment_of = {card.id: card.segment for card in shown.cards}
    sizes = {_frame_id(segment): inside.size for segment, inside in insides.items()}
    sizes["data"] = card_size(next(card for card in shown.cards if card.segment == DATA))
    edges: list[Edge] = []
    for link in shown.links:
        source, target = segment_of[link.source], segment_of[link.target]
        if source != target:
            sizes[_label_id(link)] = label_size(link)
            edges += [(_frame_id(source), _label_id(link)), (_label_id(link), _frame_id(target))]
    anchors = {_frame_id(segment): inside.anchor for segment, inside in insides.items()}
    return arrange(sizes, edges, gap=_OUTER_GAP, anchors=anchors)


# Drawing


def _colour(frame: Frame, colours: Mapping[str, str]) -> str:
    return colours.get(frame.pools[0], GREY) if frame.pools else GREY


def _frame_shapes(inside: _Inside, corner: Point, colours: Mapping[str, str]) -> Iterator[Shape]:
    colour, (x, y) = _colour(inside.frame, colours), corner
    yield Box(corner, inside.size, tint(colour, 0.1), tint(colour, 0.55), radius=14, line=1.4)
    yield Words((x + _PADDING, y + 20), inside.frame.title, 14, colour, bold=True)
    yield Words((x + _PADDING, y + 35), inside.frame.detail, 10.5, GREY)


def _content(inside: _Inside, corner: Point) -> Point:
    """Where the arrangement of a frame begins."""
    return (corner[0] + inside.left, corner[1] + _HEADER)


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
        yield from one_card(card, corner, colour)


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
                _end(source, inside, content, right=True),
                *(_shift(p, content) for p in middle),
                _end(target, inside, content, right=False),
            ]
        else:
            points += _within_frame(source, insides, outer, leaving=True)
            points += _between(link, source, target, outer)
            points += _within_frame(target, insides, outer, leaving=False)
        yield Curve(tuple(points), "#7b8794", dashed=link.product)


def _end(card: Card, inside: _Inside, content: Point, *, right: bool) -> Point:
    """The middle of its right edge, where arrows leave, or of its left edge, where they come in."""
    width, height = card_size(card)
    return _shift(inside.arranged.corners[card.id], (content[0] + width * right, content[1] + height / 2))


def _within_frame(card: Card, insides: Mapping[int, _Inside], outer: Arranged, *, leaving: bool) -> list[Point]:
    """From the card to the right edge of its frame, or from the left edge to the card."""
    corner = _shift(outer.corners[_frame_id(card.segment)], _TOP_LEFT)
    if card.segment == DATA:
        width, height = card_size(card)
        return [(corner[0] + width, corner[1] + height / 2)]
    inside = insides[card.segment]
    content, port = _content(inside, corner), f"{'out' if leaving else 'in'}|{card.id}"
    y = _shift(inside.arranged.corners[port], content)[1] + _PORT / 2
    edge = (card.id, port) if leaving else (port, card.id)
    bends = [_shift(point, content) for point in inside.arranged.bends[edge]]
    end = _end(card, inside, content, right=leaving)
    return [end, *bends, (corner[0] + inside.size[0], y)] if leaving else [(corner[0], y), *bends, end]


def _between(link: Link, source: Card, target: Card, outer: Arranged) -> list[Point]:
    """From frame to frame, through the label."""
    label = _label_id(link)
    (x, y), (width, height) = _shift(outer.corners[label], _TOP_LEFT), label_size(link)
    before = outer.bends[(_frame_id(source.segment), label)]
    after = outer.bends[(label, _frame_id(target.segment))]
    return [
        *(_shift(point, _TOP_LEFT) for point in before),
        (x, y + height / 2),
        (x + width, y + height / 2),
        *(_shift(point, _TOP_LEFT) for point in after),
    ]
