"""Draw histograms on top of each other, and below them how they compare: ratio, pull, difference, efficiency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support import canvas, frame
from cenote.analysis.renderers.support.bins import NOMINAL, BinAxis, Flow, Roles, beyond, bin_axis
from cenote.analysis.renderers.support.compared import ComparisonKind, CountErrors, compare, errors_of, more_than_all
from cenote.analysis.renderers.support.comparison_panel import (
    MOST_WITH_ERRORS,
    ComparisonLine,
    draw_comparison,
    limits_for,
)
from cenote.analysis.renderers.support.comparison_sides import (
    ENDING,
    AskedSides,
    ComparedSides,
    Each,
    Pair,
    Side,
    check_each,
    check_sides,
    nothing_to_compare,
    pairs_of,
    sides_of,
    write_numbers,
)
from cenote.analysis.renderers.support.frame import Entry
from cenote.analysis.renderers.support.picture import PicturePerAxis, must_hold
from cenote.analysis.renderers.support.samples import Sample, samples_of
from cenote.analysis.renderers.support.stack import HistType, Normalisation, draw_line, normalised, y_label
from cenote.analysis.renderers.support.style import AxisStyle, Colour, Range
from cenote.common import errors
from cenote.language.plugins.settings import Settings

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TWO_PANELS, ONE_PANEL = (10.0, 10.0), (10.0, 8.0)
LABELS: dict[ComparisonKind, str] = {
    "ratio": "{one} / {other}",
    "split_ratio": "{one} / {other}",
    "difference": "{one} − {other}",
    "relative_difference": "({one} − {other}) / {other}",
    "pull": "Pull",
    "efficiency": "Efficiency",
    "asymmetry": "Asymmetry",
}
LONGEST_LABEL = 24
"""More letters than this do not fit beside the lower panel: then the kind of the comparison alone is named."""


class ComparisonBlock(Settings):
    """Settings of `comparison`."""

    reference: str | tuple[str, ...] | None = None
    """What is compared: a dataset or group, or one of several products (several names: their sum).

    Null is real data, or of several products the one called `reference`, else the first."""
    target: str | tuple[str, ...] | None = None
    """With what; several names are compared one by one. Null is all simulation together, or of several products the
    one called `target`, else all others."""
    reference_label: str | None = None
    """The reference's name in the picture; null is its own."""
    target_label: str | None = None
    """The target's name in the picture, where there is one; null is its own."""
    comparison: ComparisonKind = "ratio"
    """`ratio` (reference / target), `split_ratio` (the uncertainty of each on its own), `difference`,
    `relative_difference`, `pull`, `asymmetry` ((reference − target) / sum), or `efficiency` (the reference's events are
    among the target's)."""
    each: Each | None = None
    """Of two products, compare `dataset` by dataset (or group), or real data and simulation apart (`eventtype`): the
    efficiencies of both in one picture. Then `reference` and `target` are names of products."""
    invert: bool = False
    """Compare the target with the reference instead: target / reference, the share of the target in the reference."""
    comparison_ylabel: str | None = None
    """The label of the lower panel."""
    comparison_ylim: Range | None = None
    """The range of the lower panel; points outside are shown as arrows. Null fits the data."""
    only_comparison: bool = False
    """The comparison alone, without the panel of the histograms."""
    w2method: CountErrors | None = None
    """Uncertainties: `sqrt` of the sum of squared weights, or `poisson` intervals. Null is exact intervals for counts
    (Garwood, Clopper–Pearson) and `sqrt` for weighted events."""
    flow: Flow = "none"
    """Under- and overflow: left out, shown as bins of their own, added to the outermost bins, or marked with arrows
    (`hint`). NaN is overflow."""
    normalise: Normalisation | None = None
    """`area` makes each integral 1, `sum` makes the bins of each add up to 1, before they are compared."""
    reference_color: Colour | None = None
    """Null is its own colour, else black."""
    target_color: Colour | None = None
    """Null is its own colour, else the next one of the style."""
    reference_histtype: HistType = "errorbar"
    """Points, lines or areas."""
    target_histtype: HistType = "step"
    """Points, lines or areas."""
    variation_axis: str | None = None
    """The axis of variations, where it must have a certain name."""
    variation: str | None = None
    """The variation of the target; null is that of the reference."""
    variation_reference: str = "nominal"
    """The variation of the reference."""
    dataset_axis: str | None = None
    """The axis of datasets, where it must have a certain name."""
    reference_eventtype: Literal["data", "mc"] = "data"
    """What the reference is, where it is not named."""
    target_eventtype: Literal["data", "mc"] = "mc"
    """What the target is, where it is not named."""


