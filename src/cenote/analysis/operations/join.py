"""The operation `join`: columns of a table in a file, found by the values of columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field

from cenote.analysis.expressions.arrays import dimensions
from cenote.analysis.operations.interface import Result
from cenote.analysis.operations.support.evaluation import event_column, value_of
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.lookup import LookupOperation
from cenote.analysis.operations.support.object_rows import refuse_all_existing
from cenote.common import errors
from cenote.common.arrays import ak, is_awkward
from cenote.common.text import listed, plural
from cenote.common.values import dataclass
from cenote.language.plugins.settings import AlsoWritten
from cenote.language.schema.forms import OneOrMany


def _keys(value: Any) -> Any:  # Any: whatever the YAML holds
    """A name stands for the column of that name in both."""
    if isinstance(value, str):
        return {value: value}
    names = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return {name: name for name in value} if names else value


@dataclass(frozen=True)
class _Lines:
    """The table: where the line of each key is, and the columns."""

    at: Mapping[tuple[Any, ...], int]
    columns: Mapping[str, Column]


class JoinTable(LookupOperation[_Lines]):
    """Adds columns of a table: those of the line whose keys an event has."""

    example: ClassVar[str] = """
    - id: WithPeriods
      op: join
      params: {file: hours.csv, on: hour, columns: [rush], default: 0}
    """

    file: str
    """A CSV file with a header, a JSON file (a list of mappings), or a parquet file, beside the workflow."""
    on: Annotated[
        dict[str, str],
        BeforeValidator(_keys),
        Field(min_length=1),
        AlsoWritten({"type": "string"}, {"type": "array", "items": {"type": "string"}}),
    ]
    """Column, or fact of the dataset (`dataset_name`), → key of the table; a name, or a list of names, where both are
    called the same."""
    columns: Annotated[tuple[str, ...], OneOrMany(), Field(min_length=1)]
    """Columns of the table to add."""
    how: Literal["left", "inner"] = "left"
    """What becomes of events without a line: `left` keeps them, with the `default`; `inner` drops them."""
    default: float | str | bool | None = None
    """What they get; without it, they are an error."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where a column is there already."""
        refuse_all_existing(self.adds(), columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """The columns that are looked up."""
        return tuple(self.on)

    def adds(self) -> Collection[str]:
        """Those of the table."""
        return self.columns

    def part_for(self, column: str | None) -> Self:
        """One of the columns; which events have a line depends on none."""
        return self.model_copy(update={"columns": tuple(name for name in self.columns if name == column)})

    def run(self, events: Events) -> Result:
        """Find the line of each event; every different key is looked up once."""
        table = self.contents
        keys = [_values(name, events) for name in self.on]
        known = ~np.any([gaps for _, gaps in keys], axis=0)
        lines = np.full(events.size, -1, np.int64)
        lines[known] = self._lines(table, [key[known] for key, _ in keys], int(known.sum()))
        there = lines >= 0
        if self.how == "inner":
            events, lines, there = events.where(there), lines[there], there[there]
        elif self.default is None and not there.all():
            odd = int(np.flatnonzero(~there)[0])
            key = listed("a missing value" if gaps[odd] else str(values[odd]) for values, gaps in keys)
            raise ValueError(f"{self.file} has no line for {key}; so it is for {plural(int((~there).sum()), 'event')}")
        return Result(
            events.with_columns({name: self._column(table.columns[name], lines, there) for name in self.columns})
        )

    def _lines(self, table: _Lines, keys: Sequence[Column], size: int) -> NDArray[np.int64]:
        codes = np.zeros(size, np.int64)
        for key in keys:
            different, inverse = np.unique(key, return_inverse=True)
            codes = np.unique(codes * len(different) + inverse, return_inverse=True)[
                1
            ]  # few again: they never overflow
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        found = [table.at.get(tuple(key[row].item() for key in keys), -1) for row in first]
        return np.array(found, np.int64)[inverse] if size else np.zeros(0, np.int64)

    def _column(self, values: Column, lines: NDArray[np.int64], there: NDArray[np.bool_]) -> Column:
        taken = values[np.where(there, lines, 0)] if len(values) else np.zeros(len(lines))
        if self.how == "inner" or self.default is None:
            return taken
        return np.where(there, taken, np.asarray(self.default))  # of one type, whether events without a line are here

    def read(self, path: Path) -> _Lines:
        """The table; it has the columns, and each key once."""
        columns = _table_columns(path)
        wanted = dict.fromkeys((*self.on.values(), *self.columns))
        if missing := [name for name in wanted if name not in columns]:
            words = f"the table {self.file} has no column {listed(missing)}"
            raise errors.CenoteError(
                errors.unknown_name(errors.BAD_INPUT, words, missing[0], columns, what="columns of the table")
            )
        for name in self.columns if self.default is not None else ():
            if (columns[name].dtype.kind == "U") != isinstance(self.default, str) and len(columns[name]):
                what = "texts" if columns[name].dtype.kind == "U" else "numbers"
                words = f"column '{name}' of the table {self.file} holds {what}, which {self.default!r} is not"
                raise errors.error(errors.BAD_INPUT, words, hint="write another `default`")
        keys = list(zip(*(columns[name].tolist() for name in self.on.values()), strict=True))
        at = {key: number for number, key in reversed(list(enumerate(keys)))}
        if len(at) < len(keys):
            twice = next(key for number, key in enumerate(keys) if at[key] != number)
            raise errors.error(errors.BAD_INPUT, f"the table {self.file} has two lines for {listed(map(str, twice))}")
        return _Lines(at, columns)


def _values(name: str, events: Events) -> tuple[Column, NDArray[np.bool_]]:
    """What is looked up, and where it is missing."""
    column = event_column(value_of(name, events), events, f"'{name}'")
    if dimensions(column) != 1:
        raise ValueError(f"'{name}' has a list per event: `explode` makes rows of them")
    if not is_awkward(column):
        return np.asarray(column), np.zeros(len(column), np.bool_)
    listed = ak.to_list(column)
    gaps = np.array([value is None for value in listed], np.bool_)
    stand_in = next((value for value in listed if value is not None), 0)
    return np.asarray([stand_in if value is None else value for value in listed]), gaps


def _table_columns(path: Path) -> dict[str, Column]:
    """Name → values; text that is a number in every line is one. A number that is missing is NaN."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return {name: _numbers(values) for name, values in pq.read_table(path).to_pydict().items()}
    with path.open(newline="", encoding="utf-8") as file:
        rows = json.load(file) if path.suffix == ".json" else list(csv.DictReader(file))
    names = rows[0] if rows else ()
    return {name: _numbers([row.get(name) for row in rows]) for name in names}


def _numbers(values: Sequence[Any]) -> Column:
    gaps = any(value is None or value == "" for value in values)
    for kind in (float,) if gaps else (int, float):
        try:
            return np.array([_number(value, kind) for value in values])
        except (TypeError, ValueError):
            continue
    return np.array(["" if value is None else value for value in values])


def _number(value: Any, kind: type[int | float]) -> Any:  # Any: whatever the table holds
    if value is None or value == "":
        return np.nan
    return kind(value) if isinstance(value, str) else value
