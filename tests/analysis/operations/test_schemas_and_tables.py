"""Check operations that name columns anew and that make rows and tables, against calculations by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import cenote
from cenote.analysis.operations.aggregate import Aggregate
from cenote.analysis.operations.cms.match_l1t_jets import MatchL1tJets
from cenote.analysis.operations.explode import Explode
from cenote.analysis.operations.hep.align_schema import AlignSchema
from cenote.analysis.operations.hep.project_fields import ProjectFields
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.products.table import Table
from cenote.common import errors
from cenote.common.errors import CenoteError
from cenote.testing.muons import write_muons
from cenote.testing.sample_events import sample_events

FLOW = """
data: {datasets: [{name: mc, files: [a.root, b.root]}]}
sources: {events: {chunk_size: CHUNK}}
analysis:
  stages:
    - {id: Names, op: hep.project_fields, params: {aliases: names.yaml}}
    - {id: One, op: define, needs: Names, params: {x: "max(lep_pt)", y: "1.0 * run"}}
    - {id: Two, op: define, needs: Names, params: {x: "min(lep_pt)"}}
    - {id: Both, op: hep.merge_fields, needs: [One, Two], params: {on_conflict: keep_POLICY}}
    - id: Sums
      op: aggregate
      params: {values: {n: {op: count, of: x}, most: {op: max, of: x}, least: {op: min, of: x}}}
    - {id: Rows, op: explode, needs: Names, params: {fields: [lep_pt, lep_eta], keep_fields: [run]}}
    - {id: Hard, op: filter, params: {expr: "lep_pt > 20"}}
    - {id: PerRun, op: aggregate, params: {by: run, values: {n: {op: count}, eta: {op: max, of: lep_eta}}}}
