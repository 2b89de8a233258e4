"""Write Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow.parquet as pq

from cenote.analysis.operations.support.events import Events
from cenote.analysis.sinks.interface import Sink
from cenote.analysis.sinks.support.arrow_tables import table_of

ROWS_PER_GROUP = 100_000
"""Two row groups make a partition of the usual size when the file is read again."""


class ParquetSink(Sink):
    """Writes all columns to a Parquet file; jagged ones as lists."""

    example: ClassVar[str] = """
    - id: Skim
      op: filter
      params: {expr: "minutes > 1"}
      write: {kind: parquet, path: "skims/{dataset}_{part}.parquet"}
    """

    suffix: ClassVar[str] = ".parquet"

    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = "zstd"
    """How the file is compressed."""

    def write(self, events: Events, target: Path) -> None:
        """One file; without events it still holds every column."""
        table = table_of(events)
        pq.write_table(table, target, compression=self.compression, row_group_size=ROWS_PER_GROUP)

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Part after part, as groups of rows; parts without events add nothing, and say nothing about types."""
        filled = [part for part in parts if pq.read_metadata(part).num_rows] or parts[:1]
        schema = pq.read_schema(filled[0])
        with pq.ParquetWriter(target, schema, compression=self.compression) as writer:
            for part in filled:
                writer.write_table(pq.read_table(part).cast(schema), row_group_size=ROWS_PER_GROUP)
