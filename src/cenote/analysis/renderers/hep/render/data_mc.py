"""Draw data over a stack of simulated backgrounds, with signals, uncertainties and their ratio."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support import canvas, frame
from cenote.analysis.renderers.support.bins import BinAxis, BinCounts, Flow, Roles, beyond, bin_axis
from cenote.analysis.renderers.support.compared import Envelope, envelope, variations_of
from cenote.analysis.renderers.support.comparison_sides import ENDING, ComparedSides, Side, write_numbers
from cenote.analysis.renderers.support.picture import PicturePerAxis
from cenote.analysis.renderers.support.samples import SampleRoles, not_held, roles_of, samples_of
from cenote.analysis.renderers.support.stack import (
    StackStyle,
    data_errors,
    data_over_expected,
    draw_points,
    draw_ratio,
    draw_stack,
)
from cenote.analysis.renderers.support.style import Range
from cenote.analysis.renderers.support.transforms import names_after, transformed
from cenote.common import errors
from cenote.language.plugins.settings import Settings

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.figure import Figure

WITH_RATIO, WITHOUT_RATIO = (10.0, 10.0), (10.0, 8.0)


class DataMCBlock(Settings):
    """Settings of `data_mc`."""

    data: str | tuple[str, ...] | None = None
    """The dataset (or datasets, or group) drawn as points; without it, those with `eventtype: data`."""
    backgrounds: tuple[str, ...] = ()
    """Datasets or groups of the stack; without it, all others, added up by their `group`."""
    signals: tuple[str, ...] = ()
    """Datasets or groups on top of the stack, or drawn as lines over it."""
    include_signals_in_stack: bool = True
    """Signals on top of the stack, and part of the ratio; false overlays them."""
    show_mc_uncertainty: bool = True
    """The hatched band of the uncertainty of the simulation."""
    systematics: bool = True
    """Variations, where the histogram has some, as a part of that band: the envelope of each group (`jes_up` and
    `jes_down`), groups and statistics in quadrature."""
    stack: bool = True
    """Backgrounds on top of each other; false overlays them."""
    stack_order: Literal["yield", "legend", "reverse_legend"] | None = None
    """From the bottom: smallest first, as in the legend, or the legend's last first.

    Null is `yield`, or `reverse_legend` where `backgrounds` gives an order."""
    ratio: bool = True
    """The lower panel, where there is data and simulation."""
    histtype_mc: Literal["fill", "step"] = "fill"
    """Areas or lines for backgrounds."""
    histtype_signal: Literal["fill", "step"] | None = None
    """Areas or lines for signals; null is areas in the stack and lines over it."""
    legend_auto_ncol_threshold: int = Field(default=5, ge=1)
    """With more entries than this the legend gets more columns."""
    legend_max_ncol: int = Field(default=4, ge=1)
    """The most columns it gets."""
    ratio_ylim: Range = (0.5, 1.5)
    """The range of the lower panel; points outside are shown as arrows."""
    ratio_ylabel: str = "Data/MC"
    """The label of the lower panel."""
    yields: bool = False
    """The number of events behind each name in the legend."""
    normalise_to_data: bool = False
    """Scale all simulation together to the number of events in data."""
    flow: Flow = "none"
    """Under- and overflow: left out, shown as bins of their own, added to the outermost bins, or marked with arrows
    (`hint`). NaN is overflow."""


class DataMC(PicturePerAxis):
    """Compares data with simulation: a stack of backgrounds, signals, data points and their ratio.

    Without data, or without simulation, what is there is drawn, without the ratio. A table beside the picture
    (`<out>.csv`) has the numbers of each bin: data, what is expected, their intervals, and the ratio.
    """

    example: ClassVar[str] = """
    render:
      op: hep.render.data_mc
      out: dimuon_mass
      style: {experiment: CMS, lumi: 59.8}
      data_mc: {data: data, ratio_ylim: [0.8, 1.2]}
    """

    data_mc: DataMCBlock = DataMCBlock()
    """What is special to this renderer."""

    @property
    def endings(self) -> tuple[str, ...]:
        """Those of the formats, and a table of what is compared."""
        return (*super().endings, ENDING)

    @property
    def adds_overflow(self) -> bool:
        """With `flow: sum`; see `Renderer.adds_overflow`."""
        return self.data_mc.flow == "sum"

    def check(self, shape: ProductShape, context: DrawContext) -> None:
        """The datasets and groups that are named must be there; see `Renderer.check`."""
        super().check(shape, context)
        if shape.per_dataset is None or not context.datasets:
            return
        known = names_after(self.transforms, context) if shape.per_dataset else {context.stage}
        hint = None if shape.per_dataset else "`dataset_axis: true` in the params of the stage keeps datasets apart"
        block = self.data_mc
        data = (block.data,) if isinstance(block.data, str) else block.data or ()
        for key, names in (("data", data), ("backgrounds", block.backgrounds), ("signals", block.signals)):
            for name in names:
                if name not in known:
                    raise not_held(errors.BAD_VALUE, name, known, key=f"data_mc.{key}", stage=context.stage, hint=hint)

    def draw_one(self, histogram: Any, roles: Roles, index: int, target: Path, context: DrawContext) -> list[Path]:
        """Write one picture; see `PicturePerAxis.draw_one`."""
        block = self.data_mc
        axis = bin_axis(histogram.axes[index], label=self.axes.x.label, flow=block.flow)
        styles = self.style.datasets
        found = samples_of(
            *(histogram, roles, [index], context), styles=styles, variation=self.variation, flow=block.flow
        )
        cast = self._cast(transformed(found, self.transforms, styles, context), context)
        if block.systematics and self.variation is None and cast.expected is not None:
            cast = replace(cast, envelope=self._envelope(histogram, roles, index, cast.expected, context))
        ratio = block.ratio and cast.data is not None and cast.expected is not None
        size = canvas.figure_size(self.figure, WITH_RATIO if ratio else WITHOUT_RATIO)
        with canvas.styled(self.style, size):
            figure = self._picture(axis, cast, context, size=size, ratio=ratio)
            if block.flow == "hint":
                frame.hint_at_flow(figure.axes[-1], axis, beyond(histogram, index))
            files = self.save(figure, target, context)
        compared = _compared(cast)
        return [*files, *([write_numbers([axis], [compared], target, partial=context.partial)] if compared else [])]

    def _envelope(
        self, histogram: Any, roles: Roles, index: int, expected: BinCounts, context: DrawContext
    ) -> Envelope | None:
        """What variations make of the sum of all that is stacked."""
        styles, flow = self.style.datasets, self.data_mc.flow
        varied = {}
        for name in variations_of(histogram, roles):
            found = samples_of(histogram, roles, [index], context, styles=styles, variation=name, flow=flow)
            summed = self._cast(transformed(found, self.transforms, styles, context), context).expected
            if summed is not None:
                varied[name] = summed.values
        return envelope(expected.values, varied, context)

    def _cast(self, samples: list[Any], context: DrawContext) -> SampleRoles:
        block = self.data_mc
        data = (block.data,) if isinstance(block.data, str) else block.data
        return roles_of(
            samples,
            data=data,
            backgrounds=block.backgrounds,
            signals=block.signals,
            signals_in_stack=block.include_signals_in_stack and block.stack,
            normalise_to_data=block.normalise_to_data,
            styles=self.style.datasets,
            context=context,
        )

    def _picture(
        self, axis: BinAxis, cast: SampleRoles, context: DrawContext, *, size: tuple[float, float], ratio: bool
    ) -> Figure:
        figure, panels = canvas.new_figure(size, heights=(3, 1) if ratio else (1,))
        main = panels[0, 0]
        bottom = panels[-1, 0]
        entries = draw_stack(main, axis, cast, self._stack_style(cast))
        if cast.data is not None:
            entries.insert(0, draw_points(main, axis, cast.data, yields=self.data_mc.yields))
        if ratio:
            draw_ratio(bottom, axis, cast, ylim=self.axes.ratio.limits or self.data_mc.ratio_ylim)
            bottom.set_ylabel(self.axes.ratio.label or self.data_mc.ratio_ylabel, loc="center")
        frame.set_x(bottom, axis, self.axes.x)
        bottom.set_xlabel(axis.label)
        main.set_ylabel(self.axes.y.label or f"Events{axis.per_bin}")
        columns = self._columns(len(entries))
        self.finish(main, axis, cast.everything, entries, context, size=size, columns=columns)
        figure.align_ylabels()
        frame.fit_labels(bottom, highest=frame.LABEL_OVERHANG if ratio else 1.0)
        return figure

    def _stack_style(self, cast: SampleRoles) -> StackStyle:
        block = self.data_mc
        order = block.stack_order or ("reverse_legend" if block.backgrounds else "yield")
        return StackStyle(
            stacked=block.stack,
            order=order,
            filled=block.histtype_mc == "fill",
            signals_filled=block.histtype_signal != "step",
            band=block.show_mc_uncertainty,
            yields=block.yields,
            colours=tuple(canvas.colours(self.style, len(cast.backgrounds) + len(cast.signals))),
        )

    def _columns(self, entries: int) -> int:
        block = self.data_mc
        return min(1 + (entries - 1) // block.legend_auto_ncol_threshold, block.legend_max_ncol) if entries else 1


def _compared(cast: SampleRoles) -> ComparedSides | None:
    """Data, what is expected, and their ratio; None where one of them is missing."""
    if cast.data is None or cast.expected is None:
        return None
    data, expected = cast.data.counts, cast.expected
    first = Side(cast.data.name, data.values, *data_errors(data))
    second = Side("expected", expected.values, cast.uncertainty.down, cast.uncertainty.up)
    return ComparedSides(first, second, "ratio", data_over_expected(data, expected))
