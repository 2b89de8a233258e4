"""The operation `hep.correctionlib`, which needs corrections."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.correctionlib import Correctionlib
from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.language.plugins import resources
from cenote.testing.contracts import OperationContract

EDGES, VALUES = [0.0, 20.0, 40.0, 1e4], {"nominal": [0.9, 1.0, 1.1], "systup": [0.95, 1.05, 1.2]}


def corrections() -> str:
    """Two in one file: scale factors in bins of pt for two variations, and a formula."""
    bins = {
        name: {"nodetype": "binning", "input": "pt", "edges": EDGES, "content": content, "flow": "error"}
        for name, content in VALUES.items()
    }
    scale = {
        "name": "NUM_TightID",
        "version": 1,
        "inputs": [
            {"name": "abseta", "type": "real"},
            {"name": "pt", "type": "real"},
            {"name": "scale_factors", "type": "string"},
        ],
        "output": {"name": "sf", "type": "real"},
        "data": {
            "nodetype": "category",
            "input": "scale_factors",
            "content": [{"key": name, "value": content} for name, content in bins.items()],
        },
    }
    formula = {
        "name": "response",
        "version": 1,
        "inputs": [{"name": "n", "type": "int"}, {"name": "pt", "type": "real"}],
        "output": {"name": "r", "type": "real"},
        "data": {"nodetype": "formula", "expression": "1+0.1*x", "parser": "TFormula", "variables": ["pt"]},
    }
    return json.dumps({"schema_version": 2, "corrections": [scale, formula]})


class TestCorrectionlib(OperationContract):
    plugin = Correctionlib
    cases: ClassVar[Any] = (
        {"file": "muons.json.gz", "correction": "response", "inputs": {"n": "nMuon", "pt": "Muon_pt"}, "outputs": "r"},
        {"file": "muons.json.gz", "correction": "response", "inputs": {"n": "1", "pt": "MET_pt"}, "outputs": "r"},
    )

    @pytest.fixture(autouse=True)
    def corrections_beside_the_workflow(self, tmp_path: Path) -> Iterator[Path]:
        file = tmp_path / "muons.json.gz"
        file.write_bytes(gzip.compress(corrections().encode()))
        resources.serve(resources.describe([file]), str(tmp_path))
        yield file
        resources.serve((), "")

    def test_scale_factors_are_those_of_the_bins(self) -> None:
        outputs = {"sf": {"scale_factors": "nominal"}, "up": {"scale_factors": "systup"}}
        inputs = {"abseta": "abs(Muon_eta)", "pt": "Muon_pt"}
        made = Correctionlib(file="muons.json.gz", correction="NUM_TightID", inputs=inputs, outputs=outputs)
        found = made.for_stage("s").run(self.events()).events
        pt = self.events()["Muon_pt"]
        bins = np.digitize(ak.flatten(pt), EDGES) - 1
        for column, name in (("sf", "nominal"), ("up", "systup")):
            assert ak.num(found[column]).tolist() == ak.num(pt).tolist()
            assert ak.flatten(found[column]).tolist() == np.array(VALUES[name])[bins].tolist()

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"correction": "NUM_TightIDD"}, "did you mean 'NUM_TightID'"),
            ({"outputs": "sf"}, "it needs scale_factors"),
            ({"outputs": {"a": {"scale_factors": "sysup"}}}, "no scale_factors 'sysup' did you mean 'systup'"),
            ({"inputs": {"abseta": "MET_pt", "pt": "MET_pt", "eta": "MET_pt"}}, "it has no eta"),
        ],
    )
    def test_what_does_not_fit_the_correction_is_said_while_planning(
        self, corrections_beside_the_workflow: Path, change: dict[str, Any], words: str
    ) -> None:
        good = {"abseta": "MET_pt", "pt": "MET_pt"}
        settings = {
            "file": "f",
            "correction": "NUM_TightID",
            "inputs": good,
            "outputs": {"a": {"scale_factors": "systup"}},
        }
        made = Correctionlib.model_validate({**settings, **change})
        with pytest.raises(CenoteError) as caught:
            made.check_files({"f": corrections_beside_the_workflow})
        (problem,) = caught.value.problems
        assert problem.kind is errors.BAD_VALUE
        assert words in f"{problem.message} {problem.hint}"

    def test_missing_inputs_give_missing_values_and_those_without_a_bin_an_error(self) -> None:
        outputs = {"sf": {"scale_factors": "nominal"}}

        def found(pt: Any) -> Any:
            made = Correctionlib(file="muons.json.gz", correction="NUM_TightID", inputs=inputs, outputs=outputs)
            events = replace(self.events(), columns={"pt": pt, "met": ak.Array([1.0, None, 1.0])}, size=3)
            return ak.to_list(made.for_stage("s").run(events).events["sf"])

        inputs = {"abseta": "0 * met", "pt": "pt"}
        assert found(ak.Array([10.0, 20.0, None])) == [0.9, None, None]
        assert found(ak.Array([[10.0, 30.0], [50.0], [None, 90.0]])) == [[0.9, 1.0], [None], [None, 1.1]]
        with pytest.raises(EvaluationError, match=r"no value for pt = -3.0*: keep pt within its limits"):
            found(np.array([10.0, 20.0, -3.0]))
