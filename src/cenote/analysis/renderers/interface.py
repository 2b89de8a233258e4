"""State what a renderer is: it draws a product to files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.common import errors
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Plugin
from cenote.language.systematics import NOMINAL, VariationSide


@dataclass(frozen=True)
class DrawContext:
    """What a picture may need besides the product."""

    stage: str
    datasets: Mapping[str, DatasetInfo] = field(default_factory=dict)
    instead: Mapping[str, Mapping[str, DatasetInfo]] = field(default_factory=dict)
    """Variation → dataset → the one whose events take its place there, with numbers of its own."""
    sides: Mapping[str, VariationSide] = field(default_factory=dict)
    """Variation of the workflow → what it is the upper or lower side of."""
    partial: bool = False
    """Whether some of the data is missing: the picture must say so."""
    together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where several products are drawn together: the name of each, and what its datasets are called in `datasets`."""

    warn: Callable[[str], None] = field(default=lambda _: None, compare=False)
    """Tells who runs the workflow what is odd about a product."""

    def source_of(self, dataset: str, variation: str | None) -> DatasetInfo | None:
        """Where the events come from that a dataset has in a variation (None: the nominal one), where that is known."""
        return self.instead.get(variation or NOMINAL, {}).get(dataset) or self.datasets.get(dataset)


class Renderer(Plugin):
    """Draws a product. Its fields are the settings of a `render` entry, style included."""

    draws: ClassVar[tuple[str, ...]] = ()
    """The kinds of product it can draw (`histogram`, `cutflow`)."""
    holds_numbers: ClassVar[bool] = False
    """Whether others compute with what it writes: without that file the run is partial, without a picture it is not."""

    @property
    def adds_overflow(self) -> bool:
        """Whether what is beyond the last bin is shown as if it were in it."""
        return False

    @property
    def endings(self) -> tuple[str, ...]:
        """Of the files it writes, without the dot; empty where that is not known beforehand."""
        return ()

    def stems(self, stem: str, axes: Sequence[str]) -> Sequence[str]:  # noqa: ARG002  # for renderers that need them
        """What its files are called, without endings, for a target `stem` and the names of a histogram's axes."""
        return (stem,)

    def check(self, shape: ProductShape, context: DrawContext) -> None:
        """Raise what is wrong with drawing such a product, before there is one; by default, nothing is."""

    @abstractmethod
    def draw(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """Write files whose names begin with `target` (no suffix) and return them."""

    def check_together(self, shapes: Mapping[str, ProductShape], context: DrawContext) -> None:  # see there
        """As `check`, for several products by name; by default, they cannot be drawn together."""
        raise errors.error(
            errors.BAD_VALUE,
            f"stage '{context.stage}' draws {len(shapes)} products together, and this renderer draws one",
            hint="hep.render.comparison, .hist1d, .pyhf and .combine take several; else name one with `from`",
        )

    def draw_together(self, products: Mapping[str, Any], target: Path, context: DrawContext) -> list[Path]:
        """As `draw`, for several products by name; only called where `check_together` is content."""
        raise NotImplementedError

    def draw_each(self, product: Any, target: Path, context: DrawContext) -> list[Path]:
        """One of each dataset, in a folder called like `target`; where they cannot be told apart, of all of them."""
        return self.draw(product, target, context)
