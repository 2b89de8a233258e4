"""Define the shapes that a picture is made of, and write them as SVG."""

from __future__ import annotations

from html import escape
from typing import Literal

from cenote.values import dataclass

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
