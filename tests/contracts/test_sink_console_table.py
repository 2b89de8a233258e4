"""The sinks `console_table` and `workshop.console_table`: a table for people, which no source reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cenote.operations.support.events import DatasetInfo, Events
from cenote.sinks.console_table import ConsoleTable
from cenote.sinks.workshop.console_table import WorkshopConsoleTable


@pytest.mark.parametrize("plugin", [ConsoleTable, WorkshopConsoleTable])
def test_parts_become_one_table_sorted_and_cut(plugin: type[ConsoleTable], tmp_path: Path) -> None:
    columns = [{"template": "no. {n}", "header": "Who"}, {"field": "x", "format": ".2f", "missing": "?"}]
    sink = plugin(columns=columns, sort_by=["x"], limit=3)
    assert sink.wants() == ("n", "x")
    given = [
        (np.array([1, 2]), np.array([4.0, 2.5])),
        (np.zeros(0, int), np.zeros(0)),
        (np.array([3]), np.array([0.125])),
    ]
    parts = []
    for number, (n, x) in enumerate(given):
        parts.append(tmp_path / f"{number}.txt")
        sink.write(Events({"n": n, "x": x}, len(n), DatasetInfo("mc")), parts[-1])
    sink.merge(parts, tmp_path / "table.txt")
    assert (tmp_path / "table.txt").read_text() == "Who    x\n-----  ----\nno. 3  0.12\nno. 2  2.50\nno. 1  4.00\n"
