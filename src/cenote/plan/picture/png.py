"""Paint shapes as a PNG. It imports matplotlib, so nobody imports it before a PNG is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Patch, PathPatch, Polygon
from matplotlib.path import Path as Outline

from cenote.plan.picture.shapes import Box, Curve, Drawing, Words, arrow_head, controls

_MOST_PIXELS = 12_000
"""On the longer side: larger pictures are scaled down."""
_SIDES: dict[str, Literal["left", "center", "right"]] = {"start": "left", "middle": "center", "end": "right"}


def save_png(drawing: Drawing, path: Path) -> None:
    """The drawing as pixels, two for each unit of length."""
    width, height = drawing.size
    dpi = 72 * min(2.0, _MOST_PIXELS / max(width, height))
    figure = Figure(figsize=(width / 72, height / 72), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    for order, shape in enumerate(drawing.shapes):
        if isinstance(shape, Words):
            _paint_words(axes, shape, order)
        else:
            for patch in _patches(shape):
                patch.set_zorder(order)
                axes.add_patch(patch)
    figure.savefig(path, format="png", dpi=dpi)


def _paint_words(axes: Axes, words: Words, order: int) -> None:
    axes.text(
        *words.at,
        words.text,
        fontsize=words.size * 0.93,  # the font that comes with matplotlib is wider than those of browsers
        fontfamily="DejaVu Sans",
        color=words.colour,
        fontweight="bold" if words.bold else "normal",
        ha=_SIDES[words.anchor],
        va="baseline",
        zorder=order,
        parse_math=False,
    )


def _patches(shape: Box | Curve) -> list[Patch]:
    if isinstance(shape, Box):
        (x, y), (width, height) = shape.corner, shape.size
        style = f"round,pad=0,rounding_size={min(shape.radius, width / 2, height / 2)}"
        box = FancyBboxPatch((x, y), width, height, boxstyle=style)
        box.set(facecolor=shape.fill, edgecolor=shape.stroke, linewidth=shape.line)
        return [box]
    pieces = controls(shape)
    vertices = [shape.points[0], *(point for piece in pieces for point in piece)]
    codes = [Outline.MOVETO, *([Outline.CURVE4] * (3 * len(pieces)))]
    line = PathPatch(Outline(vertices, codes), facecolor="none", edgecolor=shape.colour, linewidth=shape.line)
    line.set_linestyle((0, (4, 3)) if shape.dashed else "solid")
    return [line, Polygon(arrow_head(shape), closed=True, facecolor=shape.colour, edgecolor="none")]
