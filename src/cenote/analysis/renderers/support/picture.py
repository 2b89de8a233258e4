"""Hold what all renderers of pictures share: their common settings, and how a picture is finished."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.renderers.interface import DrawContext, Renderer
from cenote.analysis.renderers.support import bins, canvas, frame
from cenote.analysis.renderers.support import frame as legends
from cenote.analysis.renderers.support.bins import BinAxis, Roles
from cenote.analysis.renderers.support.frame import Entry
from cenote.analysis.renderers.support.samples import MIXED, Sample, combined, combined_shape
from cenote.analysis.renderers.support.style import (
    AxesStyle,
    AxisStyle,
    ExperimentStyle,
    FigureStyle,
    Format,
    LegendStyle,
    Mark,
    Transform,
)
from cenote.analysis.renderers.support.transforms import check_transforms
from cenote.common import errors
from cenote.common.text import plural

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DONE: dict[str, Any] = {"select": {}, "variation": None}
"""Settings that are carried out once several products have become one histogram."""


class Picture(Renderer):
    """A renderer that draws. Its own settings stand in a block of its short name."""

    draws: ClassVar[tuple[str, ...]] = ("histogram",)

    figure: FigureStyle = FigureStyle()
    """Size and resolution."""
    style: ExperimentStyle = ExperimentStyle()
    """The experiment's look and label; colours and names of datasets."""
    axes: AxesStyle = AxesStyle()
    """Labels, scales and limits."""
    legend: LegendStyle = LegendStyle()
    """The legend."""
    formats: tuple[Format, ...] = Field(default=("png", "pdf"), min_length=1)
    """The files that are written."""
    transforms: tuple[Transform, ...] = ()
    """What is done to the datasets before drawing: grouping, scaling."""
    variation: str | None = None
    """Which variation is drawn, of a histogram that has several; without it, `nominal`."""
    select: Mapping[str, str | tuple[str, ...]] = Field(default_factory=dict)
    """Axis of categories → the one, or those, that are drawn: `{dataset: [dy, ttbar]}`."""
    overlays: tuple[Mark, ...] = ()
    """Boxes and lines over the picture: `{kind: box, x: [150, 400], y: [4, 5]}`, `{kind: line, x: 91.2}`."""

    @classmethod
    def warm_up(cls) -> None:
        canvas.import_matplotlib()

    @property
    def endings(self) -> tuple[str, ...]:
        """Those of the formats."""
        return tuple(self.formats)

    def check(self, shape: ProductShape, context: DrawContext) -> None:
        """The axis and the variation that are asked for must be there; see `Renderer.check`."""
        if shape.axes is not None and self.axes.x.name is not None:
            must_hold(self.axes.x.name, shape.axes, "axis", stage=context.stage, listed_as="axes")
        if shape.variations:
            wanted = self.variation or bins.NOMINAL
            must_hold(wanted, shape.variations, "variation", stage=context.stage, listed_as="variations")
        self.check_selected(shape, context)
        check_transforms(self.transforms, shape, context)

    def check_selected(self, shape: ProductShape, context: DrawContext) -> None:
        """Axes and categories that are selected are there, as far as that is known."""
        for axis, wanted in self.select.items():
            if axis in bins.DATASET_AXES and shape.per_dataset and context.datasets:
                for name in [wanted] if isinstance(wanted, str) else wanted:
                    must_hold(name, context.datasets, "dataset", stage=context.stage, listed_as="datasets")
            elif shape.axes is not None and shape.per_dataset is not None and not shape.variations:
                known = ["dataset"] if shape.per_dataset else []
                must_hold(axis, known, "axis of categories", stage=context.stage, listed_as="axes of categories")

    def draw_each(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """A picture of each dataset along the dataset axis; without one, of all of them together."""
        histogram = self.histogram(product, context)
        roles = bins.roles(histogram, context.datasets)
        if roles.dataset is None:
            return self.draw(product, target, context)
        axis = histogram.axes[roles.dataset].name
        return [
            path
            for name in bins.dataset_names(histogram, roles)
            for path in self.model_copy(update={"select": {**self.select, axis: name}}).draw(
                product, target / file_name(name), context
            )
        ]

    @property
    def _wanted(self) -> list[str]:
        """The axes of the histogram that are chosen by name."""
        return [name for name in (self.axes.x.name, self.axes.y.name) if name]

    def check_together(self, shapes: Mapping[str, ProductShape], context: DrawContext) -> None:
        """As for one histogram, with the datasets of all of them; see `Renderer.check_together`."""
        for shape in shapes.values():
            self.check_selected(shape, context)
        shape, described = combined_shape(shapes, context, wanted=self._wanted)
        self.model_copy(update=DONE).check(shape, described)

    def draw_together(self, products: Mapping[str, Any], target: Path, context: DrawContext) -> list[Path]:
        """As one histogram with the datasets of all of them; see `Renderer.draw_together`."""
        histograms = {}
        for name, product in products.items():
            there = {axis.name for axis in histogram_of(product, context).axes}
            own = self.model_copy(update={"select": {axis: one for axis, one in self.select.items() if axis in there}})
            histograms[name] = own.histogram(product, context)
        whole, described = combined(histograms, context, wanted=self._wanted, variation=self.variation)
        return self.model_copy(update=DONE).draw(whole, target, described)

    def histogram(self, product: Any, context: DrawContext) -> Any:
        """The product, if it is a histogram that can be drawn; only what is selected of it."""
        found = histogram_of(product, context)
        for name, wanted in self.select.items():
            found = bins.only(found, name, [wanted] if isinstance(wanted, str) else wanted, stage=context.stage)
        return found

    def finish(
        self,
        axes: Axes,
        axis: BinAxis,
        samples: Sequence[Sample],
        entries: Sequence[Entry],
        context: DrawContext,
        *,
        size: tuple[float, float],
        columns: int,
        y: AxisStyle | None = None,
        at_least: float | None = None,
        explained: bool = False,
    ) -> None:
        """Label, legend and vertical range of the panel with the data, and what must be said about it.

        `y` stands for `axes.y` where the panel shows something else; its range reaches up to `at_least` this. A single
        entry is in the legend where it has to be `explained`, or has a look of its own.
        """
        has_data = shows_data(samples, context)
        texts = canvas.experiment_label(axes, self.style, size, has_data=has_data)
        marks = frame.draw_marks(axes, axis.edges, self.overlays)
        named = [*(entries if len(entries) > 1 or explained or self.style.datasets else []), *marks]
        outline = frame.Outline.around(axis.edges, entries)
        style = self._legend
        legend = legends.draw_legend(axes, named, style, outline, columns=columns, beside=texts)
        scale = y or self.axes.y
        frame.set_y(axes, outline, scale, [*texts, *([legend] if legend else [])], at_least=at_least)
        if legend and (self.legend.loc == "best" or "loc" not in self.legend.model_fields_set):
            moved = legends.move_legend(axes, legend, named, style, outline, columns=columns, beside=texts)
            if moved is not legend:  # it needs no room, or other room
                frame.set_y(axes, outline, scale, [*texts, moved], at_least=at_least)
        frame.fit_labels(axes)
        if all(sample.counts.empty for sample in samples):
            canvas.note(axes, empty_note(samples))
        elif broken := broken_note(samples):
            canvas.note(axes, broken, at=(0.5, 0.04), size="x-small")

    @property
    def _legend(self) -> LegendStyle:
        """With the variation that is drawn as its title, unless it has another one."""
        if self.variation in (None, bins.NOMINAL) or self.legend.title is not None:
            return self.legend
        return self.legend.model_copy(update={"title": self.variation})

    def save(self, figure: Figure, target: Path, context: DrawContext) -> list[Path]:
        """Write the picture in every format asked for, marked if some of the data is missing."""
        if context.partial:
            canvas.mark_partial(figure)
        return canvas.save(figure, target, self.formats, dpi=self.figure.dpi)


class PicturePerAxis(Picture):
    """A renderer that draws one picture for each axis of a histogram; `axes.x.name` chooses one of several."""

    draws_datasets: ClassVar[bool] = False
    """Whether the axis of datasets is drawn where there is no other."""

    def stems(self, stem: str, axes: Sequence[str]) -> Sequence[str]:
        """A picture for each axis."""
        several = len(axes) > 1 and self.axes.x.name is None
        return [f"{stem}_{axis}" for axis in axes] if several else [stem]

    def draw(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """Write the pictures; see `Renderer.draw`."""
        histogram, wanted = self.histogram(product, context), self.axes.x.name
        roles = bins.roles(histogram, context.datasets, wanted=[wanted] if wanted else [])
        if self.draws_datasets and not roles.free and roles.dataset is not None:
            roles = Roles(None, roles.variation, (roles.dataset,))
        if not roles.free and wanted is None:
            raise errors.error(
                errors.RENDER_FAILED, f"the histogram of stage '{context.stage}' has no axis besides the dataset"
            )
        chosen = roles.free
        if len(chosen) != 1 and wanted is not None:
            chosen = (bins.axis_called(histogram, wanted, roles.free, stage=context.stage),)
        stems = self.stems(target.name, [histogram.axes[index].name for index in chosen])
        return [
            path
            for index, stem in zip(chosen, stems, strict=True)
            for path in self.draw_one(histogram, roles, index, target.with_name(stem), context)
        ]

    @abstractmethod
    def draw_one(self, histogram: Any, roles: Roles, index: int, target: Path, context: DrawContext) -> list[Path]:
        """Write the picture of the axis at this position."""


def must_hold(name: str, known: Collection[str], what: str, *, stage: str, listed_as: str) -> None:
    """Refuse a name that the histogram of a stage will not have."""
    if name not in known:
        message = f"the histogram of stage '{stage}' has no {what} '{name}' to draw"
        raise errors.CenoteError(errors.unknown_name(errors.BAD_VALUE, message, name, known, what=listed_as))


def histogram_of(product: Any, context: DrawContext) -> Any:
    """The product, if it is a histogram that can be drawn."""
    if not hasattr(product, "axes") or not hasattr(product, "values"):
        raise errors.error(
            errors.RENDER_FAILED,
            f"stage '{context.stage}' makes no histogram: there is nothing that this renderer could draw",
            details=(f"it makes: {type(product).__name__}",),
        )
    return product


def shows_data(samples: Sequence[Sample], context: DrawContext) -> bool:
    """Whether real data is in the picture; without any, experiments want it called a simulation."""
    if any(sample.is_data for sample in samples) or not context.datasets:
        return True
    parts = [part for sample in samples for part in context.together.get(sample.name, (sample.name,))]
    if any(context.datasets[part].eventtype in ("data", MIXED) for part in parts if part in context.datasets):
        return True
    return not any(sample.is_named for sample in samples) and any(
        info.eventtype == "data" for info in context.datasets.values()
    )


def empty_note(samples: Sequence[Sample]) -> str:
    """What to say where nothing is drawn."""
    return "sums of weights are not finite" if any(sample.counts.broken for sample in samples) else "no entries"


def broken_note(samples: Sequence[Sample]) -> str | None:
    """What to say of bins that are not finite."""
    broken = sum(sample.counts.broken for sample in samples)
    return f"{plural(broken, 'bin')} not finite, drawn as empty" if broken else None


def file_name(name: str) -> str:
    """A dataset's name as part of a path."""
    return re.sub(r"[^\w.+=-]+", "_", name).strip(".") or "dataset"
