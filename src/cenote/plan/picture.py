"""This file draws a plan: as Mermaid text, as SVG, or as PNG."""

from __future__ import annotations

from pathlib import Path

from cenote.plan.picture_cards import DATA, Card, Link, sketch
from cenote.plan.picture_parts import PALETTE, label_lines
from cenote.plan.picture_scene import compose
from cenote.plan.picture_shapes import as_svg
from cenote.plan.plan import Plan


def svg(plan: Plan) -> str:
    """A standalone picture for browsers, reports and papers."""
    return as_svg(compose(plan))


def png(plan: Plan, path: Path) -> None:
    """The same picture as pixels."""
    from cenote.plan.picture_png import save_png

    save_png(compose(plan), path)


def mermaid(plan: Plan) -> str:
    """A flowchart that code hosts and wikis draw themselves."""
    shown = sketch(plan)
    names = {card.id: f"c{number}" for number, card in enumerate(shown.cards)}
    lines = ["flowchart LR"]
    lines += [_node(card, names[card.id]) for card in shown.cards if card.segment == DATA]
    for frame in shown.frames:
        lines.append(f'  subgraph s{frame.segment}["{_safe(frame.title)}"]')
        lines += [f"  {_node(card, names[card.id])}" for card in shown.cards if card.segment == frame.segment]
        lines.append("  end")
    if shown.left_out:
        lines.append(f'  more["… and {shown.left_out} more segments"]')
    lines += [f"  {names[link.source]} {_arrow(link)} {names[link.target]}" for link in shown.links]
    pools = [pool.name for pool in plan.placement.pools]
    for frame in shown.frames:
        if frame.pools and frame.pools[0] in pools:
            colour = PALETTE[pools.index(frame.pools[0]) % len(PALETTE)]
            lines.append(f"  style s{frame.segment} fill:{colour}1a,stroke:{colour}")
    return "\n".join(lines) + "\n"


def _node(card: Card, name: str) -> str:
    products = [f"{row.title} ({row.product})" if row.product else row.title for row in card.rows]
    text = "<br/>".join(_safe(line) for line in products)
    return f'  {name}[("{text}")]' if card.kind == "data" else f'  {name}["{text}"]'


def _arrow(link: Link) -> str:
    if link.product:
        return "-.->"
    if not link.columns:
        return "-->"
    return f'-- "{"<br/>".join(_safe(line) for line in label_lines(link))}" -->'


def _safe(text: str) -> str:
    """Without the characters that Mermaid reads as its own."""
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
