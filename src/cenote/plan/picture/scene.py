"""Compose the picture of a plan: segments as tinted frames, cards of stages in them, arrows between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cenote.plan.picture.cards import DATA, Card, Frame, Link, Sketch, sketch
from cenote.plan.picture.layers import Arranged, Edge, arrange
from cenote.plan.picture.parts import (
    GREY,
    LEGEND_ROW,
    MARGIN,
    PALETTE,
    card_size,
    heading,
    label_shapes,
    label_size,
    legend,
    one_card,
    pool_in_words,
    tint,
)
from cenote.plan.picture.shapes import Box, Curve, Drawing, Point, Shape, Words, text_width
from cenote.plan.plan import Plan
from cenote.values import dataclass

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
