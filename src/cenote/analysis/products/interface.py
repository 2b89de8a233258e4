"""State what a kind of product is: merged in order, saved in formats that other tools read, shown to people."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from cenote.analysis.operations.interface import ProductShape
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Plugin

Form = Literal["text", "count", "number", "share", "bar"]
"""How the cells of a column are shown: a share is a percentage, a bar a percentage with a bar behind it."""


@dataclass(frozen=True)
class ProductTable:
    """Part of a product as a table."""

    caption: str
    columns: tuple[tuple[str, Form], ...]
    """The heading of each column, and how its cells are shown."""
    rows: tuple[tuple[str | float | None, ...], ...]
    """The cells of each row; None where there is nothing to say."""
    row_word: str = "row"
    column_word: str = "column"
    """What a row and a column after the first are called where some are left out."""


WEIGHTS_NOT_FINITE = "a weight is NaN or infinite; isfinite(weight) tells for which events"
"""What sums that are not finite mean."""


class Product(Plugin):
    """A kind of product. The values themselves are ordinary objects (`hist.Hist`, tables, lists of files)."""

    tabular: ClassVar[bool] = False
    """Whether `tables` and `short_table` show it."""

    @abstractmethod
    def merge(self, parts: Sequence[Any]) -> Any:
        """One value from many, in the order given; a single part comes back equal."""

    @abstractmethod
    def save(self, value: Any, folder: Path, name: str) -> list[Path]:
        """Write it under this name; every file is written atomically. Returns what was written."""

    @abstractmethod
    def load(self, folder: Path, name: str) -> Any:
        """Read back what `save` wrote."""

    @abstractmethod
    def describe(self, value: Any) -> str:
        """One line for a summary: `1 axis, 60 bins, 1.2 M entries`."""

    def warnings(self, value: Any) -> Sequence[str]:  # noqa: ARG002  # for products whose numbers may be in doubt
        """What the user should know of its numbers, a sentence each; they begin after `stage 'H': `."""
        return ()

    def default_renderer(self, shape: ProductShape) -> str | None:  # noqa: ARG002  # for products that are drawn
        """The renderer for a stage that names none; None where such a product is not drawn."""
        return None

    def tables(self, value: Any) -> Sequence[ProductTable]:  # noqa: ARG002  # for products that are tabular
        """All numbers, for the report."""
        return ()

    def short_table(self, value: Any) -> ProductTable | None:  # noqa: ARG002  # for products that are tabular
        """What a terminal shows at the end of a run; None for nothing."""
        return None
