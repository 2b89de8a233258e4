"""Arrange what surrounds the data: ranges, ticks and legend, so that nothing covers anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.analysis.renderers.support.bins import BinAxis, Floats
from cenote.analysis.renderers.support.style import AxisStyle, LegendPlace, LegendStyle, Mark, MarkedLine
from cenote.common.values import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.legend import Legend


LOWEST_OBSTACLE = 0.35
"""A legend that reaches further down than this (of the height) may cover data: the picture would be all legend."""
LABEL_OVERHANG = 1.2
"""How long the label of a lower panel may be, in its heights; those of other panels end with them."""
OFFSET_ROOM = 0.3
"""Between the label of an axis and a power of ten beside the frame, in sizes of its font."""
WIDEST_TEXT = 0.94
"""Of the width of the frame."""
SLANTED_ROOM = 1.4
"""Between slanted names of categories, in sizes of their font."""
MOST_TICKS = 60
"""Of an axis of categories: of more, every second, third, … has one."""
LOG_DECADES = 6
"""The most that a logarithmic axis shows below the highest point."""


@dataclass(frozen=True, eq=False)
class Entry:
    """Something drawn: its line in the legend, and how far it reaches in each bin."""

    handle: Any
    label: str
    bottoms: Floats
    tops: Floats


@dataclass(frozen=True, eq=False)
class Outline:
    """How far the drawn data reaches in each bin."""

    edges: Floats
    tops: Floats
    bottoms: Floats
    smallest: float = 1.0
    """The smallest positive height of anything drawn: a logarithmic axis begins below it."""

    @classmethod
    def around(cls, edges: Floats, entries: Sequence[Entry]) -> Outline:
        """The outline of everything drawn."""
        if not entries:
            empty = np.zeros(len(edges) - 1)
            return cls(edges, empty, empty)
        tops = np.array([entry.tops for entry in entries])
        smallest = float(tops[tops > 0].min(initial=np.inf))
        return cls(edges, tops.max(axis=0), np.min([entry.bottoms for entry in entries], axis=0), smallest)


def set_x(axes: Axes, axis: BinAxis, style: AxisStyle) -> None:
    """Range, scale and ticks of the horizontal axis."""
    low, high = style.limits or (None, None)
    first, last = float(axis.edges[0]), float(axis.edges[-1])
    if style.scale == "log" and axis.ticks is None:
        axes.set_xscale("log")
        positive = axis.edges[axis.edges > 0]
        first = float(positive[0]) if len(positive) else 0.1
    axes.set_xlim(*spread(first if low is None else low, last if high is None else high))
    if axis.ticks is not None:
        category_ticks(axes, axis.ticks, which="x")
    elif any(axis.flow):
        _flow_ticks(axes, axis)


def spread(low: float, high: float) -> tuple[float, float]:
    """A range that is not empty."""
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def category_ticks(axes: Axes, names: Sequence[str], *, which: str) -> None:
    """A tick per category, or for some of very many, named; slanted where the names would run into each other."""
    from matplotlib.ticker import NullLocator

    target = axes.xaxis if which == "x" else axes.yaxis
    every = max(1, math.ceil(len(names) / MOST_TICKS))
    shown = names[::every]
    target.set_ticks(range(0, len(names), every), labels=shown)
    target.set_minor_locator(NullLocator())  # others make ticks, thousands of them, before they are hidden
    if which == "x" and sum(len(name) + 2 for name in shown) > 50:
        _slant(axes, every / max(1, len(names)))


def _slant(axes: Axes, share: float) -> None:
    """Names of categories that each have this share of the width: slanted, or upright and as small as they must be."""
    room = share * axes.bbox.width * 72 / axes.figure.dpi
    for text in axes.xaxis.get_ticklabels():
        letters = float(text.get_fontsize())
        if room > SLANTED_ROOM * letters:
            text.set(rotation=35, ha="right", rotation_mode="anchor")
        else:
            text.set(rotation=90, ha="right", va="center", rotation_mode="anchor", fontsize=min(letters, 0.9 * room))


def _flow_ticks(axes: Axes, axis: BinAxis) -> None:
    """Grey bins for under- and overflow, with ticks that say what is in them."""
    inner = axis.edges[axis.flow[0] : len(axis.edges) - axis.flow[1]]
    low, high = float(inner[0]), float(inner[-1])
    pad = float(max(axis.widths[0] * axis.flow[0], axis.widths[-1] * axis.flow[1]))
    ticks = {
        float(tick): f"{tick:g}"
        for tick in axes.get_xticks()
        if low + pad * axis.flow[0] < tick < high - pad * axis.flow[1]
    }
    if axis.flow[0]:
        ticks[low - pad / 2] = f"<{low:g}"
        axes.axvspan(low - pad, low, color="0.93", zorder=-5, linewidth=0)
    if axis.flow[1]:
        ticks[high + pad / 2] = f">{high:g}"
        axes.axvspan(high, high + pad, color="0.93", zorder=-5, linewidth=0)
    axes.set_xticks(list(ticks), labels=list(ticks.values()))
    axes.tick_params(axis="x", which="minor", bottom=False, top=False)


def hint_at_flow(axes: Axes, axis: BinAxis, beyond: tuple[bool, bool]) -> None:
    """Arrows at the ends of the horizontal axis, beyond which there is more."""
    look: dict[str, Any] = {
        "color": "black",
        "markerfacecolor": "white",
        "markersize": 9,
        "clip_on": False,
        "zorder": 9,
    }
    for there, at, marker in zip(beyond, (axis.edges[0], axis.edges[-1]), "<>", strict=True):
        if there:
            axes.plot([at], [0], marker, transform=axes.get_xaxis_transform(), gid="beyond", **look)


def mark_outside(axes: Axes, at: Floats, values: Floats, limits: tuple[float, float]) -> None:
    """Arrows at the edge of a panel, where a point is out of its range."""
    low, high = limits
    for outside, edge, marker in ((values > high, high, "^"), (values < low, low, "v")):
        inset = (high - low) * 0.05 * (1 if marker == "v" else -1)
        many = int(outside.sum())
        axes.plot(at[outside], np.full(many, edge + inset), marker, color="#c1121f", markersize=7, zorder=6)


def draw_marks(axes: Axes, edges: Floats, marks: Sequence[Mark]) -> list[Entry]:
    """Boxes and lines over the data; returned are those that the legend names."""
    from matplotlib.patches import Rectangle

    entries, nothing = [], np.zeros(len(edges) - 1)
    for mark in marks:
        handle: Any
        look: dict[str, Any] = {"linewidth": 2, "linestyle": "--", "zorder": 8}
        if isinstance(mark, MarkedLine):
            draw: Any = axes.axvline if mark.y is None else axes.axhline
            handle = draw(mark.x if mark.y is None else mark.y, color=mark.color, **look)
        elif mark.y is None:
            handle = axes.axvspan(*mark.x, facecolor="none", edgecolor=mark.color, **look)
        else:
            corner, sides = (mark.x[0], mark.y[0]), (mark.x[1] - mark.x[0], mark.y[1] - mark.y[0])
            handle = axes.add_patch(Rectangle(corner, *sides, facecolor="none", edgecolor=mark.color, **look))
        if mark.label:
            entries.append(Entry(handle, mark.label, nothing, nothing))
    return entries


def set_y(
    axes: Axes, outline: Outline, style: AxisStyle, obstacles: Sequence[Any], *, at_least: float | None = None
) -> None:
    """A vertical range that holds the data, and leaves room below what stands at the top of the frame."""
    log = style.scale == "log" and bool((outline.tops > 0).any())
    if log:
        axes.set_yscale("log")
    low, high = _log_range(outline) if log else _linear_range(outline)
    given_low, given_high = style.limits or (None, None)
    low = low if given_low is None or (log and given_low <= 0) else given_low
    high = high if at_least is None else max(high, at_least)
    if given_high is None:
        boxes = [within(axes, obstacle) for obstacle in obstacles]
        high = max([high, *(_needed(axes, outline, box, low=low, log=log) for box in boxes)])
    axes.set_ylim(*spread(low, high if given_high is None else given_high))
    if not log:
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 4), useMathText=True)
        # Beside the frame, where the experiment's label is not; and the label of the axis beside that.
        offset = axes.yaxis.get_offset_text()
        offset.set(ha="right", x=-0.01)
        numbers: Any = axes.yaxis.get_major_formatter()
        numbers.set_locs(axes.get_yticks())
        offset.set_text(numbers.get_offset())
        if numbers.get_offset():
            axes.yaxis.labelpad = _room_for(axes, offset)


def _room_for(axes: Axes, offset: Any) -> float:
    """How far the label of the vertical axis must be from its numbers, in points, not to meet a power of ten."""
    left = min((within(axes, number)[0] for number in axes.yaxis.get_majorticklabels()), default=0.0)
    box = within(axes, offset)
    room = (box[2] - box[0] + 0.01 + left) * axes.bbox.width * 72 / axes.figure.dpi
    return max(0.0, float(room)) + OFFSET_ROOM * float(offset.get_fontsize())


def fit_labels(axes: Axes, *, highest: float = 1.0) -> None:
    """Shrink the labels of both axes to the size of their panel, or to so many times its height."""
    for label, first, most in ((axes.xaxis.get_label(), 0, 1.0), (axes.yaxis.get_label(), 1, highest)):
        box = within(axes, label)
        if (length := box[first + 2] - box[first]) > most:
            label.set_fontsize(float(label.get_fontsize()) * most / length)


def fit_width(axes: Axes, text: Any) -> None:
    """Shrink a text that is wider than the frame."""
    left, _, right, _ = within(axes, text)
    if right - left > WIDEST_TEXT:
        text.set_fontsize(float(text.get_fontsize()) * WIDEST_TEXT / (right - left))


def _linear_range(outline: Outline) -> tuple[float, float]:
    top, bottom = float(outline.tops.max(initial=0.0)), float(outline.bottoms.min(initial=0.0))
    if top <= 0 and bottom >= 0:
        return 0.0, 1.0
    room = 0.08 * (max(top, 0.0) - min(bottom, 0.0))
    return (bottom - room if bottom < 0 else 0.0), max(top, 0.0) + room


def _log_range(outline: Outline) -> tuple[float, float]:
    top = float(outline.tops.max())
    return max(outline.smallest * 0.4, top / 10**LOG_DECADES), top * 2.5


def within(axes: Axes, obstacle: Any) -> tuple[float, float, float, float]:
    """The box of an artist in fractions of the frame: left, bottom, right, top."""
    canvas: Any = axes.figure.canvas  # always Agg's, which has a renderer before the first drawing
    box = obstacle.get_window_extent(canvas.get_renderer()).transformed(axes.transAxes.inverted())
    return box.x0, box.y0, box.x1, box.y1


def _needed(axes: Axes, outline: Outline, box: tuple[float, float, float, float], *, low: float, log: bool) -> float:
    """The end of the range for which the data below this box stays below it."""
    left, bottom, right, top = box
    if top < 0.6 or left > 1:
        return low
    to_data = axes.transAxes + axes.transData.inverted()
    first, last = (float(to_data.transform((fraction, 0.5))[0]) for fraction in (left - 0.02, right + 0.02))
    below = (outline.edges[1:] > first) & (outline.edges[:-1] < last)
    height = float(outline.tops[below].max(initial=low))
    share = max(bottom - 0.03, LOWEST_OBSTACLE)
    if height <= low:
        return low
    return float(low * (height / low) ** (1 / share)) if log else low + (height - low) / share


# Place a legend: within the frame where there is room, no wider than it, and never over data.


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
