"""This file holds what all renderers of pictures share: their common settings, and how a picture is finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from cenote import errors
from cenote.renderers import _canvas
from cenote.renderers._samples import Sample
from cenote.renderers._style import AxesStyle, ExperimentStyle, FigureStyle, Format, LegendStyle, Transform
from cenote.renderers.interface import DrawContext, Renderer

if TYPE_CHECKING:  # for annotations only: the import would cost half a second
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

    def save(self, figure: Figure, target: Path) -> list[Path]:
        """Write the picture in every format asked for."""
        return _canvas.save(figure, target, self.formats, dpi=self.figure.dpi)


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
    return len(samples) == 1 and any(info.eventtype == "data" for info in context.datasets.values())


def broken_note(samples: Sequence[Sample]) -> str | None:
    """What to say of bins that are not finite."""
    broken = sum(sample.counts.broken for sample in samples)
    return f"{broken} bin{'s' if broken > 1 else ''} not finite, drawn as empty" if broken else None