"""


@pytest.mark.parametrize(("policy", "reduce"), [("first", ak.max), ("last", ak.min)])
@pytest.mark.parametrize(("workers", "chunk"), [(1, 1000), (2, 170)])
def test_names_branches_and_tables_are_those_of_a_calculation_by_hand(
    tmp_path: Path, policy: str, reduce: Any, workers: int, chunk: int
) -> None:
    for seed, name in enumerate(("a.root", "b.root")):
        write_muons(tmp_path / name, events=300, seed=seed)
    (tmp_path / "names.yaml").write_text(
        "run: nMuon\nmatrix: {axes: {f: [pt, eta]}, mappings: [{target: 'lep_{f}', source: 'Muon_{f}'}]}\n"
    )
    flow = tmp_path / "flow.yaml"
    flow.write_text(FLOW.replace("CHUNK", str(chunk)).replace("POLICY", policy))
    run = cenote.load(flow).run(tmp_path / "out", workers=workers)
    assert run.status == "succeeded", str(run.failures)
    muons = ak.concatenate([uproot.open(tmp_path / name)["events"].arrays() for name in ("a.root", "b.root")])
    x = ak.drop_none(reduce(muons.Muon_pt, axis=1))
    assert run.product("Sums").rows() == [(len(x), ak.max(x), ak.min(x))]
    rows = {
        "pt": ak.flatten(muons.Muon_pt),
        "eta": ak.flatten(muons.Muon_eta),
        "run": ak.flatten(ak.broadcast_arrays(muons.nMuon, muons.Muon_pt)[0]),
    }
    hard = {name: np.asarray(values)[np.asarray(rows["pt"]) > 20] for name, values in rows.items()}
    expected = [
        (int(one), int((hard["run"] == one).sum()), float(hard["eta"][hard["run"] == one].max()))
        for one in np.unique(hard["run"])
    ]
    assert run.product("PerRun").rows() == expected


def test_a_schema_renames_casts_and_drops() -> None:
    events = sample_events()
    schema = {"fields": {"met": {"source": "MET_pt", "dtype": "float32"}, "nMuon": {"dtype": "uint8"}, "none": None}}
    made = AlignSchema(schema=schema, missing="ignore", drop=["Jet_*", "LHE*"]).for_stage("s").resolve(events.names)
    found = made.run(events).events
    assert found["met"].tolist() == events["MET_pt"].astype(np.float32).tolist()
    assert found["nMuon"].dtype == np.uint8
    assert not [name for name in found.names if name.startswith(("Jet_", "LHE", "none"))]
    assert "MET_pt" in found


def test_a_column_that_is_not_there_is_named_with_the_nearest() -> None:
    columns = sample_events().names
    for made in (AlignSchema(schema={"fields": {"a": {"source": "MET_ptt"}}}), ProjectFields(aliases={"a": "MET_ptt"})):
        with pytest.raises(CenoteError) as caught:
            made.for_stage("s").resolve(columns)
        (problem,) = caught.value.problems
        assert problem.kind is errors.UNKNOWN_COLUMN
        assert problem.hint == "did you mean 'MET_pt'?"


def test_lists_of_different_lengths_cannot_become_rows() -> None:
    with pytest.raises(Exception, match="different numbers of elements"):
        Explode(fields=("Muon_pt", "Jet_pt")).for_stage("s").run(sample_events())
    with pytest.raises(ValueError, match="'MET_pt' has one value per event; name it under keep_fields"):
        Explode(fields=("MET_pt",)).for_stage("s").run(sample_events())


def test_whole_numbers_are_summed_exactly() -> None:
    events = sample_events(3).with_columns({"big": np.array([2**62, 1, 1])})
    table = Aggregate(values={"s": {"op": "sum", "of": "big"}}).for_stage("s").run(events).product
    assert table.rows() == [(2**62 + 2,)]


def test_trigger_jets_are_matched_as_loops_by_hand_match_them() -> None:
    events = sample_events(200)
    sides = {"reco": "Jet", "l1": "Muon"}
    columns = {side: {"et": f"{name}_pt", "eta": f"{name}_eta", "phi": f"{name}_phi"} for side, name in sides.items()}
    found = MatchL1tJets(**columns, dr_max=1.0).for_stage("s").run(events).events
    listed = {
        n: ak.to_list(events[n]) for n in (f"{name}_{f}" for name in sides.values() for f in ("pt", "eta", "phi"))
    }
    expected = []
    for i in range(events.size):
        jets = list(zip(listed["Jet_pt"][i], listed["Jet_eta"][i], listed["Jet_phi"][i], strict=True))
        seen = list(zip(listed["Muon_pt"][i], listed["Muon_eta"][i], listed["Muon_phi"][i], strict=True))
        if not seen or not any(et > 20 for et, _, _ in jets):
            continue
        matched, far = [], []
        for et, eta, phi in jets:
            turns = [abs((phi - p + np.pi) % (2 * np.pi) - np.pi) for _, _, p in seen]
            distances = [float(np.hypot(eta - e, turn)) for (_, e, _), turn in zip(seen, turns, strict=True)]
            best = int(np.argmin(distances))
            if distances[best] <= 1.0:
                matched.append((et, seen[best][0]))
            else:
                far.append(distances[best])
        expected.append((matched, far))
    assert found["n_matched"].tolist() == [len(matched) for matched, _ in expected]
    assert found["matched_reco_et"].tolist() == [[one for one, _ in matched] for matched, _ in expected]
    assert found["matched_l1_et"].tolist() == [[other for _, other in matched] for matched, _ in expected]
    assert ak.flatten(found["unmatched_dr"]).tolist() == pytest.approx([dr for _, far in expected for dr in far])


def table_of(columns: dict[str, Any], parts: int) -> list[tuple[Any, ...]]:
    """Sum, minimum and maximum of `x` for each `g`, computed in so many parts."""
    values = {op: {"op": op, "of": "x"} for op in ("sum", "min", "max")}
    operation, size = Aggregate(by="g", values=values).for_stage("s"), len(columns["g"])
    made = []
    for rows in np.array_split(np.arange(size), parts):
        part = {name: column[rows] for name, column in columns.items()}
        made.append(operation.run(Events(part, len(rows), DatasetInfo("dy", "mc"))).product)
    return Table().merge(made).rows()  # type: ignore[no-any-return]


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_limits_of_groups_pass_over_nan_however_rows_were_cut(parts: int) -> None:
    nan = math.nan
    columns = {"g": np.array([1, 1, 1, 1, 2, 2]), "x": np.array([nan, 3.0, nan, -1.0, nan, nan])}
    assert [row[2:] for row in table_of(columns, parts)] == [(-1.0, 3.0), (None, None)]


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize(("kind", "large"), [("i8", 2**62), ("i8", -(2**63)), ("u8", 2**64 - 1), ("u4", 2**32 - 1)])
def test_sums_of_whole_numbers_are_exact_whatever_their_size(kind: str, large: int, parts: int) -> None:
    columns = {"g": np.zeros(4, np.int64), "x": np.array([large, large, large, 1], kind)}
    assert table_of(columns, parts) == [(0, 3 * large + 1, min(large, 1), max(large, 1))]
