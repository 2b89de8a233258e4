"""Files need not all hold the same columns: what some of them lack is refused, left out, or filled, as one says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import cenote
from cenote.common import errors
from cenote.common.errors import CenoteError

from ..conftest import Desk

STAGES = """
    analysis:
      stages:
        - {id: Pass, op: filter, params: {selection: "pt > -1"}, write: {kind: SINK, path: skim, when: dataset}}
        - id: Weighted
          op: hep.hist
          render: []
          params:
            dataset_axis: true
            weight_expr: genWeight
            axes: [{name: x, source: count(Jet_pt), type: integer, bins: [0, 5]}]
"""
COLUMNS: dict[str, Any] = {
    "pt": np.arange(4.0),
    "HLT": np.array([True, False, True, True]),
    "run": np.arange(4, dtype=np.int32),
    "genWeight": np.full(4, 2.0),
    "Jet_pt": ak.unflatten(np.arange(6.0), [1, 2, 3, 0]),
}
LACKING = {"data": ("genWeight", "Jet_pt", "run"), "mc_a": (), "mc_b": ("HLT", "run", "Jet_pt")}


@pytest.fixture
def data(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(desk.folder)
    for name, lacking in LACKING.items():
        columns = {column: values for column, values in COLUMNS.items() if column not in lacking}
        with uproot.recreate(f"{name}.root") as file:
            types = {c: v.type.content if isinstance(v, ak.Array) else v.dtype for c, v in columns.items()}
            file.mktree("events", types).extend(columns)
        ak.to_parquet(ak.Array(columns), f"{name}.parquet")
    return desk


def flow(desk: Desk, kind: str, more: str, stages: str = STAGES) -> cenote.Analysis:
    suffix = "root" if kind == "root_tree" else "parquet"
    head = f"""
    data:
      datasets:
        - {{name: data, files: [data.{suffix}], eventtype: data}}
        - {{name: mc, files: [mc_a.{suffix}, mc_b.{suffix}]}}
    sources: {{events: {{kind: {kind}{more}}}}}
    """
    return cenote.load(desk.write("flow.yaml", head + stages.replace("SINK", kind)))


def read_skim(kind: str, dataset: str) -> ak.Array:
    if kind == "parquet":
        return ak.from_parquet(f"out/products/skim/{dataset}.parquet")
    return uproot.open(f"out/products/skim/{dataset}.root")["events"].arrays()


def test_a_column_that_files_lack_is_an_error_unless_one_says_otherwise(data: Desk) -> None:
    with pytest.raises(CenoteError) as refusal:
        flow(data, "root_tree", "").plan()
    assert {problem.kind for problem in refusal.value.problems} == {errors.UNKNOWN_COLUMN}


@pytest.mark.parametrize("kind", ["root_tree", "parquet"])
def test_columns_that_files_lack_are_filled(data: Desk, kind: str) -> None:
    run = flow(data, kind, ", missing_branches: default, defaults: {genWeight: 1, HLT: true}").run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    counts = run.product("Weighted")
    assert counts[{"dataset": "data"}].values().tolist() == [4, 0, 0, 0, 0]
    assert counts[{"dataset": "mc"}].values().tolist() == [10, 2, 2, 2, 0]
    assert "branch 'genWeight' is missing in 1 of 1 files of dataset 'data': filled with 1" in run.warnings
    skim = read_skim(kind, "mc")
    assert skim["HLT"].tolist() == [True, False, True, True, True, True, True, True]
    assert skim["run"].tolist() == [0, 1, 2, 3, 0, 0, 0, 0]
    assert skim["Jet_pt"].tolist() == [[0], [1, 2], [3, 4, 5], [], [], [], [], []]


def test_numbers_that_nothing_is_said_of_are_not_a_number(data: Desk) -> None:
    stages = STAGES.replace("weight_expr: genWeight", "storage: count")
    run = flow(data, "parquet", ", missing_branches: default", stages).run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert np.isnan(np.asarray(read_skim("parquet", "data")["genWeight"])).all()


def test_a_default_of_another_type_is_refused(data: Desk) -> None:
    more = ", missing_branches: default, defaults: {genWeight: 1, run: 0.5}"
    run = flow(data, "parquet", more).run("out", workers=1)
    assert run.status == "failed"
    assert "column 'run' of type int32 cannot be filled with 0.5" in str(run.failures)


def test_columns_that_not_all_files_of_a_dataset_have_are_left_out(data: Desk) -> None:
    stages = STAGES[: STAGES.index("        - id: Weighted")]
    run = flow(data, "root_tree", ", missing_branches: ignore", stages).run("out", workers=1)
    assert run.status == "succeeded", str(run.failures)
    assert set(read_skim("root_tree", "mc").fields) == {"pt", "genWeight"}
    assert set(read_skim("root_tree", "data").fields) == {"pt", "HLT"}
    assert any("dataset 'mc'" in warning and "HLT" in warning for warning in run.warnings)


def test_a_stage_that_reads_what_was_left_out_is_refused(data: Desk) -> None:
    with pytest.raises(CenoteError, match="reads 'Jet_pt'"):
        flow(data, "root_tree", ", missing_branches: ignore").plan()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (", defaults: {genWeight: 1}", "missing_branches: default"),
        (", missing_branches: default, defaults: {genWieght: 1}", "did you mean 'genWeight'?"),
        (", missing_branches: default, defaults: {genWeight: [1]}", "should be a number"),
        (", missing_branches: fill", "missing_branches"),
    ],
)
def test_what_cannot_be_meant_is_an_error(data: Desk, more: str, words: str) -> None:
    assert words in str(flow(data, "root_tree", more).check())


def test_a_file_in_two_datasets_is_a_warning(data: Desk) -> None:
    Path("linked.root").symlink_to("mc_a.root")
    text = """
        data: {datasets: [{name: one, files: [mc_a.root]}, {name: two, files: [linked.root, mc_b.root]}]}
        analysis: {stages: [{id: Pass, op: filter, params: {selection: "pt > 1"}}]}
    """
    (warning,) = cenote.load(data.write("flow.yaml", text)).check().warnings
    assert warning.startswith("datasets 'one' and 'two' share ")
    assert "linked.root" in warning
