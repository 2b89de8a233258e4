"""Place a legend: within the frame where there is room, no wider than it, and never over data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.renderers.support.bins import Floats
from cenote.renderers.support.frame import Entry, Outline, within
from cenote.renderers.support.style import LegendPlace, LegendStyle

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend

OTHER_PLACES: tuple[LegendPlace, ...] = ("upper left", "upper center", "outside")
"""Where a legend goes that would cover data in its usual place; the last one never does."""
WIDEST_LEGEND = 0.98
"""Of the width of the frame; a wider one gets fewer columns, then smaller letters."""
LONGEST_NAME = 60
"""Letters of a name in a legend: longer ones are cut in the middle."""
SMALLEST_LETTERS = 0.55
"""Of their usual size, in a legend whose names are long. Below it, the legend stands beside the frame."""
_BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
"""Where a legend outside of the frame stands."""


def draw_legend(
    axes: Axes,
    entries: Sequence[Entry],
    style: LegendStyle,
    outline: Outline,
    *,
    columns: int,
    beside: Sequence[Any] = (),
) -> Legend | None:
    """The legend, or None; moved down where it would cover the texts `beside` it."""
    if not style.show or not entries:
        return None
    place: dict[str, Any] = {"loc": style.loc}
    if style.loc == "outside":
        place = _BESIDE
    elif style.loc == "best":
        half = len(outline.tops) // 2
        empty_left = outline.tops[:half].max(initial=0.0) < outline.tops[half:].max(initial=0.0)
        place = {"loc": "upper left" if empty_left and not beside else "upper right"}
    legend = _legend(axes, entries, style, place, columns=style.ncol or columns)
    boxes = [within(axes, text) for text in beside]
    if any(_overlap(within(axes, legend), box) for box in boxes) and style.loc != "outside":
        legend.set_bbox_to_anchor((0.0, 0.0, 1.0, min(box[1] for box in boxes)), transform=axes.transAxes)
    return legend


def _legend(
    axes: Axes, entries: Sequence[Entry], style: LegendStyle, place: Mapping[str, Any], *, columns: int
) -> Legend:
    """No wider than the frame, where it stands within."""
    look: dict[str, Any] = {"frameon": style.frameon, "title": style.title, "columnspacing": 1.2, **place}
    handles, labels = [entry.handle for entry in entries], [shortened(entry.label) for entry in entries]
    fewest = columns if style.ncol or style.loc == "outside" else 1
    for many in range(columns, fewest - 1, -1):
        legend = axes.legend(handles, labels, ncols=many, fontsize=style.fontsize, **look)
        left, _, right, _ = within(axes, legend)
        if right - left <= WIDEST_LEGEND or style.loc == "outside":
            return legend
    share = WIDEST_LEGEND / (right - left)
    if share < SMALLEST_LETTERS:
        elsewhere = style.model_copy(update={"loc": "outside"})
        return _legend(axes, entries, elsewhere, _BESIDE, columns=1)
    letters = float(legend.get_texts()[0].get_fontsize()) * share
    return axes.legend(handles, labels, ncols=fewest, fontsize=letters, **look)


def move_legend(
    axes: Axes,
    legend: Legend,
    entries: Sequence[Entry],
    style: LegendStyle,
    outline: Outline,
    *,
    columns: int,
    beside: Sequence[Any] = (),
) -> Legend:
    """Where the range is given, or the legend tall, it may cover data: then it goes to another place."""
    for place in OTHER_PLACES:
        if not _covers(axes, legend, outline):
            break
        elsewhere = style.model_copy(update={"loc": place})
        legend = draw_legend(axes, entries, elsewhere, outline, columns=columns, beside=beside) or legend
    return legend


def _covers(axes: Axes, legend: Legend, outline: Outline) -> bool:
    """Whether anything drawn reaches below the legend."""
    left, bottom, right, top = within(axes, legend)
    to_frame = axes.transData + axes.transAxes.inverted()
    low, high = axes.get_ylim()

    def fractions(values: Floats, of: int) -> Floats:
        points = np.zeros((len(values), 2))
        points[:, of] = values if of == 0 else np.clip(values, low, high)
        points[:, 1 - of] = low if of == 0 else outline.edges[-1]
        return np.asarray(to_frame.transform(points)[:, of])

    edges, lows, highs = fractions(outline.edges, 0), fractions(outline.bottoms, 1), fractions(outline.tops, 1)
    drawn = outline.tops > outline.bottoms
    return bool(((edges[1:] > left) & (edges[:-1] < right) & (highs > bottom) & (lows < top) & drawn).any())


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def shortened(name: str) -> str:
    """A name that fits in a legend: both ends of it, where it is long. Mathematics stays whole."""
    if len(name) <= LONGEST_NAME or "$" in name:
        return name
    return f"{name[: 2 * LONGEST_NAME // 3]}…{name[-LONGEST_NAME // 3 :]}"
