"""Write JSON files."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.sinks.interface import Sink
from cenote.analysis.sources.interface import flat_name
from cenote.common.arrays import ak, is_awkward

_NO_EVENTS = "{\n"
"""How a file without events begins: it has the names of the columns, and no line per event."""


class JsonSink(Sink):
    """Writes a mapping per event and line. Numbers that are not finite are written as null."""

    example: ClassVar[str] = """
    - id: Lines
      op: filter
      params: {expr: "minutes > 1"}
      write: {kind: json, path: "lines/{dataset}.json", when: dataset}
    """
    suffix: ClassVar[str] = ".json"

    def write(self, events: Events, target: Path) -> None:
        """One line per event; without events, the names of the columns."""
        names = [flat_name(name) for name in events.names]
        if not events.size:
            lines = ",\n".join(f"{json.dumps(name)}: []" for name in names)
            target.write_text(f"{_NO_EVENTS}{lines}\n}}\n", encoding="utf-8")
            return
        columns = [_listed(column) for column in events.columns.values()]
        with target.open("w", encoding="utf-8") as file:
            for row in zip(*columns, strict=True):
                file.write(json.dumps(dict(zip(names, row, strict=True)), allow_nan=False) + "\n")

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Line after line."""
        filled = [part for part in parts if not part.read_bytes().startswith(_NO_EVENTS.encode())] or parts[:1]
        with target.open("wb") as whole:
            for part in filled:
                whole.write(part.read_bytes())


def _listed(column: Column) -> list[Any]:
    values: list[Any] = ak.to_list(column) if is_awkward(column) else column.tolist()
    return [_finite(value) for value in values]


def _finite(value: Any) -> Any:  # Any: whatever a column holds
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
