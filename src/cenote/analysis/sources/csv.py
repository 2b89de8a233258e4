"""Read CSV files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.analysis.sources.support.text_blocks import TextSource


class CsvSource(TextSource):
    """Reads CSV files with a header, compressed ones (`.gz`, `.bz2`, `.zst`) too.

    Planning goes through a file once, to find rows and types; tasks read their part of it, compressed files from their
    beginning on.
    """

    example: ClassVar[str] = """
    sources:
      trips: {kind: csv}
    """

    delimiter: str = Field(",", min_length=1, max_length=1)
    """What stands between two values."""
    columns: tuple[str, ...] | None = None
    """Names of the columns, for a file without a header."""
    missing: tuple[str, ...] = ("", "NA", "N/A", "nan", "NaN", "null")
    """Texts that mean: no value."""

    @model_validator(mode="after")
    def _different(self) -> Self:
        names = self.columns or ()
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise PydanticCustomError("twice", "two columns are called '{name}'", {"name": twice})
        return self

    def parse(self, text: bytes, names: Sequence[str] | None) -> Any:
        """By pyarrow, which finds out the types."""
        table = self._table(text, names or self.columns)
        found = table.column_names
        if twice := next((name for name in found if found.count(name) > 1), None):
            raise ValueError(f"two columns are called '{twice}'")
        return table

    def parse_as(self, text: bytes, schema: Any, columns: Sequence[str], *, first: bool) -> Any:
        """Other columns are passed over."""
        types = dict(zip(schema.names, schema.types, strict=True))
        return self._table(text, self.columns if first else schema.names, types, columns)

    def _table(
        self,
        text: bytes,
        names: Sequence[str] | None,
        types: dict[str, Any] | None = None,
        wanted: Sequence[str] | None = None,
    ) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        return csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(column_names=names, use_threads=False, block_size=max(1, len(text))),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=b'"' in text),
            convert_options=csv.ConvertOptions(
                null_values=list(self.missing), strings_can_be_null=True, column_types=types, include_columns=wanted
            ),
        )

    def merged(self, schemas: Sequence[Any]) -> Any:
        """A column is text where nothing else fits."""
        import pyarrow as pa

        fields = zip(*schemas, strict=True)
        return pa.schema([pa.field(same[0].name, _merged({field.type for field in same})) for same in fields])

    def row_end(self, text: bytes) -> int:
        """After the last end of a line that is not within quotes."""
        end = text.rfind(b"\n")
        if b'"' not in text:
            return end + 1
        mark = self.delimiter.encode()
        if _are_in_pairs(text, mark):
            while text.count(b'"', 0, end) % 2:
                end = text.rfind(b"\n", 0, end)
            return end + 1
        quoted = re.compile(rb'(?:(?<=[\r\n]|%b)|\A)"(?:[^"]|"")*(?:"|\Z)' % re.escape(mark))
        inside = [found.span() for found in quoted.finditer(text)]
        while around := next((span for span in reversed(inside) if span[0] <= end < span[1]), None):
            end = text.rfind(b"\n", 0, around[0])
        return end + 1


def _are_in_pairs(text: bytes, delimiter: bytes) -> bool:
    """Whether every other quote begins a value, and the one after it ends the value: then they need only be counted."""
    codes = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(codes == ord('"'))
    beside = np.frombuffer(b'\r\n"' + delimiter, np.uint8)
    opening, closing = quotes[::2], quotes[1::2]
    before, after = opening[opening > 0] - 1, closing[closing < len(codes) - 1] + 1
    return bool(np.isin(codes[before], beside).all() and np.isin(codes[after], beside).all())


def _merged(types: set[Any]) -> Any:
    """The type that values of all of these types can be read as."""
    import pyarrow as pa

    kinds = pa.types
    known = {one for one in types if not kinds.is_null(one)}
    if len(known) <= 1:
        return next(iter(known), pa.null())
    if known <= {pa.int64(), pa.float64()}:
        return pa.float64()
    if all(kinds.is_date(one) or kinds.is_timestamp(one) for one in known):
        return pa.timestamp("ns" if pa.timestamp("ns") in known else "s")
    return pa.string()
