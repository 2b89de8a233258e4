"""Write Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cenote.jagged import ak
from cenote.operations.support.events import Column, Events
from cenote.sinks.interface import Sink
from cenote.sources.interface import flat_name

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
        table = pa.table({flat_name(name): _to_arrow(column) for name, column in events.columns.items()})
        pq.write_table(table, target, compression=self.compression, row_group_size=ROWS_PER_GROUP)

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Part after part, as groups of rows; parts without events add nothing, and say nothing about types."""
        filled = [part for part in parts if pq.read_metadata(part).num_rows] or parts[:1]
        schema = pq.read_schema(filled[0])
        with pq.ParquetWriter(target, schema, compression=self.compression) as writer:
            for part in filled:
                writer.write_table(pq.read_table(part).cast(schema), row_group_size=ROWS_PER_GROUP)


def _to_arrow(column: Column) -> Any:  # Any: pyarrow publishes no types
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return pa.array(column)
    array = ak.from_numpy(column) if isinstance(column, np.ndarray) else ak.Array(column)
    if "unknown" in str(array.type):
        array = ak.values_astype(array, np.float64, including_unknown=True)
    return ak.to_arrow(ak.to_packed(array), extensionarray=False, list_to32=True, string_to32=True)
