"""Draw a sample as a line, an area or points, and normalise it before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cenote.renderers.support.bins import BinAxis, BinCounts, Floats
from cenote.renderers.support.frame import Entry
from cenote.renderers.support.samples import Sample

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes

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
