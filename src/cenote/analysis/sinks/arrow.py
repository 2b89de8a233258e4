"""Write Arrow IPC files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from cenote.analysis.operations.support.events import Events
from cenote.analysis.sinks.interface import Sink


class ArrowSink(Sink):
    """Writes all columns to an Arrow IPC file, which other programs map into memory; jagged ones as lists."""

    example: ClassVar[str] = """
    - id: Table
      op: filter
      params: {expr: "minutes > 1"}
      write: {kind: arrow, path: "tables/{dataset}_{part}.arrow"}
    """
    suffix: ClassVar[str] = ".arrow"

    def write(self, events: Events, target: Path) -> None:
        """One file; without events it still holds every column."""
        import pyarrow as pa

        from cenote.analysis.sinks.support.arrow_tables import table_of

        table = table_of(events)
        with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Part after part; parts without events say nothing about types."""
        import pyarrow as pa

        def read(part: Path) -> pa.Table:
            with pa.memory_map(str(part)) as mapped:
                return pa.ipc.open_file(mapped).read_all()

        filled = [part for part in parts if read(part).num_rows] or parts[:1]
        schema = read(filled[0]).schema
        with pa.OSFile(str(target), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for part in filled:
                writer.write_table(read(part).cast(schema))
