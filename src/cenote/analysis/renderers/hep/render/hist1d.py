"""Draw one-dimensional histograms: one line per dataset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support import canvas, frame
from cenote.analysis.renderers.support.bins import BinAxis, Flow, Roles, beyond, bin_axis
from cenote.analysis.renderers.support.compared import Envelope, envelope, errors_of, variations_of
from cenote.analysis.renderers.support.comparison_panel import MOST_WITH_ERRORS
from cenote.analysis.renderers.support.frame import Entry
from cenote.analysis.renderers.support.picture import PicturePerAxis
from cenote.analysis.renderers.support.samples import Sample, added_up, samples_of
from cenote.analysis.renderers.support.stack import HistType, Normalisation, draw_line, normalised, y_label
from cenote.analysis.renderers.support.transforms import transformed
from cenote.language.plugins.settings import Settings

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes

SIZE = (10.0, 8.0)
SYSTEMATICS: dict[str, Any] = {"alpha": 0.25, "linewidth": 0.0, "zorder": 2}
"""The look of what variations reach."""


class Hist1DBlock(Settings):
    """Settings of `hist1d`."""

    overlay: bool = True
    """Datasets in one picture; false adds them up, for each product where there are several."""
    histtype: HistType = "step"
    """Lines, areas or points."""
    sort_datasets: Literal["data_first", "none"] = "data_first"
    """The order in the legend."""
    errors: bool | None = None
    """Error bars: exact intervals of counts, one standard deviation of weighted events. Null draws them for up to five
    datasets."""
    flow: Flow = "none"
    """Under- and overflow: left out, shown as bins of their own, added to the outermost bins, or marked with arrows
    (`hint`). NaN is overflow."""
    systematics: bool = True
    """A band around each dataset that variations move: the envelope of each group, groups in quadrature."""
    normalise: Normalisation | None = None
    """`area` makes each dataset's integral 1, `sum` makes its bins add up to 1."""


class Hist1D(PicturePerAxis):
    """Draws histograms of one variable, a line for each dataset.

    A histogram of several variables gives one picture for each of them, unless `axes.x.name` chooses one; one of
    datasets alone has a bin for each dataset.
    """

    example: ClassVar[str] = """
    render: {op: hep.render.hist1d, out: muon_pt, axes: {y: {scale: log}}}
    """

    draws_datasets: ClassVar[bool] = True

    hist1d: Hist1DBlock = Hist1DBlock()
    """What is special to this renderer."""

    @property
    def adds_overflow(self) -> bool:
        """With `flow: sum`; see `Renderer.adds_overflow`."""
        return self.hist1d.flow == "sum"

    def draw_one(self, histogram: Any, roles: Roles, index: int, target: Path, context: DrawContext) -> list[Path]:
        """Write one picture; see `PicturePerAxis.draw_one`."""
        flow = self.hist1d.flow
        if not self.hist1d.overlay and not context.together:
            roles = replace(roles, dataset=None)
        axis = bin_axis(histogram.axes[index], label=self.axes.x.label, flow=flow)
        samples = self._samples(histogram, roles, index, axis, context)
        size = canvas.figure_size(self.figure, SIZE)
        with canvas.styled(self.style, size):
            figure, panels = canvas.new_figure(size)
            axes = panels[0, 0]
            entries = self._draw_samples(axes, axis, samples)
            entries += self._draw_bands(axes, axis, samples, self._envelopes(histogram, roles, index, axis, context))
            frame.set_x(axes, axis, self.axes.x)
            if flow == "hint":
                frame.hint_at_flow(axes, axis, beyond(histogram, index))
            axes.set_xlabel(axis.label)
            axes.set_ylabel(self.axes.y.label or y_label(axis, self.hist1d.normalise))
            self.finish(axes, axis, samples, entries, context, size=size, columns=2 if len(entries) > 5 else 1)
            return self.save(figure, target, context)

    def _envelopes(
        self, histogram: Any, roles: Roles, index: int, axis: BinAxis, context: DrawContext
    ) -> dict[str, Envelope]:
        """Sample → how far variations move it, for those that they move."""
        names = variations_of(histogram, roles) if self.hist1d.systematics and self.variation is None else []
        if not names:
            return {}
        several = {name: self._samples(histogram, roles, index, axis, context, name) for name in names}
        found = {}
        for place, sample in enumerate(self._samples(histogram, roles, index, axis, context)):
            varied = {name: samples[place].counts.values for name, samples in several.items()}
            reach = envelope(sample.counts.values, varied, context)
            if reach is not None and (reach.up.any() or reach.down.any()):
                found[sample.name] = reach
        return found

    def _draw_bands(
        self, axes: Axes, axis: BinAxis, samples: Sequence[Sample], envelopes: Mapping[str, Envelope]
    ) -> list[Entry]:
        """One entry of the legend for all bands."""
        entries: list[Entry] = []
        colours = self._colours(samples)
        for sample in samples:
            if (reach := envelopes.get(sample.name)) is not None:
                low, high = sample.counts.values - reach.down, sample.counts.values + reach.up
                handle = axes.stairs(
                    high, axis.edges, baseline=low, fill=True, facecolor=colours[sample.name], **SYSTEMATICS
                )
                entries.append(Entry(handle, "Syst. unc.", low, high))
        if not entries:
            return []
        low, high = np.min([one.bottoms for one in entries], axis=0), np.max([one.tops for one in entries], axis=0)
        return [replace(entries[0], bottoms=low, tops=high)]

    def _samples(
        self,
        histogram: Any,
        roles: Roles,
        index: int,
        axis: BinAxis,
        context: DrawContext,
        variation: str | None = None,
    ) -> list[Sample]:
        styles, wanted = self.style.datasets, variation or self.variation
        found = samples_of(
            *(histogram, roles, [index], context), styles=styles, variation=wanted, flow=self.hist1d.flow
        )
        found = transformed(found, self.transforms, styles, context)
        if not self.hist1d.overlay:
            product_of = {name: product for product, names in context.together.items() for name in names}
            found = added_up(found, lambda sample: product_of.get(sample.name, sample.name), styles)
        if self.hist1d.sort_datasets == "data_first":
            found.sort(key=lambda sample: not sample.is_data)
        return [replace(sample, counts=normalised(sample.counts, axis, self.hist1d.normalise)) for sample in found]

    def _draw_samples(self, axes: Axes, axis: BinAxis, samples: Sequence[Sample]) -> list[Entry]:
        colours = self._colours(samples)
        few = len(samples) <= MOST_WITH_ERRORS
        return [self._draw_sample(axes, axis, sample, colours[sample.name], few=few) for sample in samples]

    def _colours(self, samples: Sequence[Sample]) -> dict[str, str]:
        """Data is black, beside others."""
        others = [sample for sample in samples if not (sample.is_data and len(samples) > 1)]
        palette = dict(zip((s.name for s in others), canvas.colours(self.style, len(others)), strict=True))
        return {sample.name: sample.style.color or palette.get(sample.name, "black") for sample in samples}

    def _draw_sample(self, axes: Axes, axis: BinAxis, sample: Sample, colour: str, *, few: bool) -> Entry:
        kind, counts = self.hist1d.histtype, sample.counts
        asked = self.hist1d.errors
        bars = kind == "errorbar" or (few if asked is None else asked)
        return draw_line(axes, axis, sample, colour, kind, spread=errors_of(counts, None) if bars else None)
