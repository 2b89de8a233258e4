"""The operation `hep.weights.lookup_csv`, which needs a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import pytest

from cenote.analysis.operations.hep.weights.lookup_csv import LookupCsv
from cenote.language.plugins import resources
from cenote.testing.contracts import OperationContract


class TestLookupCsv(OperationContract):
    plugin = LookupCsv
    cases: ClassVar[Any] = (
        {"path": "w.csv", "variable": "MET_pt", "values": {"n": "sf"}, "outputs": {"n": "weight"}},
        {"path": "w.csv", "variable": "Muon_pt", "values": {"n": "sf"}, "outputs": {"n": "w"}, "outside": "nearest"},
        {"path": "w.csv", "variable": "first(Muon_pt)", "values": {"n": "sf"}, "outputs": {"n": "weight"}},
    )

    @pytest.fixture(autouse=True)
    def a_table_beside_the_workflow(self, tmp_path: Path) -> Iterator[None]:
        table, wide = tmp_path / "w.csv", tmp_path / "weights.csv"
        table.write_text("pt_min,pt_max,sf\n0,20,0.9\n20,1e9,1.1\n")
        wide.write_text("pt_min,pt_max,weight,weight_up\n0,20,0.9,1\n20,1e9,1.1,1.2\n")
        resources.serve(resources.describe([table, wide]), str(tmp_path))
        yield
        resources.serve((), "")

    def test_where_the_variable_is_missing_so_is_the_weight(self) -> None:
        values, outputs = {"n": "sf"}, {"n": "w"}
        for column in (ak.Array([5.0, None, 30.0]), ak.Array([[5.0, None], [], [30.0]])):
            made = LookupCsv(file="w.csv", variable="x", values=values, outputs=outputs).for_stage("s")
            found = made.run(replace(self.events(), columns={"x": column}, size=3)).events["w"]
            expected = {1: [0.9, None, 1.1], 2: [[0.9, None], [], [1.1]]}[column.ndim]
            assert ak.to_list(found) == expected
