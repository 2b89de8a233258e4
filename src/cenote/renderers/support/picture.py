"""Hold what all renderers of pictures share: their common settings, and how a picture is finished."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from cenote import errors
from cenote.operations.interface import ProductShape
from cenote.renderers.interface import DrawContext, Renderer
from cenote.renderers.support import bins, canvas, frame
from cenote.renderers.support.bins import BinAxis, Roles
from cenote.renderers.support.frame import Entry
from cenote.renderers.support.samples import Sample
from cenote.renderers.support.style import AxesStyle, ExperimentStyle, FigureStyle, Format, LegendStyle, Transform
from cenote.text import plural

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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

    def one_per_axis(
        self, histogram: Any, target: Path, context: DrawContext, *, or_datasets: bool = False
    ) -> tuple[Roles, dict[int, Path]]:
        """Which axes of the histogram get a picture, and where it goes; `axes.x.name` chooses one of several.

        With `or_datasets`, the axis of datasets is drawn where there is no other.
        """
        wanted = self.axes.x.name
        roles = bins.roles(histogram, context.datasets, wanted=[wanted] if wanted else [])
        if or_datasets and not roles.free and roles.dataset is not None:
            roles = Roles(None, roles.variation, (roles.dataset,))
        if len(roles.free) == 1:
            return roles, {roles.free[0]: target}
        if wanted is not None:
            return roles, {bins.axis_called(histogram, wanted, roles.free, stage=context.stage): target}
        if not roles.free:
            raise errors.error(
                errors.RENDER_FAILED, f"the histogram of stage '{context.stage}' has no axis besides the dataset"
            )
        names = self.stems_per_axis(target.name, [histogram.axes[i].name for i in roles.free])
        return roles, {i: target.with_name(name) for i, name in zip(roles.free, names, strict=True)}

    def stems_per_axis(self, stem: str, axes: Sequence[str]) -> Sequence[str]:
        """The names of the pictures that `one_per_axis` asks for."""
        several = len(axes) > 1 and self.axes.x.name is None
        return [f"{stem}_{axis}" for axis in axes] if several else [stem]

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
    ) -> None:
        """Label, legend and vertical range of the panel with the data, and what must be said about it."""
        has_data = shows_data(samples, context)
        texts = canvas.experiment_label(axes, self.style, size, has_data=has_data)
        named = entries if len(entries) > 1 or self.style.datasets else []
        outline = frame.Outline.around(axis.edges, entries)
        legend = frame.draw_legend(axes, named, self.legend, outline, columns=columns, beside=texts)
        frame.set_y(axes, outline, self.axes.y, [*texts, *([legend] if legend else [])])
        if legend and (self.legend.loc == "best" or "loc" not in self.legend.model_fields_set):
            frame.move_legend(axes, legend, named, self.legend, outline, columns=columns, beside=texts)
        if all(sample.counts.empty for sample in samples):
            canvas.note(axes, "no entries")
        elif broken := broken_note(samples):
            canvas.note(axes, broken, at=(0.5, 0.04), size="x-small")

    def save(self, figure: Figure, target: Path, context: DrawContext) -> list[Path]:
        """Write the picture in every format asked for, marked if some of the data is missing."""
        if context.partial:
            canvas.mark_partial(figure)
        return canvas.save(figure, target, self.formats, dpi=self.figure.dpi)


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
    return not any(sample.is_named for sample in samples) and any(
        info.eventtype == "data" for info in context.datasets.values()
    )


def broken_note(samples: Sequence[Sample]) -> str | None:
    """What to say of bins that are not finite."""
    broken = sum(sample.counts.broken for sample in samples)
    return f"{plural(broken, 'bin')} not finite, drawn as empty" if broken else None
