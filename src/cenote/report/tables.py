"""Write tables, bars and words that several sections share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from cenote.report.markup import Child, Markup, element, joined


@dataclass(frozen=True)
class Cell:
    """A cell whose text and sorting value differ: `1.2 GB` and 1200000000."""

    content: Child
    value: float | None = None
    is_number: bool = True


Content = Child | Cell


def table(headings: Sequence[str], rows: Iterable[Sequence[Content]], *, caption: str) -> Markup:
    """A table; the first cell of a row is its heading. Columns of numbers stand to the right and can be sorted."""
    body = list(rows)
    numeric = [any(isinstance(row[i], Cell) and row[i].is_number for row in body) for i in range(len(headings))]  # type: ignore[union-attr]  # a Cell after the first test
    head = [
        element("th", heading, scope="col", class_="number" if number else None)
        for heading, number in zip(headings, numeric, strict=True)
    ]
    lines = [element("tr", (_cell(cell, first=i == 0) for i, cell in enumerate(row))) for row in body]
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", head)),
        element("tbody", lines),
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(cell: Content, *, first: bool) -> Markup:
    if isinstance(cell, Cell):
        value = None if cell.value is None else f"{cell.value:.6g}"
        return element("td", cell.content, class_="number" if cell.is_number else None, data_value=value)
    return element("th", cell, scope="row") if first else element("td", cell)


def count(number: float) -> Cell:
    """A whole number with its digits in groups."""
    return Cell(grouped(number), number)


def grouped(number: float) -> str:
    """`1 234 567`."""
    return f"{number:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def bar(share: float, text: str) -> Markup:
    """A bar of this share, and the words beside it."""
    width = f"{100 * min(max(share, 0.0), 1.0):.1f}%"
    fill = element("span", style=f"width:{width}", class_="fill")
    return joined(element("span", fill, class_="bar", aria_hidden="true"), element("span", text, class_="of-bar"))


def pairs(items: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values below each other."""
    return element("dl", (element("div", element("dt", name), element("dd", value)) for name, value in items))


def folded(summary: Child, *content: Child) -> Markup:
    """Something to open on demand."""
    return element("details", element("summary", summary), *content)


def badge(text: str, kind: str) -> Markup:
    """A word in a coloured frame."""
    return element("span", text, class_=f"badge {kind}")


def clock(text: str) -> str:
    """`2026-03-01T12:00:00.250Z` as people read it; anything else as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = " UTC" if moment.utcoffset() is not None and not moment.utcoffset() else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{zone}"
