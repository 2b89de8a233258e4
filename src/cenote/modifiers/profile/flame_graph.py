"""Draw stacks as a flame graph: an SVG picture that needs nothing else, and names every frame under the mouse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from html import escape

from cenote.units import format_seconds

WIDTH = 1200
MARGIN = 12
ROW = 18
HEAD = 44
"""Room for the title."""
LETTER = 6.6
"""Width of one letter."""
NARROWEST = 0.4
"""Frames below this width are left out: nobody could see them."""
_WIDE = "as wide as the time that it took"
_FONT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="11"'
_STYLE = "<style>g:hover rect { stroke: #222; stroke-width: 1 } text { fill: #1c1c1c; pointer-events: none }</style>"
_HUES = {"python": 28, "compiled": 205}
"""Colours tell compiled code from Python; the shade tells files apart."""


@dataclass
class _Frame:
    """A function, with those that it called."""

    name: str
    spent: int = 0
    inner: dict[str, _Frame] = field(default_factory=dict)


def flame_graph(stacks: Mapping[str, int], *, title: str) -> str:
    """Of stacks, the outermost frame first and `;` in between, with the microseconds that each took."""
    root = _tree(stacks)
    scale = (WIDTH - 2 * MARGIN) / max(1, root.spent)
    boxes = list(_boxes(root, MARGIN, 0, scale, root.spent))
    height = HEAD + ROW * (1 + max((row for row, _ in boxes), default=0)) + MARGIN
    size = f'width="{WIDTH}" height="{height}"'
    about = f"{format_seconds(root.spent / 1e6)} of samples; each box is a function above those that it calls, {_WIDE}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {size} {_FONT}>',
            _STYLE,
            f'<rect {size} fill="#fffdf9"/>',
            f'<text x="{MARGIN}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
            f'<text x="{MARGIN}" y="36">{about}</text>',
            *(box for _, box in boxes),
            "</svg>",
            "",
        ]
    )


def _tree(stacks: Mapping[str, int]) -> _Frame:
    root = _Frame("all")
    for stack, spent in stacks.items():
        root.spent += spent
        here = root
        for name in stack.split(";"):
            here = here.inner.setdefault(name, _Frame(name))
            here.spent += spent
    return next(iter(root.inner.values())) if len(root.inner) == 1 else root


def _boxes(frame: _Frame, left: float, row: int, scale: float, whole: int) -> Iterator[tuple[int, str]]:
    """Each box with its row, those that are called below the one that calls."""
    pending = [(frame, left, row)]
    while pending:
        frame, left, row = pending.pop()
        width = frame.spent * scale
        if width < NARROWEST:
            continue
        yield row, _box(frame, left, HEAD + ROW * row, width, whole)
        for inner in sorted(frame.inner.values(), key=lambda one: one.name):
            pending.append((inner, left, row + 1))
            left += inner.spent * scale


def _box(frame: _Frame, left: float, top: int, width: float, whole: int) -> str:
    share = 100 * frame.spent / max(1, whole)
    told = f"{frame.name}: {format_seconds(frame.spent / 1e6)}, {share:.1f}%"
    room = int((width - 6) / LETTER)
    words = frame.name if len(frame.name) <= room else f"{frame.name[: room - 1]}…" if room >= 3 else ""
    text = f'<text x="{left + 3:.1f}" y="{top + 13}">{escape(words)}</text>' if words else ""
    return (
        f"<g><title>{escape(told)}</title>"
        f'<rect x="{left:.1f}" y="{top}" width="{max(width - 0.5, NARROWEST):.1f}" height="{ROW - 1}" rx="2" '
        f'fill="{_colour(frame.name)}"/>{text}</g>'
    )


def _colour(name: str) -> str:
    """The same for the functions of one file."""
    _, _, place = name.rpartition(" (")
    file = place.partition(":")[0]
    hue = _HUES["python" if file.endswith(".py") else "compiled"]
    digest = blake2b(file.encode(), digest_size=2).digest()
    return f"hsl({hue + digest[0] % 24 - 12}, {55 + digest[1] % 20}%, {72 + digest[0] % 12}%)"
