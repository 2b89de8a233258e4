"""The sinks `console_table` and `workshop.console_table`: a table for people, which no source reads."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.sinks.console_table import ConsoleTable
from cenote.analysis.sinks.workshop.console_table import WorkshopConsoleTable
from cenote.cli.main import exit_code_of
from cenote.common.errors import CenoteError

PLAIN = """\
Who    x
-----  ----
no. 3  0.12
no. 2  2.50
no. 1  4.00
"""
FRAMED = """\
+-------+------+
| Who   | x    |
+-------+------+
| no. 3 | 0.12 |
| no. 2 | 2.50 |
| no. 1 | 4.00 |
+-------+------+
"""


@pytest.mark.parametrize(("plugin", "table"), [(ConsoleTable, PLAIN), (WorkshopConsoleTable, FRAMED)])
def test_parts_become_one_table_sorted_and_cut(plugin: type[ConsoleTable], table: str, tmp_path: Path) -> None:
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
    assert (tmp_path / "table.txt").read_text() == table


def test_what_is_missing_or_cannot_be_written_is_said() -> None:
    column = {"template": "{n}: {x:.1f}", "missing": "-"}
    (shown,) = ConsoleTable(columns=[column]).columns
    assert shown.text({"n": 1, "x": None}) == "1: -"
    with pytest.raises(CenoteError, match=r"column '\{n\}: \{x:.1f\}' of the table cannot be written"):
        shown.text({"n": 1, "x": [1.5]})


def test_the_table_is_shown_when_the_run_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "flow.yaml").write_text("""
sources: {events: {kind: toy, nevents: 200, seed: 1, chunk_size: 60}}
analysis:
  stages:
    - id: Hard
      op: filter
      params: {expr: "MET > 0"}
      write: {kind: console_table, when: final, columns: [{field: EventNumber}], sort_by: EventNumber, limit: 40}
""")
    with chdir(tmp_path):
        assert exit_code_of(["run", "flow.yaml", "--out", "out", "--no-report"]) == 0
    lines = (tmp_path / "out/products/Hard.txt").read_text().splitlines()
    assert len(lines) == 42
    told = capsys.readouterr().out.splitlines()
    at = told.index("  table     out/products/Hard.txt")
    assert told[at + 1 :] == [*(f"  {line}" for line in lines[:32]), "  … and 10 more rows in the file"]
