"""The operation `hep.weights.lookup_csv`: weights from a table of bins."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.expressions.arrays import Lists, dimensions, lists_of
from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.evaluation import evaluate, event_column, only_there, there_in_all, with_missing
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.lookup import LookupOperation
from cenote.common import errors
from cenote.common.text import listed, plural
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Settings

Numbers = NDArray[np.float64]


class BinColumns(Settings):
    """Which columns of the table say where its bins are."""

    column: str | None = None
    """The bins are in `<column>_min` and `<column>_max`."""
    lower: str | None = Field(None, validation_alias=AliasChoices("lower", "min"))
    """Where a bin begins."""
    upper: str | None = Field(None, validation_alias=AliasChoices("upper", "max"))
    """Where it ends; this value is not in it."""

    @property
    def names(self) -> tuple[str, str]:
        """Lower and upper."""
        if self.lower and self.upper:
            return self.lower, self.upper
        name = self.column or "pt"
        return f"{name}_min", f"{name}_max"


@dataclass(frozen=True)
class _Table:
    """Bins in order."""

    lower: Numbers
    upper: Numbers
    values: Mapping[str, Numbers]

    def nearest(self, values: Numbers) -> NDArray[np.int64]:
        """The last bin that begins at or below each value; below all of them, the first."""
        found: NDArray[np.int64] = np.clip(np.searchsorted(self.lower, values, side="right") - 1, 0, None)
        return found

    def holds(self, values: Numbers, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether these bins hold these values."""
        return (self.lower[rows] <= values) & (values < self.upper[rows])


class LookupCsv(LookupOperation[_Table]):
    """Adds columns with the values of the bin that a variable falls into: of each event, or of each of its objects.

    Where the variable is missing, so are they.
    """

    example: ClassVar[str] = """
    - id: Scale
      op: hep.weights.lookup_csv
      params:
        path: weights.csv
        variable: MET_pt
        bins: {column: pt}
        values: {nominal: weight, up: weight_up}
        outputs: {nominal: sf, up: sf_up}
    """

    file: str = Field(validation_alias=AliasChoices("path", "file"))
    """A CSV file with a header, beside the workflow."""
    variable: ExpressionText
    """What is looked up: a column, or an expression."""
    bins: BinColumns = BinColumns()
    """Which columns of the table say where its bins are; `pt_min` and `pt_max` by default. They may not overlap."""
    values: Annotated[dict[str, str], Field(min_length=1)]
    """Label → column of the table."""
    outputs: Annotated[dict[str, str], Field(min_length=1)]
    """Label → column to add."""
    outside: Literal["error", "nearest"] | float = "error"
    """What values get that no bin holds: an error, the bin below them (or else the first), or this number."""

    @model_validator(mode="after")
    def _known_labels(self) -> Self:
        if odd := next((label for label in self.outputs if label not in self.values), None):
            raise PydanticCustomError(
                "no_values", "outputs has '{odd}', which values does not: {known}",
                {"odd": odd, "known": listed(self.values)},
            )  # fmt: skip
        return self

    def reads(self) -> Collection[str]:
        """The names in the variable."""
        return self.names_in(self.variable)

    def adds(self) -> Collection[str]:
        """The columns that are named."""
        return tuple(self.outputs.values())

    def part_for(self, column: str | None) -> Self:
        """One of the outputs."""
        outputs = {label: name for label, name in self.outputs.items() if name == column}
        values = {label: self.values[label] for label in outputs}
        return self.model_copy(update={"outputs": outputs, "values": values}) if outputs else self

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Find the bin of every value."""
        value = event_column(evaluate(self.variable, events), events, f"'{self.variable}'")
        lists = lists_of(value) if dimensions(value) > 1 else None
        content = value if lists is None else lists.content
        there = there_in_all([content])
        found = {
            name: with_missing(numbers, there)
            for name, numbers in self._found(only_there(content, there).astype(np.float64, copy=False)).items()
        }
        if lists is not None:
            found = {name: Lists(numbers, lists.counts).column() for name, numbers in found.items()}
        return Result(events.with_columns(found))

    def _found(self, values: Numbers) -> dict[str, Numbers]:
        table = self.contents
        rows = table.nearest(values)
        inside = table.holds(values, rows)
        if self.outside == "nearest":
            inside = ~np.isnan(values)
        if isinstance(self.outside, str) and not inside.all():
            odd = values[~inside]
            raise ValueError(f"no bin of {self.file} holds {odd[0]:g}; so it is for {plural(len(odd), 'value')}")
        other = np.nan if isinstance(self.outside, str) else self.outside
        return {
            output: np.where(inside, table.values[self.values[label]][rows], other)
            for label, output in self.outputs.items()
        }

    def read(self, path: Path) -> _Table:
        """The table; it has the columns, and bins that do not overlap."""
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        lower, upper = self.bins.names
        wanted = dict.fromkeys([lower, upper, *self.values.values()])
        if not lines or (missing := [name for name in wanted if name not in lines[0]]):
            what = f"has no column {listed(missing)}" if lines else "has no rows"
            raise errors.error(errors.BAD_INPUT, f"the table {self.file} {what}")
        try:
            columns = {name: np.array([float(line[name]) for line in lines]) for name in wanted}
        except (TypeError, ValueError) as problem:
            raise errors.error(
                errors.BAD_INPUT, f"the table {self.file} holds something else than numbers"
            ) from problem
        order = np.argsort(columns[lower], kind="stable")
        columns = {name: numbers[order] for name, numbers in columns.items()}
        if np.any(columns[lower][1:] < columns[upper][:-1]):
            raise errors.error(errors.BAD_INPUT, f"bins of the table {self.file} overlap")
        return _Table(columns[lower], columns[upper], columns)
