"""Write a table for people: some rows, as text in columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.operations.support.events import Events
from cenote.analysis.sinks.interface import Sink
from cenote.analysis.sinks.json import JsonSink
from cenote.common import errors
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import Count, OneOrMany

Names = Annotated[tuple[str, ...], OneOrMany()]


class ShownColumn(Settings):
    """A column of the table."""

    field: str | None = None
    """The column of the events."""
    template: str | None = None
    """Instead of it, a text with columns in braces: `"{name} {planet}"`."""
    header: str | None = None
    """What stands above; without it, the name of the column."""
    format: str = ""
    """How a value is written, as Python has it: `.3f`."""
    missing: str = ""
    """What stands for a missing value."""

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.field is None) == (self.template is None):
            raise PydanticCustomError("one_of_two", "a column of the table needs either 'field' or 'template'", {})
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the events that it shows."""
        if self.field is not None:
            return (self.field,)
        return tuple(name for _, name, _, _ in Formatter().parse(self.template or "") if name)

    @property
    def heading(self) -> str:
        """What stands above."""
        return self.header or self.field or self.template or ""

    def text(self, row: Mapping[str, Any]) -> str:
        """The cell of a row. Raises `stage-failed` where a value cannot be written so."""
        values = {name: _Gap(self.missing) if row.get(name) is None else row[name] for name in self.names}
        try:
            return self.template.format_map(values) if self.template else format(values[self.names[0]], self.format)
        except (ValueError, TypeError) as problem:
            shown = ", ".join(f"{name} = {value!r}" for name, value in values.items())
            words = f"column '{self.heading}' of the table cannot be written: {problem}"
            raise errors.error(errors.STAGE_FAILED, words, details=(shown,)) from problem


class _Gap(str):
    """What stands for a missing value, however values are written."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return str(self)


class ConsoleTable(Sink):
    """Writes a table as text, sorted and cut, of a dataset or of the whole run. `cenote run` shows it at the end."""

    example: ClassVar[str] = """
    - id: Fast
      op: filter
      params: {expr: "speed > 50"}
      write:
        kind: console_table
        path: fast.txt
        when: final
        columns: [{field: hour}, {field: speed, header: km/h, format: .1f}]
        sort_by: speed
        limit: 10
    """
    suffix: ClassVar[str] = ".txt"
    demands_whole: ClassVar[bool] = True
    shown: ClassVar[bool] = True

    columns: Annotated[tuple[ShownColumn, ...], Field(min_length=1)]
    """The columns, from left to right."""
    fields: Names = ()
    """Columns of the events that are needed; those of `columns` and `sort_by` are in any case."""
    sort_by: Names = ()
    """Columns to sort by, the first one first; missing values come last. Without it, rows are in their order."""
    limit: Count | None = None
    """At most so many rows."""

    def wants(self) -> tuple[str, ...]:
        """What it shows and sorts by."""
        shown = [name for column in self.columns for name in column.names]
        return tuple(dict.fromkeys([*self.fields, *shown, *self.sort_by]))

    def write(self, events: Events, target: Path) -> None:
        """A part: a line per row, which `merge` reads."""
        JsonSink().write(events, target)

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Make the table."""
        rows: list[dict[str, Any]] = []
        for part in parts:
            rows = self._first(rows + [json.loads(line) for line in self._lines(part)])
        cells = [[column.text(row) for column in self.columns] for row in rows]
        header = [column.heading for column in self.columns]
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        padded = [[text.ljust(width) for text, width in zip(row, widths, strict=True)] for row in (header, *cells)]
        target.write_text("\n".join(self.drawn(padded, widths)) + "\n", encoding="utf-8")

    def drawn(self, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
        """The lines of the table; the first row is the header, and all cells of a column are equally wide."""
        header, *cells = rows
        return ["  ".join(row).rstrip() for row in (header, ["-" * width for width in widths], *cells)]

    def _first(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Sorted, rows that are alike in the order that they came in; as many as are wanted."""
        for name in reversed(self.sort_by):
            rows.sort(key=lambda row: (row.get(name) is None, row.get(name) if row.get(name) is not None else 0))
        return rows[: self.limit]

    @staticmethod
    def _lines(part: Path) -> list[str]:
        """Of a part without events: none."""
        text = part.read_text(encoding="utf-8")
        return [] if text.startswith("{\n") else text.splitlines()
