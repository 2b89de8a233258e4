"""The operation `join`, which needs a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cenote.operations.join import JoinTable
from cenote.plugins import resources
from cenote.testing.contracts import OperationContract


class TestJoinTable(OperationContract):
    plugin = JoinTable
    cases: ClassVar[Any] = ({"file": "hours.csv", "on": {"hour": "hour"}, "columns": "name", "how": "inner"},)

    @pytest.fixture(autouse=True)
    def a_table_beside_the_workflow(self, tmp_path: Path) -> Iterator[None]:
        table = tmp_path / "hours.csv"
        table.write_text("hour,rush,name\n" + "".join(f"{n},{n * 0.5},h{n}\n" for n in range(20)))
        resources.serve(resources.describe([table]), str(tmp_path))
        yield
        resources.serve((), "")
