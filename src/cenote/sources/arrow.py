"""Read files of Arrow: IPC files, which Feather files are too, and streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from cenote.sources.support.table_files import TableSource


class ArrowSource(TableSource):
    """Reads Arrow IPC files and streams (`.arrow`, `.feather`); a file is mapped into memory, not copied."""

    example: ClassVar[str] = """
    sources:
      events: {kind: arrow}
    """

    def table(self, path: Path) -> Any:
        """As it is."""
        import pyarrow as pa

        mapped = pa.memory_map(str(path))
        try:
            return pa.ipc.open_file(mapped).read_all()
        except pa.ArrowInvalid:
            mapped.seek(0)
            return pa.ipc.open_stream(mapped).read_all()
