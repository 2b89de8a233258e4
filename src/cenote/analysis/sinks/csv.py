"""Write CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from cenote.analysis.expressions.arrays import dimensions
from cenote.analysis.operations.support.events import Events
from cenote.analysis.sinks.interface import Sink
from cenote.common import errors


class CsvSink(Sink):
    """Writes columns of single values to a CSV file with a header. Text formats keep no types: numbers are read again
    as whole numbers or doubles."""

    example: ClassVar[str] = """
    - id: Table
      op: filter
      params: {expr: "minutes > 1"}
      write: {kind: csv, path: "tables/{dataset}.csv", when: dataset}
    """
    suffix: ClassVar[str] = ".csv"

    delimiter: str = Field(",", min_length=1, max_length=1)
    """What stands between two values."""

    def write(self, events: Events, target: Path) -> None:
        """One line per event."""
        from pyarrow import csv

        from cenote.analysis.sinks.support.arrow_tables import table_of

        if lists := [name for name, column in events.columns.items() if dimensions(column) > 1]:
            raise errors.error(
                errors.STAGE_FAILED,
                f"column '{lists[0]}' has a list per event, which CSV files cannot hold",
                hint="make rows of its elements with `explode`, or leave it out with `keep`",
            )
        csv.write_csv(table_of(events), target, csv.WriteOptions(delimiter=self.delimiter))

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """The header once, then all lines."""
        with target.open("wb") as whole:
            for number, part in enumerate(parts):
                with part.open("rb") as lines:
                    header = lines.readline()
                    whole.write(b"" if number else header)
                    whole.writelines(lines)
