"""The product `table`: one line for each group of rows; as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cenote.analysis.products.interface import Form, Product, ProductTable
from cenote.common.storage import write_text
from cenote.common.text import plural
from cenote.common.values import dataclass

MOST_SHOWN = 20
"""Lines that a terminal shows."""


@dataclass(frozen=True)
class Total:
    """What is kept of the values of a group, so that parts can be put together."""

    count: int
    sum: float = 0
    least: float = 0
    most: float = 0

    def plus(self, other: Total) -> Total:
        """Of both parts."""
        if not self.count or not other.count:
            return self if self.count else other
        least, most = min(self.least, other.least), max(self.most, other.most)
        return Total(self.count + other.count, self.sum + other.sum, least, most)

    def value(self, op: str) -> float | None:
        """The number asked for; None of no values, except that there are none."""
        if op == "count":
            return self.count
        if op == "sum":
            return self.sum
        if not self.count or (op != "mean" and self.least > self.most):  # of nothing but NaN
            return None
        return self.sum / self.count if op == "mean" else self.least if op == "min" else self.most


@dataclass(frozen=True)
class GroupedTable:
    """Groups, and for each the totals of every column."""

    by: tuple[str, ...]
    """What tells groups apart."""
    columns: tuple[tuple[str, str], ...]
    """Name and operation."""
    lines: Mapping[tuple[Any, ...], tuple[Total, ...]]
    """Values of `by` → totals, in the order of `columns`."""

    @property
    def header(self) -> tuple[str, ...]:
        """Names of all columns."""
        return (*self.by, *(name for name, _ in self.columns))

    def rows(self) -> list[tuple[Any, ...]]:
        """Sorted by their groups."""
        ordered = sorted(self.lines.items(), key=lambda line: [(str(type(key)), key) for key in line[0]])
        ops = [op for _, op in self.columns]
        return [(*key, *(total.value(op) for total, op in zip(totals, ops, strict=True))) for key, totals in ordered]


class Table(Product):
    """Groups of rows with their counts, sums, means and limits."""

    example: ClassVar[str] = """
    - id: ByHour
      op: aggregate
      params: {by: hour, values: {trips: {op: count}}}
    """
    tabular: ClassVar[bool] = True

    def merge(self, parts: Sequence[Any]) -> Any:
        """Group by group, part after part."""
        first = parts[0]
        lines = dict(first.lines)
        for part in parts[1:]:
            for key, totals in part.lines.items():
                before = lines.get(key)
                lines[key] = totals if before is None else tuple(a.plus(b) for a, b in zip(before, totals, strict=True))
        return GroupedTable(first.by, first.columns, lines)

    def save(self, value: Any, folder: Path, name: str) -> list[Path]:
        """As CSV for people and other programs, and as JSON with everything that is known."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(value.header)
        writer.writerows([["" if cell is None else cell for cell in row] for row in value.rows()])
        totals = [[list(key), [[t.count, t.sum, t.least, t.most] for t in line]] for key, line in value.lines.items()]
        content = {"version": 1, "by": value.by, "columns": value.columns, "lines": totals}
        return [
            write_text(folder / f"{name}.csv", text.getvalue()),
            write_text(folder / f"{name}.json", json.dumps(content) + "\n"),
        ]

    def load(self, folder: Path, name: str) -> Any:
        """From the JSON file."""
        found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        lines = {tuple(key): tuple(Total(*total) for total in totals) for key, totals in found["lines"]}
        return GroupedTable(tuple(found["by"]), tuple((name, op) for name, op in found["columns"]), lines)

    def describe(self, value: Any) -> str:
        """`24 groups, 3 columns`."""
        return f"{plural(len(value.lines), 'group')}, {plural(len(value.columns), 'column')}"

    def tables(self, value: Any) -> Sequence[ProductTable]:
        """One table."""
        forms: list[Form] = ["count" if op == "count" else "number" for _, op in value.columns]
        columns = (
            *((name, "text") for name in value.by),
            *zip((name for name, _ in value.columns), forms, strict=True),
        )
        rows = tuple((*map(str, row[: len(value.by)]), *row[len(value.by) :]) for row in value.rows())
        return [ProductTable("", tuple(columns), rows)]

    def short_table(self, value: Any) -> ProductTable | None:
        """The same, if it is short."""
        return self.tables(value)[0] if len(value.lines) <= MOST_SHOWN else None
