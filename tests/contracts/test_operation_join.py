"""The operation `join`, which needs a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.operations.aggregate import Aggregate
from cenote.analysis.operations.join import JoinTable
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common.errors import CenoteError
from cenote.language.plugins import resources
from cenote.testing.contracts import OperationContract


class TestJoinTable(OperationContract):
    plugin = JoinTable
    cases: ClassVar[Any] = (
        {"file": "hours.csv", "on": {"hour": "hour"}, "columns": "name", "how": "inner"},
        {"file": "hours.csv", "on": {"dataset_name": "name"}, "columns": "rush", "default": 7},
    )

    @pytest.fixture(autouse=True)
    def a_table_beside_the_workflow(self, tmp_path: Path) -> Iterator[None]:
        table = tmp_path / "hours.csv"
        table.write_text("hour,rush,name\n" + "".join(f"{n},{n * 0.5},h{n}\n" for n in range(20)))
        resources.serve(resources.describe([table]), str(tmp_path))
        yield
        resources.serve((), "")

    def test_a_missing_key_has_no_line_and_a_missing_number_of_the_table_is_nan(self, tmp_path: Path) -> None:
        table = tmp_path / "hours.csv"
        table.write_text("hour,rush,name\n1,,one\n2,2.5,two\n")
        resources.serve(resources.describe([table]), str(tmp_path))
        events = Events({"hour": ak.Array([1, None, 2, 3])}, 4, DatasetInfo("mc"))
        joined = JoinTable(file="hours.csv", on="hour", columns=["rush"], default=-1).for_stage("s").run(events).events
        assert np.array_equal(joined["rush"], [np.nan, -1, 2.5, -1], equal_nan=True)
        kept = JoinTable(file="hours.csv", on="hour", columns="name", how="inner").for_stage("s").run(events).events
        assert kept["name"].tolist() == ["one", "two"]
        with pytest.raises(CenoteError, match=r"column 'name' of the table t holds texts, which 0\.0 is not"):
            JoinTable(file="t", on="hour", columns="name", default=0).check_files({"t": table})

    @pytest.mark.parametrize(("hours", "key"), [([1, 99], "99"), ([1, None], "a missing value")])
    def test_events_without_a_line_are_an_error_unless_there_is_a_default(self, hours: list[Any], key: str) -> None:
        events = Events({"hour": ak.Array(hours)}, 2, DatasetInfo("mc"))
        with pytest.raises(ValueError, match=f"hours.csv has no line for {key}; so it is for 1 event"):
            JoinTable(file="hours.csv", on="hour", columns="name").for_stage("s").run(events)

    def test_a_column_has_one_type_whether_or_not_lines_are_missing(self) -> None:
        whole, some = (Events({"h": np.array(hours)}, 2, DatasetInfo("mc")) for hours in ([1, 2], [1, 99]))
        join = JoinTable(file="hours.csv", on={"h": "hour"}, columns="hour", default=0.5).for_stage("s")
        assert join.run(whole).events["hour"].dtype == join.run(some).events["hour"].dtype == np.float64

    def test_very_many_keys_are_told_apart(self, tmp_path: Path) -> None:
        """So many that their numbers, multiplied, would not fit in 64 bits."""
        table, names, rows = tmp_path / "wide.csv", [f"k{key}" for key in range(9)], 512
        values = np.array([np.arange(rows) // 256, *[np.arange(rows) % 256] * 8])
        lines = [",".join([*names, "row"]), *(",".join(map(str, [*values[:, row], row])) for row in range(rows))]
        table.write_text("\n".join(lines) + "\n")
        resources.serve(resources.describe([table]), str(tmp_path))
        events = Events(dict(zip(names, values, strict=True)), rows, DatasetInfo("mc"))
        joined = JoinTable(file="wide.csv", on=names, columns="row").for_stage("s").run(events).events
        assert joined["row"].tolist() == list(range(rows))


def test_rows_without_a_group_are_one_group() -> None:
    events = Events({"by": np.array([1.0, np.nan, np.nan, 1.0])}, 4, DatasetInfo("mc"))
    table = Aggregate(by="by", values={"n": {"op": "count"}}).for_stage("s").run(events).product
    assert table.rows() == [(None, 2), (1.0, 2)]
