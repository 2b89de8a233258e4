"""The sink `workshop.console_table` is tried with `console_table`, whose class it is."""

from __future__ import annotations

from cenote.analysis.sinks.console_table import ConsoleTable
from cenote.analysis.sinks.workshop.console_table import WorkshopConsoleTable


def test_it_does_what_console_table_does() -> None:
    assert issubclass(WorkshopConsoleTable, ConsoleTable)
    assert WorkshopConsoleTable.merge is ConsoleTable.merge
