"""The sink `workshop.console_table`: `console_table` with the frame that FAST-HEP's workshop draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cenote.analysis.sinks.console_table import ConsoleTable


class WorkshopConsoleTable(ConsoleTable):
    """Like `console_table`, with a frame of signs around the cells."""

    example: ClassVar[str] = """
    - id: Fast
      op: filter
      params: {expr: "speed > 50"}
      write:
        kind: workshop.console_table
        path: fast.txt
        when: final
        fields: [hour, speed]
        columns: [{template: "at {hour}", header: When}, {field: speed, format: .1f}]
    """

    def drawn(self, rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
        """Lines above, below the header, and below."""
        line = "+".join(["", *("-" * (width + 2) for width in widths), ""])
        header, *cells = [f"| {' | '.join(row)} |" for row in rows]
        return [line, header, line, *cells, line]
