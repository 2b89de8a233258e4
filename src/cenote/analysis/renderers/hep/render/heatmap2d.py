"""Draw two-dimensional histograms as heat maps, one panel or one file per dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support import bins, canvas, frame
from cenote.analysis.renderers.support import frame as legends
from cenote.analysis.renderers.support.bins import BinAxis, BinCounts, Roles
from cenote.analysis.renderers.support.compared import compare, errors_of
from cenote.analysis.renderers.support.comparison_sides import (
    ENDING,
    AskedSides,
    ComparedSides,
    Pair,
    Side,
    check_each,
    pairs_of,
    write_numbers,
)
from cenote.analysis.renderers.support.picture import Picture, broken_note, empty_note, file_name, must_hold, shows_data
from cenote.analysis.renderers.support.samples import Sample, samples_of
from cenote.analysis.renderers.support.style import AxisStyle
from cenote.analysis.renderers.support.transforms import transformed
from cenote.common import errors
from cenote.common.text import did_you_mean, listed
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Settings

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ONE, EACH = (10.0, 8.0), (7.0, 5.6)
"""The size of a single picture, and of each panel of several."""


def _colour_map(name: str) -> str:
    from matplotlib import colormaps  # only for one given by name: the import takes its time

    if name in colormaps:
        return name
    near = did_you_mean(name, colormaps)
    raise PydanticCustomError(
        "colour_map",
        "{problem}",
        {"problem": f"matplotlib has no colour map '{name}'; {near or 'some are viridis, cividis, magma, Blues'}"},
    )


class Heatmap2DBlock(Settings):
    """Settings of `heatmap2d`."""

    per_dataset: bool = False
    """A file for each dataset, in a folder of the picture's name, instead of a panel for each."""
    cbar: bool = True
    """The scale of colours beside the map."""
    max_cols: int | None = Field(default=None, ge=1)
    """The most panels side by side; null makes the whole nearly square."""
    divide: tuple[str, str] | None = None
    """Of two products, those of the first over those of the second: `[passing, probes]` is a map of efficiencies, one
    for each dataset. Bins in which the second has nothing stay white. A table beside the picture (`<out>.csv`) has the
    numbers of each bin, and the intervals of efficiencies."""
    cmap: Annotated[str, AfterValidator(_colour_map)] = "viridis"
    """The colours: the name of one of matplotlib's colour maps."""


@dataclass(frozen=True, eq=False)
class _Shown:
    """What one map shows: a sample, or the share that one is of another."""

    sample: Sample
    pair: Pair | None = None


