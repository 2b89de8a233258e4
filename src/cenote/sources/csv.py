"""Read CSV files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from cenote.sources.support.table_files import TableSource


class CsvSource(TableSource):
    """Reads CSV files with a header, compressed ones (`.gz`, `.bz2`, `.zst`) too. A file is read whole."""

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

    def table(self, path: Path) -> Any:
        """By pyarrow, which finds out the types."""
        from pyarrow import csv

        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=self.columns, use_threads=False),
            parse_options=csv.ParseOptions(delimiter=self.delimiter),
            convert_options=csv.ConvertOptions(null_values=list(self.missing), strings_can_be_null=True),
        )
