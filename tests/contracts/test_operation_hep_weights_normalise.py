"""The operations `hep.weights.sum` and `hep.weights.normalise`: the second needs the product of the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import uproot

import cenote
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.weights.normalise import Normalise
from cenote.analysis.operations.hep.weights.sum import SumOfWeights
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.testing.contracts import OperationContract
from cenote.testing.muons import write_muons
from cenote.testing.sample_events import sample_events

FLOW = """
data:
  datasets:
    - {name: dy, files: [dy_*.root], eventtype: mc, xsec: 20.0}
    - {name: top, files: [top.root], eventtype: mc, xsec: 3.0}
sources: {events: {chunk_size: %d}}
analysis:
  stages:
    - {id: SumW, op: hep.weights.sum, needs: [], params: {weight: EventWeight}}
    - {id: Pairs, op: hep.select, needs: [], params: {selection: nMuon >= 2}}
    - id: Weight
      op: hep.weights.normalise
      needs: [Pairs, SumW]
      params: {weight: EventWeight, sum: SumW, expected: dataset_xsec * 2.5, output: w}
    - id: Pt
      op: hep.hist
      render: []
      params: {dataset_axis: true, weight_expr: w, axes: [{source: "leading(Muon_pt)", bins: [1, 0, 1e9]}]}
"""


class TestNormalise(OperationContract):
    plugin = Normalise
    cases: ClassVar[Any] = ({"weight": "weight", "sum": "SumW", "expected": "2", "output": "w"},)

    def settings_in(self, example: Any) -> Mapping[str, Any]:
        return dict(example[-1]["params"])

    def events(self) -> Events:
        events = sample_events(100)
        added = {"genWeight": np.linspace(-1, 3, 100)}
        dataset = DatasetInfo("dy", eventtype="mc", metadata={"xsec": 2.0})
        return replace(events.with_columns(added), dataset=dataset, products={"SumW": 50.0})

    def test_each_event_counts_its_share(self) -> None:
        done = Normalise(weight="genWeight", sum="SumW", expected="dataset_xsec * 3").run(self.events()).events
        assert done["event_weight"].tolist() == (np.linspace(-1, 3, 100) * (6 / 50)).tolist()

    @pytest.mark.parametrize(("total", "words"), [(0.0, "add up to 0"), ({"a": 1}, "is not a number")])
    def test_what_cannot_be_divided_by_is_said(self, total: Any, words: str) -> None:
        with pytest.raises((ValueError, TypeError), match=words):
            Normalise(weight="weight", sum="SumW").run(replace(self.events(), products={"SumW": total}))


def test_weights_that_are_missing_are_an_error() -> None:
    events = sample_events(100)
    with pytest.raises(EvaluationError, match=r"the weight 'first\(Muon_pt\)' is missing for \d+ of 100 events"):
        SumOfWeights(weight="first(Muon_pt)").run(events)


@pytest.mark.parametrize("chunk", [70, 1000])
def test_histograms_add_up_to_what_is_expected(tmp_path: Path, chunk: int) -> None:
    for seed, name in enumerate(("dy_0", "dy_1", "top")):
        write_muons(tmp_path / f"{name}.root", events=150, seed=seed, weighted=True)
    (tmp_path / "flow.yaml").write_text(FLOW % chunk)
    run = cenote.load(tmp_path / "flow.yaml").run(tmp_path / "out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    for dataset, files, xsec in (("dy", ("dy_0", "dy_1"), 20.0), ("top", ("top",), 3.0)):
        trees = [uproot.open(tmp_path / f"{name}.root")["events"] for name in files]
        weights = np.concatenate([tree["EventWeight"].array(library="np") for tree in trees]).astype(float)
        pairs = np.concatenate([tree["nMuon"].array(library="np") for tree in trees]) >= 2
        assert run.product("SumW")[dataset] == weights.sum()
        expected = (weights[pairs] * (xsec * 2.5 / weights.sum())).sum()
        assert run.product("Pt")[{"dataset": dataset}].sum().value == pytest.approx(expected, rel=1e-12)
