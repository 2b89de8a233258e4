"""Draw comparisons of samples: points with their uncertainties, or pulls as bars, in a panel of fitting range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cenote.analysis.renderers.support.bins import BinAxis, BinCounts, Floats
from cenote.analysis.renderers.support.compared import Compared, ComparisonKind
from cenote.analysis.renderers.support.frame import Entry, mark_outside
from cenote.analysis.renderers.support.stack import BAND
from cenote.common.values import dataclass

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes

LEVEL: dict[ComparisonKind, float] = {"ratio": 1.0, "split_ratio": 1.0}
"""Where two equal samples stand; 0 for what is not here."""
WIDEST: dict[ComparisonKind, float] = {
    **dict.fromkeys(("ratio", "split_ratio", "relative_difference"), 1.0),
    "pull": 5.0,
    "asymmetry": 1.05,
}
"""How far from that level a range reaches at most, where it is left to the data."""
NARROWEST: dict[ComparisonKind, float] = {"pull": 3.2, "asymmetry": 0.1}
MOST_WITH_ERRORS = 5
"""With more comparisons than this in a panel, uncertainties would hide them all: lines alone are drawn."""
FEWEST = 0.1
"""The least it reaches, where `NARROWEST` has nothing else."""


@dataclass(frozen=True, eq=False)
class ComparisonLine:
    """One comparison: its numbers, and how it looks."""

    compared: Compared
    colour: str
    label: str


def limits_for(kind: ComparisonKind, lines: Sequence[ComparisonLine]) -> tuple[float, float]:
    """A range that holds nearly all points with their uncertainties; those outside become arrows."""
    if kind == "efficiency":
        tops = [line.compared.values[line.compared.known].max(initial=0.0) for line in lines]
        return (0.0, max(1.1, min(1.15 * max(tops, default=1.0), 2.0)))
    level, reaches = LEVEL.get(kind, 0.0), []
    for line in lines:
        found, known = line.compared, line.compared.known
        up, down = (found.values + found.up)[known] - level, level - (found.values - found.down)[known]
        reaches.append(np.maximum(np.abs(found.values[known] - level), np.minimum(np.maximum(up, down), _wide(kind))))
    reach = np.concatenate(reaches) if reaches else np.zeros(0)
    if not len(reach):
        return level - NARROWEST.get(kind, 1.0), level + NARROWEST.get(kind, 1.0)
    far = float(reach.max() if kind in ("pull", "difference") else np.quantile(reach, 0.95))
    half = min(max(1.15 * far, NARROWEST.get(kind, 0.0 if kind == "difference" else FEWEST)), _wide(kind))
    if kind in ("pull", "difference"):
        return level - (half or 1.0), level + (half or 1.0)
    half = min(_rounded_up(half), _wide(kind))
    return level - half, level + half


def _wide(kind: ComparisonKind) -> float:
    return WIDEST.get(kind, math.inf)


def _rounded_up(value: float) -> float:
    """To a number of one digit, so that the range ends near a tick."""
    unit = math.pow(10, math.floor(math.log10(value)))
    return math.ceil(value / unit - 1e-9) * unit


def draw_comparison(
    axes: Axes,
    axis: BinAxis,
    kind: ComparisonKind,
    lines: Sequence[ComparisonLine],
    *,
    limits: tuple[float, float],
    band: BinCounts | None = None,
    wide: bool = False,
) -> list[Entry]:
    """Draw them. `band` is the sample whose own uncertainty is shown around the level. The width of bins is marked
    where there is room (`wide`), and that of efficiencies always."""
    from matplotlib.ticker import MaxNLocator

    level = LEVEL.get(kind, 0.0)
    if kind == "pull":
        for sigmas, shade in ((2, "0.93"), (1, "0.85")):
            axes.axhspan(-sigmas, sigmas, color=shade, linewidth=0, zorder=0)
    if band is not None:
        known = band.values > 0
        spread = np.where(known, band.errors / np.where(known, band.values, 1.0), 0.0)
        axes.stairs(level + spread, axis.edges, baseline=level - spread, fill=True, zorder=1, **BAND)
    marked = 1.0 if kind == "efficiency" else level
    axes.axhline(marked, color="#222222", linewidth=1, linestyle="--", zorder=2)
    entries = []
    for number, line in enumerate(_telling(line, kind, limits) for line in lines):
        shift = _shift(axis, number, len(lines)) if kind != "pull" or len(lines) > 1 else np.zeros(len(axis.centres))
        if kind == "pull" and len(lines) == 1:
            handle = _bars(axes, axis, line)
        elif len(lines) > MOST_WITH_ERRORS:
            steps = np.where(line.compared.known, line.compared.values, np.nan)
            handle, shift = axes.stairs(steps, axis.edges, baseline=None, color=line.colour, zorder=4), shift * 0
        else:
            across = wide or kind == "efficiency"
            handle = _points(axes, axis, line, at=axis.centres + shift, wide=across, bars=kind != "pull")
        known = line.compared.known
        mark_outside(axes, (axis.centres + shift)[known], line.compared.values[known], limits)
        tops = np.maximum(np.where(known, line.compared.values + line.compared.up, level), marked)
        bottoms = np.where(known, line.compared.values - line.compared.down, level)
        entries.append(Entry(handle, line.label, np.maximum(bottoms, limits[0]), np.minimum(tops, limits[1])))
    axes.set_ylim(*limits)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10], prune=None if wide else "both"))
    return entries


def _telling(line: ComparisonLine, kind: ComparisonKind, limits: tuple[float, float]) -> ComparisonLine:
    """Without bins whose interval covers the whole range: a bar from edge to edge says nothing."""
    found = line.compared
    covers = (found.values - found.down <= limits[0]) & (found.values + found.up >= limits[1])
    return line if kind == "pull" else replace(line, compared=replace(found, known=found.known & ~covers))


def _shift(axis: BinAxis, number: int, many: int) -> Floats:
    """Several points of a bin stand beside each other."""
    if many < 2:
        return np.zeros(len(axis.centres))
    return axis.widths * min(0.6, 0.12 * (many - 1)) * (number / (many - 1) - 0.5)


def _bars(axes: Axes, axis: BinAxis, line: ComparisonLine) -> Any:
    values = np.where(line.compared.known, line.compared.values, 0.0)
    return axes.stairs(values, axis.edges, baseline=0.0, fill=True, color=line.colour, alpha=0.75, zorder=3)


def _points(axes: Axes, axis: BinAxis, line: ComparisonLine, *, at: Floats, wide: bool, bars: bool) -> Any:
    found, known = line.compared, line.compared.known
    spread = np.array([found.down[known], found.up[known]]) if bars else None
    return axes.errorbar(
        *(at[known], found.values[known]),
        yerr=None if spread is None else np.maximum(spread, 0.0),
        xerr=_to_the_edges(axis, at)[:, known] if wide else None,
        fmt="o",
        color=line.colour,
        markersize=6 if len(axis.centres) <= 60 else 4,
        elinewidth=1.5,
        capsize=0,
        zorder=5,
    )


def _to_the_edges(axis: BinAxis, at: Floats) -> Floats:
    """How far each bin reaches to the left and to the right of its point."""
    return np.array([at - axis.edges[:-1], axis.edges[1:] - at])