class ComparisonPicture(PicturePerAxis):
    """Compares datasets of a histogram, or the products of several stages, with correct uncertainties.

    A histogram of several variables gives one picture for each of them, unless `axes.x.name` chooses one. A table
    beside each picture (`<out>.csv`) has the numbers of each bin: both sides, their intervals, and the comparison.
    """

    example: ClassVar[str] = """
    render:
      op: hep.render.comparison
      out: data_over_mc
      comparison: {reference: data, target: mc, comparison: ratio, comparison_ylim: [0.8, 1.2]}
    """

    comparison: ComparisonBlock = ComparisonBlock()
    """What is special to this renderer."""

    @property
    def endings(self) -> tuple[str, ...]:
        """Those of the formats, and a table of what is compared."""
        return (*super().endings, ENDING)

    @property
    def adds_overflow(self) -> bool:
        """With `flow: sum`; see `Renderer.adds_overflow`."""
        return self.comparison.flow == "sum"

    def check(self, shape: ProductShape, context: DrawContext) -> None:
        """What is named must be there; see `Renderer.check`."""
        super().check(shape, context)
        block = self.comparison
        if shape.variations and block.variation:
            must_hold(block.variation, shape.variations, "variation", stage=context.stage, listed_as="variations")
        if shape.per_dataset is None or not context.datasets:
            return
        if block.each is not None:
            check_each(self._asked, context, key="comparison.each")
        else:
            check_sides(self._asked, self.transforms, shape, context)

    @property
    def _asked(self) -> AskedSides:
        block = self.comparison
        first, second = (
            (given,) if isinstance(given, str) else given or () for given in (block.reference, block.target)
        )
        return AskedSides(first, second, block.reference_eventtype, block.target_eventtype)

    def draw_one(self, histogram: Any, roles: Roles, index: int, target: Path, context: DrawContext) -> list[Path]:
        """Write one picture; see `PicturePerAxis.draw_one`."""
        block = self.comparison
        self._check_axes(histogram, roles, context)
        axis = bin_axis(histogram.axes[index], label=self.axes.x.label, flow=block.flow)
        first = self.variation or block.variation_reference
        ones = self._pairs(histogram, roles, index, axis, context, variation=first)
        others = self._pairs(histogram, roles, index, axis, context, variation=block.variation or first)
        pairs = [Pair(one.one, other.other, one.label) for one, other in zip(ones, others, strict=True)]
        size = canvas.figure_size(self.figure, ONE_PANEL if block.only_comparison else TWO_PANELS)
        with canvas.styled(self.style, size):
            figure = self._picture(axis, pairs, context, size=size)
            if block.flow == "hint":
                frame.hint_at_flow(figure.axes[-1], axis, beyond(histogram, index))
            files = self.save(figure, target, context)
        compared = [self._compared(pair) for pair in pairs]
        return [*files, write_numbers([axis], compared, target, partial=context.partial)]

    def _check_axes(self, histogram: Any, roles: Roles, context: DrawContext) -> None:
        """The axes of datasets and variations are called what the settings say."""
        for wanted, index in (
            (self.comparison.dataset_axis, roles.dataset),
            (self.comparison.variation_axis, roles.variation),
        ):
            found = None if index is None else histogram.axes[index].name
            if wanted is not None and found != wanted and not context.together:
                names = [axis.name for axis in histogram.axes if axis.name]
                words = f"the histogram of stage '{context.stage}' has no axis of datasets or variations '{wanted}'"
                raise errors.CenoteError(errors.unknown_name(errors.RENDER_FAILED, words, wanted, names, what="axes"))

    def _pairs(
        self, histogram: Any, roles: Roles, index: int, axis: BinAxis, context: DrawContext, *, variation: str
    ) -> list[Pair]:
        """What is compared with what."""
        block, styles = self.comparison, self.style.datasets
        wanted = variation if roles.variation is not None else None
        found = samples_of(*(histogram, roles, [index], context), styles=styles, variation=wanted, flow=block.flow)
        if roles.dataset is None:
            raise nothing_to_compare(errors.RENDER_FAILED, context.stage)
        if block.each is not None:
            pairs = pairs_of(found, self._asked, self.transforms, styles, context, each=block.each)
            return [
                replace(pair, one=self._normalised(pair.one, axis), other=self._normalised(pair.other, axis))
                for pair in pairs
            ]
        one, others = sides_of(found, self._asked, self.transforms, styles, context)
        if wanted is not None and wanted != (self.variation or NOMINAL):  # which the title of the legend names
            one, *others = (s if s.is_data else _called(s, f"{s.label.strip()} ({wanted})") for s in (one, *others))
        if block.reference_label is not None:
            one = _called(one, block.reference_label)
        if block.target_label is not None and len(others) == 1:
            others = [_called(others[0], block.target_label)]
        one = self._normalised(one, axis)
        return [Pair(one, self._normalised(other, axis)) for other in others]

    def _normalised(self, sample: Sample, axis: BinAxis) -> Sample:
        return replace(sample, counts=normalised(sample.counts, axis, self.comparison.normalise))

    def _picture(
        self, axis: BinAxis, pairs: Sequence[Pair], context: DrawContext, *, size: tuple[float, float]
    ) -> Figure:
        block, alone = self.comparison, self.comparison.only_comparison
        figure, panels = canvas.new_figure(size, heights=(1,) if alone else (3, 1))
        main, bottom = panels[0, 0], panels[-1, 0]
        colours = self._colours(pairs)
        lines = [self._line(pair, colour, several=len(pairs) > 1) for pair, colour in zip(pairs, colours, strict=True)]
        given = self.axes.ratio.limits or block.comparison_ylim
        fitting = limits_for(block.comparison, lines)
        limits = tuple(own if end is None else end for end, own in zip(given or (None, None), fitting, strict=True))
        band = (pairs[0].one if block.invert else pairs[0].other).counts if block.comparison == "split_ratio" else None
        entries = draw_comparison(
            bottom, axis, block.comparison, lines, limits=(limits[0], limits[1]), band=band, wide=alone
        )
        bottom.set_ylabel(self._label(pairs), loc="top" if alone else "center")
        frame.set_x(bottom, axis, self.axes.x)
        bottom.set_xlabel(axis.label)
        if not alone:
            entries = self._draw_samples(main, axis, pairs, colours)
            main.set_ylabel(self.axes.y.label or y_label(axis, block.normalise))
        columns = 1 + (len(entries) > 5)
        y = AxisStyle(limits=(limits[0], limits[1] if given else None)) if alone else self.axes.y
        least = limits[1] if alone else None
        explained = alone and entries[0].label != bottom.get_ylabel()
        self.finish(
            *(main, axis, [sample for pair in pairs for sample in (pair.one, pair.other)], entries, context),
            size=size,
            columns=columns,
            y=y,
            at_least=least,
            explained=explained,
        )
        figure.align_ylabels()
        frame.fit_labels(bottom, highest=frame.LABEL_OVERHANG)
        return figure

    def _colours(self, pairs: Sequence[Pair]) -> list[str]:
        """Of targets; real data is black where there is a pair for each dataset."""
        palette = iter(canvas.colours(self.style, len(pairs) + 1))
        own = self.comparison.target_color if len(pairs) == 1 else None
        usual = ["black" if pair.label and pair.other.is_data else next(palette) for pair in pairs]
        return [own or pair.other.style.color or colour for pair, colour in zip(pairs, usual, strict=True)]

    def _line(self, pair: Pair, colour: str, *, several: bool) -> ComparisonLine:
        block, one, other = self.comparison, pair.one, pair.other
        first, second = self._in_order(pair)
        if block.comparison == "efficiency" and (wrong := more_than_all(first.counts, second.counts)) is not None:
            raise _not_among(first, second, wrong)
        found = compare(block.comparison, first.counts, second.counts, method=block.w2method)
        alone = block.comparison == "pull" or several or block.only_comparison
        black = block.reference_color or one.style.color or "black"
        text = pair.label or (other.label if several else _in_words(block.comparison, first, second))
        return ComparisonLine(found, colour if alone else black, text)

    def _in_order(self, pair: Pair) -> tuple[Sample, Sample]:
        return (pair.other, pair.one) if self.comparison.invert else (pair.one, pair.other)

    def _compared(self, pair: Pair) -> ComparedSides:
        """The numbers of a pair."""
        kind, method = self.comparison.comparison, self.comparison.w2method
        one, other = self._in_order(pair)
        first, second = (Side(side.name, side.counts.values, *errors_of(side.counts, method)) for side in (one, other))
        return ComparedSides(first, second, kind, compare(kind, one.counts, other.counts, method=method))

    def _draw_samples(self, axes: Axes, axis: BinAxis, pairs: Sequence[Pair], colours: Sequence[str]) -> list[Entry]:
        block = self.comparison
        own = block.reference_color or pairs[0].one.style.color or "black"
        each = list(zip(pairs, colours, strict=True))
        ones = {id(pair.one): (pair.one, colour if pair.label else own) for pair, colour in each}
        looks = [(one, colour, block.reference_histtype) for one, colour in ones.values()]
        looks += [(pair.other, colour, block.target_histtype) for pair, colour in each]
        few = len(pairs) <= MOST_WITH_ERRORS
        entries = []
        for sample, colour, kind in looks:
            spread = errors_of(sample.counts, block.w2method) if few or id(sample) in ones else None
            entries.append(draw_line(axes, axis, sample, colour, kind, spread=spread, band=True))
        return entries

    def _label(self, pairs: Sequence[Pair]) -> str:
        block = self.comparison
        written = block.comparison_ylabel or self.axes.ratio.label
        if written:
            return written
        first, second = pairs[0].one.label, pairs[0].other.label if len(pairs) == 1 else "each"
        if label := pairs[0].label:
            first, second = (side.name.removesuffix(f": {label}") for side in (pairs[0].one, pairs[0].other))
        pair = (second, first) if block.invert else (first, second)
        text = LABELS[block.comparison].format(one=pair[0].strip(), other=pair[1].strip())
        short = block.comparison.replace("_", " ").capitalize()
        return text if len(text.replace("$", "")) <= LONGEST_LABEL else short.replace("Split ratio", "Ratio")


def _in_words(kind: ComparisonKind, one: Sample, other: Sample) -> str:
    """What is compared with what, in the legend."""
    words = {"efficiency": "{one} / {other}", "pull": "{one} − {other}", "asymmetry": "{one}, {other}"}
    return words.get(kind, LABELS[kind]).format(one=one.label.strip(), other=other.label.strip())


def _called(sample: Sample, label: str) -> Sample:
    return replace(sample, style=sample.style.model_copy(update={"label": label}))


def _not_among(one: Sample, other: Sample, wrong: int) -> errors.CenoteError:
    few, many = one.counts.values[wrong], other.counts.values[wrong]
    return errors.error(
        errors.RENDER_FAILED,
        f"an efficiency needs events that are among others: bin {wrong} has {few:g} of '{one.name}', and {many:g} of "
        f"'{other.name}'",
        hint="`invert: true` exchanges the two; `comparison: ratio` compares samples that are independent",
    )
