"""Put a comparison on the axes: stack, lines, data points, their uncertainties and ratio."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cenote.analysis.renderers.support.bins import BinAxis, BinCounts, Floats, nice_number
from cenote.analysis.renderers.support.compared import Compared, poisson_errors
from cenote.analysis.renderers.support.frame import Entry, mark_outside
from cenote.analysis.renderers.support.samples import Sample, SampleRoles
from cenote.common.values import dataclass

if TYPE_CHECKING:
    from matplotlib.axes import Axes


BAND: dict[str, Any] = {"facecolor": "none", "edgecolor": "#555555", "hatch": "//////", "linewidth": 0.0}
"""The look of the uncertainty of the simulation."""


@dataclass(frozen=True)
class StackStyle:
    """How the simulation is drawn."""

    stacked: bool
    order: Literal["yield", "legend", "reverse_legend"]
    filled: bool
    signals_filled: bool
    band: bool
    yields: bool
    colours: tuple[str, ...]
    """For the backgrounds and then the signals, so that a group keeps its colour from picture to picture."""


def draw_stack(axes: Axes, axis: BinAxis, cast: SampleRoles, style: StackStyle) -> list[Entry]:
    """Draw the simulation; the entries come in the order of the legend: signals, backgrounds, uncertainty."""
    everything = (*cast.backgrounds, *cast.signals)
    colour = {s: s.style.color or fallback for s, fallback in zip(everything, style.colours, strict=True)}
    in_stack = cast.stacked if style.stacked else ()
    entries: dict[Sample, Entry] = {}
    base = np.zeros(len(axis.edges) - 1)
    for sample in _from_the_bottom(in_stack, cast, style):
        is_signal = sample in cast.signals
        filled = style.signals_filled if is_signal else style.filled
        top = base + sample.counts.values
        handle = _area(axes, axis, sample, colour[sample], base=base, top=top, filled=filled)
        entries[sample] = Entry(handle, _label(sample, style.yields), np.minimum(base, top), np.maximum(base, top))
        base = top
    for sample in everything:
        if sample not in entries:
            entries[sample] = _line(axes, axis, sample, colour[sample], style)
    legend = [entries[s] for s in (*cast.signals, *_in_legend(cast, style))]
    if style.band and style.stacked and cast.expected is not None and not cast.expected.empty:
        legend.append(_uncertainty(axes, axis, cast, cast.expected))
    return legend


def _in_legend(cast: SampleRoles, style: StackStyle) -> list[Sample]:
    """Backgrounds from the top of the legend down: as written, or the largest first."""
    if style.order == "yield":
        return sorted(cast.backgrounds, key=lambda sample: -sample.counts.total)
    return list(cast.backgrounds)


def _from_the_bottom(in_stack: tuple[Sample, ...], cast: SampleRoles, style: StackStyle) -> list[Sample]:
    """Backgrounds in their order, then signals on top."""
    backgrounds = [sample for sample in _in_legend(cast, style) if sample in in_stack]
    if style.order != "legend":
        backgrounds.reverse()
    return backgrounds + [sample for sample in cast.signals if sample in in_stack]


def _area(axes: Axes, axis: BinAxis, sample: Sample, colour: str, *, base: Floats, top: Floats, filled: bool) -> Any:
    look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": 2, "zorder": 3}
    if filled:
        edge = "#222222" if sample.style.hatch else colour
        look = {"facecolor": colour, "edgecolor": edge, "linewidth": 0.4, "zorder": 2}
        look |= {"hatch": sample.style.hatch, "alpha": sample.style.alpha}
    drawn = top if filled else np.where(top == base, np.nan, top)
    return axes.stairs(drawn, axis.edges, baseline=base, fill=True, **look)


def _line(axes: Axes, axis: BinAxis, sample: Sample, colour: str, style: StackStyle) -> Entry:
    values = sample.counts.values
    handle = axes.stairs(values, axis.edges, color=colour, linewidth=2.5, zorder=4)
    return Entry(handle, _label(sample, style.yields), np.minimum(values, 0), values)


def _uncertainty(axes: Axes, axis: BinAxis, cast: SampleRoles, expected: BinCounts) -> Entry:
    low, high = expected.values - cast.uncertainty.down, expected.values + cast.uncertainty.up
    handle = axes.stairs(high, axis.edges, baseline=low, fill=True, zorder=3, **BAND)
    return Entry(handle, "MC stat. unc." if cast.envelope is None else "MC stat. + syst. unc.", low, high)


def data_errors(counts: BinCounts) -> tuple[Floats, Floats]:
    """Down and up: Poisson intervals of true counts, else one standard deviation. None for empty bins."""
    if not counts.are_counts:
        return counts.errors, counts.errors
    down, up = poisson_errors(counts.values)
    return down, up


def draw_points(axes: Axes, axis: BinAxis, data: Sample, *, yields: bool) -> Entry:
    """Draw the data. Empty bins get no point; their interval would say nothing that the eye can use."""
    counts = data.counts
    down, up = data_errors(counts)
    filled = (counts.values != 0) | (counts.variances > 0)
    handle = axes.errorbar(
        *(axis.centres[filled], counts.values[filled]),
        yerr=np.array([down[filled], up[filled]]),
        fmt="o",
        color=data.style.color or "black",
        markersize=6,
        elinewidth=1.5,
        capsize=0,
        zorder=10,
    )
    tops = np.where(filled, counts.values + up, 0.0)
    return Entry(handle, _label(data, yields), np.where(filled, counts.values - down, 0.0), tops)


def data_over_expected(data: BinCounts, expected: BinCounts) -> Compared:
    """The ratio, with the uncertainty of the data alone; that of the other is a band around 1. Nothing is known of bins
    without data or without expectation."""
    known = expected.values > 0
    one = np.where(known, expected.values, 1.0)
    down, up = data_errors(data)
    return Compared(data.values / one, down / one, up / one, known & ((data.values != 0) | (data.variances > 0)))


def draw_ratio(axes: Axes, axis: BinAxis, cast: SampleRoles, *, ylim: tuple[float | None, float | None]) -> None:
    """Data over simulation, with the uncertainty of each on its own; arrows where a point is out of range."""
    from matplotlib.ticker import MaxNLocator

    if cast.data is None or cast.expected is None:
        return
    expected = cast.expected
    known = expected.values > 0
    one = np.where(known, expected.values, 1.0)
    up, down = (np.where(known, reach / one, 0.0) for reach in (cast.uncertainty.up, cast.uncertainty.down))
    axes.stairs(1 + up, axis.edges, baseline=1 - down, fill=True, zorder=1, **BAND)
    axes.axhline(1.0, color="#222222", linewidth=1, linestyle="--", zorder=2)
    ratio = data_over_expected(cast.data.counts, expected)
    shown = ratio.known
    axes.errorbar(
        *(axis.centres[shown], ratio.values[shown]),
        yerr=np.array([ratio.down[shown], ratio.up[shown]]),
        fmt="o",
        color=cast.data.style.color or "black",
        markersize=6,
        elinewidth=1.5,
        zorder=5,
    )
    low, high = 0.5 if ylim[0] is None else ylim[0], 1.5 if ylim[1] is None else ylim[1]
    mark_outside(axes, axis.centres[shown], ratio.values[shown], (low, high))
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10], prune="both"))


def _label(sample: Sample, yields: bool) -> str:
    return f"{sample.label} ({nice_number(sample.counts.total)})" if yields else sample.label


# Draw a sample as a line, an area or points, and normalise it before.


HistType = Literal["step", "fill", "errorbar"]
Normalisation = Literal["area", "sum"]


def normalised(counts: BinCounts, axis: BinAxis, to: Normalisation | None) -> BinCounts:
    """With an integral of 1 (`area`), or bins that add up to 1 (`sum`); what is empty stays as it is."""
    if to is None or counts.total == 0:
        return counts
    per_width = to == "area" and axis.ticks is None
    scaled = counts.times(1 / counts.total / (axis.widths if per_width else 1.0))
    return replace(scaled, weighted=counts.weighted)


def y_label(axis: BinAxis, normalised_to: Normalisation | None) -> str:
    """What the vertical axis counts."""
    if normalised_to == "area":
        return f"Density [1/{axis.unit}]" if axis.unit and not axis.ticks else "Density"
    return ("Fraction of events" if normalised_to == "sum" else "Events") + axis.per_bin


def draw_line(
    axes: Axes,
    axis: BinAxis,
    sample: Sample,
    colour: str,
    kind: HistType,
    *,
    spread: tuple[Floats, Floats] | None,
    band: bool = False,
) -> Entry:
    """Draw it, with the uncertainties down and up where they are given: as bars, or as a `band` around a line.

    Empty bins get no point, and no uncertainty: their interval would say nothing that the eye can use.
    """
    values = sample.counts.values
    filled = (values != 0) | (sample.counts.variances > 0)
    down, up = (np.where(filled, one, 0.0) for one in spread or (np.zeros_like(values),) * 2)
    bars = np.array([down, up])
    handle: Any
    if kind == "errorbar":
        handle = axes.errorbar(
            *(axis.centres[filled], values[filled]),
            yerr=bars[:, filled] if spread else None,
            xerr=axis.widths[filled] / 2,
            fmt="o",
            color=colour,
            zorder=4,
        )
    else:
        filled_in = kind == "fill"
        handle = axes.stairs(
            *(values, axis.edges),
            color=colour,
            fill=filled_in,
            alpha=sample.style.alpha or (0.45 if filled_in else None),
            hatch=sample.style.hatch,
            linewidth=2,
            zorder=3,
        )
        if spread and band:
            axes.stairs(values + up, axis.edges, baseline=values - down, fill=True, color=colour, alpha=0.25, zorder=2)
        elif spread:
            axes.errorbar(axis.centres, values, yerr=bars, fmt="none", ecolor=colour, elinewidth=1.3)
    return Entry(handle, sample.label, values - down, values + up)