class Heatmap2D(Picture):
    """Draws histograms of two variables as colours; empty bins stay white.

    Of a histogram with more variables, `axes.x.name` and `axes.y.name` choose two; the others are summed over.
    """

    example: ClassVar[str] = """
    render: {op: hep.render.heatmap2d, out: eta_phi}
    """

    heatmap2d: Heatmap2DBlock = Heatmap2DBlock()
    """What is special to this renderer."""

    @property
    def endings(self) -> tuple[str, ...]:
        """Those of the formats, and of shares a table."""
        return super().endings if self.heatmap2d.divide is None else (*super().endings, ENDING)

    def check(self, shape: ProductShape, context: DrawContext) -> None:
        """It needs two axes; see `Renderer.check`."""
        super().check(shape, context)
        if self.heatmap2d.divide is not None:
            check_each(self._divided(self.heatmap2d.divide), context, key="heatmap2d.divide")
        if shape.axes is None:
            return
        if self.axes.y.name is not None:
            must_hold(self.axes.y.name, shape.axes, "axis", stage=context.stage, listed_as="axes")
        if len(shape.axes) != 2 and None in (self.axes.x.name, self.axes.y.name):
            raise _needs_two_axes(errors.BAD_VALUE, shape.axes, context.stage)

    def draw(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """Write the pictures; see `Renderer.draw`."""
        histogram = self.histogram(product, context)
        wanted = [name for name in (self.axes.x.name, self.axes.y.name) if name]
        roles = bins.roles(histogram, context.datasets, wanted=wanted)
        chosen = self._two_axes(histogram, roles, context)
        both = (
            bins.bin_axis(histogram.axes[chosen[0]], label=self.axes.x.label),
            bins.bin_axis(histogram.axes[chosen[1]], label=self.axes.y.label),
        )
        styles = self.style.datasets
        found = samples_of(histogram, roles, chosen, context, styles=styles, variation=self.variation)
        shown = sorted(self._shown(found, context), key=lambda one: not one.sample.is_data)
        if not self.heatmap2d.per_dataset or roles.dataset is None:
            return self._files(both, shown, target, context)
        return [
            path for one in shown for path in self._files(both, [one], target / file_name(one.sample.name), context)
        ]

    def _shown(self, found: Sequence[Sample], context: DrawContext) -> list[_Shown]:
        """What there is a map of."""
        divide, styles = self.heatmap2d.divide, self.style.datasets
        if divide is None:
            return [_Shown(sample) for sample in transformed(found, self.transforms, styles, context)]
        asked = self._divided(divide)
        pairs = pairs_of(found, asked, self.transforms, styles, context, each="dataset")
        return [_Shown(_share(pair), pair) for pair in pairs]

    def _files(
        self, both: tuple[BinAxis, BinAxis], shown: Sequence[_Shown], target: Path, context: DrawContext
    ) -> list[Path]:
        files = self._picture(both, [one.sample for one in shown], target, context)
        compared = [_compared(one.pair) for one in shown if one.pair is not None]
        return [*files, *([write_numbers(both, compared, target, partial=context.partial)] if compared else [])]

    @staticmethod
    def _divided(products: tuple[str, str]) -> AskedSides:
        return AskedSides((products[0],), (products[1],))

    def _two_axes(self, histogram: Any, roles: Roles, context: DrawContext) -> tuple[int, int]:
        names = (self.axes.x.name, self.axes.y.name)
        if len(roles.free) == 2 and None in names:
            return roles.free[0], roles.free[1]
        if names[0] is None or names[1] is None:
            there = [histogram.axes[index].name for index in roles.free]
            raise _needs_two_axes(errors.RENDER_FAILED, there, context.stage)
        x, y = (bins.axis_called(histogram, name, roles.free, stage=context.stage) for name in names if name)
        return x, y

    def _picture(
        self, both: tuple[BinAxis, BinAxis], samples: Sequence[Sample], target: Path, context: DrawContext
    ) -> list[Path]:
        columns = min(math.ceil(math.sqrt(len(samples))), self.heatmap2d.max_cols or len(samples))
        rows = math.ceil(len(samples) / columns)
        whole = canvas.figure_size(self.figure, ONE if len(samples) == 1 else (EACH[0] * columns, EACH[1] * rows))
        panel = (whole[0] / columns, whole[1] / rows)
        with canvas.styled(self.style, panel):
            figure, panels = canvas.new_grid(whole, rows=rows, columns=columns)
            for index, axes in enumerate(panels.flat):
                if index < len(samples):
                    self._panel(figure, axes, both, samples[index], titled=len(samples) > 1 or samples[0].is_named)
                else:
                    axes.set_axis_off()
            has_data = shows_data(samples, context)
            canvas.experiment_label(panels[0, 0], self.style, panel, has_data=has_data, above=True)
            return self.save(figure, target, context)

    def _panel(
        self, figure: Figure, axes: Axes, both: tuple[BinAxis, BinAxis], sample: Sample, *, titled: bool
    ) -> None:
        x, y = both
        counts = sample.counts
        if counts.empty:
            canvas.note(axes, empty_note([sample]))
        else:
            divide = self.heatmap2d.divide
            shown = np.ma.masked_invalid(counts.values) if divide else np.ma.masked_equal(counts.values, 0.0)
            norm = self._norm(counts.values[np.isfinite(counts.values)])
            mesh = axes.pcolormesh(x.edges, y.edges, shown.T, cmap=self._colour_map(), norm=norm)
            mesh.set_rasterized(counts.values.size > 5000)
            if self.heatmap2d.cbar:
                bar = figure.colorbar(mesh, ax=axes, pad=0.02)
                bar.set_label(self.axes.z.label or (" / ".join(divide) if divide else "Events"), loc="top")
        self._set_axis(axes, x, self.axes.x, which="x")
        self._set_axis(axes, y, self.axes.y, which="y")
        axes.set(xlabel=x.label, ylabel=y.label)
        if marks := frame.draw_marks(axes, x.edges, self.overlays):
            handles, labels = [mark.handle for mark in marks], [mark.label for mark in marks]
            axes.legend(handles, labels, loc="lower right", frameon=True, framealpha=0.85, edgecolor="none")
        if titled:
            paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "boxstyle": "round,pad=0.25"}
            place: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": "small", "transform": axes.transAxes}
            frame.fit_width(axes, axes.text(0.97, 0.96, legends.shortened(sample.label), bbox=paper, **place))
        if broken := broken_note([sample]):
            canvas.note(axes, broken, at=(0.5, 0.04), size="x-small")

    def _set_axis(self, axes: Axes, axis: BinAxis, style: AxisStyle, *, which: str) -> None:
        if which == "x":
            frame.set_x(axes, axis, style)
            return
        low, high = style.limits or (None, None)
        if style.scale == "log" and axis.ticks is None:
            axes.set_yscale("log")
        first, last = float(axis.edges[0]), float(axis.edges[-1])
        axes.set_ylim(*frame.spread(first if low is None else low, last if high is None else high))
        if axis.ticks is not None:
            frame.category_ticks(axes, axis.ticks, which="y")

    def _colour_map(self) -> Any:
        from matplotlib import colormaps

        return colormaps[self.heatmap2d.cmap]

    def _norm(self, values: bins.Floats) -> Any:
        from matplotlib.colors import LogNorm, Normalize

        style = self.axes.z
        low, high = style.limits or (None, None)
        positive = values[values > 0]
        if style.scale == "log" and len(positive):
            first = low if low and low > 0 else float(positive.min())
            return LogNorm(first, max(high or float(positive.max()), first * 10))
        return Normalize(
            min(float(values.min()), 0.0) if low is None else low, float(values.max()) if high is None else high
        )


def _share(pair: Pair) -> Sample:
    """The first over the second; NaN where that has nothing."""
    one, other = pair.one.counts, pair.other.counts
    known = other.values > 0
    values = np.where(known, one.values / np.where(known, other.values, 1.0), np.nan)
    there = known.astype(np.float64)  # a share of zero is no empty map
    counts = BinCounts(values if known.any() else there, there, broken=one.broken + other.broken)
    return replace(pair.one, name=pair.label or pair.one.name, counts=counts)


def _compared(pair: Pair) -> ComparedSides:
    """The numbers of a share; its interval is that of an efficiency."""
    one, other = pair.one, pair.other
    first, second = (Side(side.name, side.counts.values, *errors_of(side.counts, None)) for side in (one, other))
    return ComparedSides(first, second, "efficiency", compare("efficiency", one.counts, other.counts))


def _needs_two_axes(kind: errors.ErrorKind, axes: Sequence[str], stage: str) -> errors.CenoteError:
    return errors.error(
        kind,
        f"a heat map needs two axes, the histogram of stage '{stage}' has {len(axes)}",
        details=(f"axes: {listed(axes)}",),
        hint="choose two with axes.x.name and axes.y.name" if len(axes) > 2 else "draw it with hist1d",
    )
