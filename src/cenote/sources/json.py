"""Read JSON files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from cenote import errors
from cenote.sources.support.table_files import TableSource


class JsonSource(TableSource):
    """Reads JSON files: a mapping per line, a list of mappings, or a mapping of columns. A file is read whole."""

    example: ClassVar[str] = """
    sources:
      trips: {kind: json}
    """

    def table(self, path: Path) -> Any:
        """Lines by pyarrow; anything else by Python."""
        import pyarrow as pa
        from pyarrow import json as lines

        text = path.read_text(encoding="utf-8")
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            return lines.read_json(path, read_options=lines.ReadOptions(use_threads=False))
        if isinstance(found, list) and all(isinstance(row, dict) for row in found):
            return pa.Table.from_pylist(found)
        if isinstance(found, dict) and all(isinstance(values, list) for values in found.values()):
            return pa.table(found)
        if isinstance(found, dict):
            return pa.Table.from_pylist([found])
        raise errors.error(errors.BAD_INPUT, f"{path} holds neither rows nor columns: a list of mappings would be rows")
