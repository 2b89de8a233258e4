"""Draw a plan: as Mermaid or DOT text, as SVG, or inside a notebook."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from cenote.common.text import html_table
from cenote.planning.picture.cards import DATA, Card, Link, sketch
from cenote.planning.picture.layers import as_svg
from cenote.planning.picture.scene import INK, PALETTE, compose, label_lines
from cenote.planning.plan import Plan


def svg(plan: Plan) -> str:
    """A standalone picture for browsers, reports and papers."""
    return as_svg(compose(plan))


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


def dot(plan: Plan) -> str:
    """A graph for Graphviz and what reads its language."""
    shown = sketch(plan)
    names = {card.id: f"c{number}" for number, card in enumerate(shown.cards)}
    lines = [
        f"digraph {_quoted(plan.workflow.file.name)} {{",
        "  rankdir=LR; node [shape=box, style=rounded, fontname=Helvetica]; edge [fontname=Helvetica, fontsize=10];",
    ]
    lines += [f"  {_dot_node(card, names[card.id])}" for card in shown.cards if card.segment == DATA]
    pools = [pool.name for pool in plan.placement.pools]
    for frame in shown.frames:
        known = frame.pools and frame.pools[0] in pools
        colour = PALETTE[pools.index(frame.pools[0]) % len(PALETTE)] if known else INK
        title = _quoted(frame.title, frame.detail)
        lines.append(f'  subgraph cluster_s{frame.segment} {{ label={title}; color="{colour}"; fontname=Helvetica;')
        lines += [f"    {_dot_node(card, names[card.id])}" for card in shown.cards if card.segment == frame.segment]
        lines.append("  }")
    if shown.left_out:
        lines.append(f"  more [shape=plaintext, label={_quoted(f'… and {shown.left_out} more segments')}];")
    lines += [f"  {names[link.source]} -> {names[link.target]}{_dot_style(link)};" for link in shown.links]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_node(card: Card, name: str) -> str:
    shape = ", shape=cylinder, style=solid" if card.kind == "data" else ""
    return f"{name} [label={_quoted(*_card_lines(card))}{shape}];"


def _dot_style(link: Link) -> str:
    if link.product:
        return " [style=dashed]"
    return f" [label={_quoted(*label_lines(link))}]" if link.columns else ""


def _quoted(*lines: str) -> str:
    """Lines as one string of DOT, where a backslash and a quote have a meaning of their own."""
    safe = [line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines]
    return '"' + "\\n".join(safe) + '"'


def _card_lines(card: Card) -> list[str]:
    return [f"{row.title} ({row.product})" if row.product else row.title for row in card.rows]


def _node(card: Card, name: str) -> str:
    text = "<br/>".join(_safe(line) for line in _card_lines(card))
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


# Show a plan inside a notebook: its picture, and its stages with their pools.


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
