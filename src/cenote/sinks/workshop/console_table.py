"""The sink `workshop.console_table`: `console_table` under the name that FAST-HEP's workshop has for it."""

from __future__ import annotations

from typing import ClassVar

from cenote.sinks.console_table import ConsoleTable


class WorkshopConsoleTable(ConsoleTable):
    """The same as `console_table`."""

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
