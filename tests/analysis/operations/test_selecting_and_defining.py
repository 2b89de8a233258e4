"""Check the operations that define columns and keep events: define, filter, project and the hep ones."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
from pydantic import ValidationError

from builders.compiled_stages import Stage, assert_same, compiled, events_of, ordinary
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.define import Define
from cenote.analysis.operations.filter import Filter
from cenote.analysis.operations.hep.define import HepDefine
from cenote.analysis.operations.hep.select import Select
from cenote.analysis.operations.hep.selection.cutflow import SelectionCutflow
from cenote.analysis.operations.hep.selection.flag import Flag
from cenote.analysis.operations.interface import Operation
from cenote.analysis.operations.project import Project
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common import errors


def four_events(dataset: str = "dy") -> Events:
    columns: dict[str, Any] = {
        "x": np.array([1.0, 2.0, 3.0, 4.0]),
        "n": np.array([2, 0, 1, 3]),
        "HLT": np.array([True, True, False, True]),
        "w": np.array([0.5, 1.0, 1.0, 2.0]),
        "Muon_pt": ak.Array([[30.0, 10.0], [], [20.0], [50.0, 40.0, 5.0]]),
    }
    return Events(columns, 4, DatasetInfo(dataset, "mc", metadata={"xs": 3.0}), constants={"LUMI": 10.0})


def run(kind: type[Operation], params: dict[str, Any], stage: str = "s") -> Any:
    events = four_events()
    return kind.model_validate(params).for_stage(stage).resolve(list(events.names)).run(events)


def test_later_columns_see_earlier_ones_constants_and_facts_of_the_dataset() -> None:
    events = run(Define, {"a": "x * LUMI", "b": "a + dataset_xs"}).events
    assert events["b"].tolist() == [13.0, 23.0, 33.0, 43.0]


def test_only_what_is_not_defined_here_is_read() -> None:
    operation = Define.model_validate({"variables": {"x": "x + 1", "y": "x * n", "z": "y + dataset_xs"}})
    assert operation.reads() == ("x", "n", "dataset_xs")
    assert operation.facts() == ("dataset_xs",)
    assert operation.adds() == ("x", "y", "z")


def test_a_number_becomes_a_column() -> None:
    assert run(Define, {"one": 1}).events["one"].tolist() == [1, 1, 1, 1]


def test_reductions_and_types() -> None:
    params = {"variables": [{"name": "k", "reduce": {"op": "count_nonzero", "over": "Muon_pt > 15"}, "dtype": "int8"}]}
    column = run(HepDefine, params).events["k"]
    assert column.tolist() == [1, 0, 1, 2]
    assert column.dtype == np.int8


CAST = {
    "large": np.array([300, 2**40, 5]),
    "signed": np.array([-1, 0, 5], "i1"),
    "fraction": np.array([1.5, -0.5, 255.9], "f4"),
    "unknown": np.array([1.0, np.nan, 2.0]),
    "far": np.array([2.0**63, 0.0, 1.0]),
    "list": ak.values_astype(ak.Array([[255], [], [7, 128]]), "u1"),
    "some": ak.Array([1.0, None, 200.0]),
}


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("large", "uint8", "300 does not fit into uint8"),
        ("large", "float32", [300.0, 2.0**40, 5.0]),
        ("signed", "uint64", "-1 does not fit into uint64"),
        ("signed", "int64", [-1, 0, 5]),
        ("fraction", "uint8", [1, 0, 255]),
        ("fraction", "int8", r"255\.\S* does not fit into int8"),
        ("unknown", "int32", "nan does not fit into int32"),
        ("unknown", "bool", [True, True, True]),
        ("far", "int64", r"9\.2\S* does not fit into int64"),
        ("far", "uint64", [2**63, 0, 1]),
        ("list", "int8", "255 does not fit into int8"),
        ("list", "int16", [[255], [], [7, 128]]),
        ("some", "int16", [1, None, 200]),
        ("some", "int8", "200.0 does not fit into int8"),
        ("300.5", "uint8", "300.5 does not fit into uint8"),
        ("-1.5", "uint8", "-1.5 does not fit into uint8"),
        ("2.5", "uint8", [2, 2, 2]),
    ],
)
def test_values_that_a_type_cannot_hold_are_refused_in_both_ways(text: str, dtype: str, expected: Any) -> None:
    """numpy would give 44 for 300, and for what is not a number something else on each machine."""
    stages, events = (
        [Stage("D", "define", {"variables": [{"name": "v", "expr": text, "dtype": dtype}]})],
        events_of(CAST),
    )
    in_loop = compiled(stages, events)
    if isinstance(expected, str):
        assert in_loop is None, "it is left to the ordinary way"
        with pytest.raises(EvaluationError, match=f"column 'v': {expected}"):
            ordinary(stages, events)
        return
    found = ordinary(stages, events)
    assert ak.to_list(found.left["D"]["v"]) == expected
    if text != "some" and dtype != "uint64":  # which are left to the ordinary way as well
        assert in_loop is not None
        assert_same(in_loop, found)


def test_a_matrix_writes_definitions_out() -> None:
    entry = {"name": "n{i}_{j}", "expr": "n * {i} + {j}", "matrix": {"i": [1, 2], "j": {"range": {"stop": 2}}}}
    operation = HepDefine.model_validate({"variables": [entry]})
    assert operation.adds() == ("n1_0", "n1_1", "n2_0", "n2_1")


@pytest.mark.parametrize(
    ("params", "part"),
    [
        ({"variables": [{"name": "a"}]}, "needs either 'expr' or 'reduce'"),
        ({"variables": [{"name": "a", "expr": "x", "dtype": "flaot32"}]}, "not a numpy type"),
        ({"variables": [{"name": "a", "exp": "x"}]}, "Extra inputs"),
        ({"variables": [{"name": "a", "reduce": {"op": "most", "over": "x"}}]}, "'count_nonzero'"),
    ],
)
def test_wrong_definitions_are_explained(params: dict[str, Any], part: str) -> None:
    with pytest.raises(ValidationError, match=part):
        HepDefine.model_validate(params)


@pytest.mark.parametrize(
    ("selection", "kept"),
    [
        ("n >= 1 & HLT", [1.0, 4.0]),
        (["n >= 1", "HLT"], [1.0, 4.0]),
        ({"Any": ["n >= 3", "x == 2"]}, [2.0, 4.0]),
        ({"All": ["HLT", {"Any": ["n >= 3", {"All": ["x < 3", "n == 0"]}]}]}, [2.0, 4.0]),
        ({"reduce": {"op": "any", "over": "Muon_pt > 25"}}, [1.0, 4.0]),
        ("max(Muon_pt) > 15", [1.0, 3.0, 4.0]),
        ("any(Muon.pt > 25)", [1.0, 4.0]),
        (True, [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_selections_keep_the_right_events(selection: Any, kept: list[float]) -> None:
    for kind in (Filter, Select):
        assert run(kind, {"selection": selection}).events["x"].tolist() == kept


@pytest.mark.parametrize(
    ("text", "part"),
    [("Muon_pt > 10", r"gives a list per event, .* use any\(…\) or all\(…\)"), ("n", "!= 0"), ("pi", "one number")],
)
def test_what_is_no_decision_per_event_is_refused(text: str, part: str) -> None:
    with pytest.raises(EvaluationError, match=part):
        run(Filter, {"expr": text})


@pytest.mark.parametrize("text", [1, "n + 1", "-n", "2 * n", "(n > 0) + (x > 0)", "'yes'"])
def test_what_is_never_a_decision_is_refused_before_anything_runs(text: Any) -> None:
    for kind, given in ((Filter, {"expr": text}), (Select, {"selection": [text]}), (Flag, {"selection": text})):
        with pytest.raises(ValidationError, match="is not true or false"):
            kind.model_validate(given)


@pytest.mark.parametrize("text", [True, "(n > 0) * (x > 0)", "n & 4", "~(n > 0)", "count(Muon_pt)"])
def test_what_may_be_a_decision_is_left_to_the_columns(text: Any) -> None:
    assert Filter.model_validate({"expr": text}).selection


def test_an_unknown_column_at_run_time_names_the_nearest() -> None:
    with pytest.raises(EvaluationError, match="did you mean 'Muon_pt'"):
        run(Filter, {"expr": "any(Muon_pT > 1)"})


def test_project_reads_nothing_itself() -> None:
    events = four_events()
    operation = Project.model_validate({"keep": ["Muon_*", "x"]}).for_stage("s").resolve(list(events.names))
    assert operation.reads() == ()
    assert operation.run(events).events.names == ("x", "Muon_pt")


def test_project_names_every_column_that_is_missing() -> None:
    with pytest.raises(errors.CenoteError) as caught:
        Project.model_validate({"keep": ["Muon_pT", "zz"]}).for_stage("s").resolve(["Muon_pt"])
    assert [problem.kind for problem in caught.value.problems] == [errors.UNKNOWN_COLUMN] * 2
    assert caught.value.problems[0].hint == "did you mean 'Muon_pt'?"


def test_a_flag_is_called_like_its_stage() -> None:
    assert run(Flag, {"selection": ["n >= 1", "HLT"]}, stage="signal").events["signal"].tolist() == [
        True,
        False,
        False,
        True,
    ]


def test_a_flag_does_not_overwrite_a_column() -> None:
    with pytest.raises(errors.CenoteError, match="'HLT', which already exists"):
        run(Flag, {"selection": "n > 1", "output": "HLT"})


def test_a_cutflow_counts_what_enters_and_leaves_each_cut() -> None:
    selection = {"All": [{"label": "some", "expr": "n >= 1"}, {"reduce": {"op": "any", "over": "Muon_pt > 25"}}]}
    result = run(SelectionCutflow, {"selection": selection, "weight_expr": "w"})
    rows = result.product.to_rows()
    assert [(row["name"], row["label"], row["kind"]) for row in rows] == [
        ("All[0]", "some", "expression"),
        ("All[1]", "any(Muon_pt > 25)", "reduce"),
    ]
    assert [(row["n_unweighted_in"], row["n_unweighted_out"]) for row in rows] == [(4, 3), (3, 2)]
    assert [(row["n_in"], row["sumw_out"], row["sumw2_out"]) for row in rows] == [(4.5, 3.5, 5.25), (3.5, 2.5, 4.25)]
    assert result.events["x"].tolist() == [1.0, 4.0]


def test_groups_branch_off_from_earlier_steps() -> None:
    selection = {
        "A": ["n >= 1", "HLT"],
        "B": {"parents": ["A[0]"], "steps": ["x > 2"]},
        "C": {"from": "A", "cuts": ["x > 2"]},
    }
    result = run(SelectionCutflow, {"selection": selection, "filter": "any", "output_field": "passes"})
    assert [(row.name, row.n_unweighted_in, row.n_unweighted_out) for row in result.product.rows] == [
        ("A[0]", 4, 3),
        ("A[1]", 3, 2),
        ("B[0]", 3, 2),
        ("C[0]", 2, 1),
    ]
    assert result.events["x"].tolist() == [1.0, 3.0, 4.0]
    assert result.events["s_B"].tolist() == [False, True, True]
    assert result.events["s.A"].tolist() == [True, False, True]
    assert result.events["passes"].tolist() == [True, True, True]


@pytest.mark.parametrize(("given", "kept"), [("none", 4), (False, 4), (True, 2), (None, 2), ("all", 2)])
def test_filtering_can_be_switched_off(given: Any, kept: int) -> None:
    assert run(SelectionCutflow, {"selection": ["n >= 1", "HLT"], "filter": given}).events.size == kept


def test_a_group_called_any_holds_alternatives() -> None:
    result = run(SelectionCutflow, {"selection": {"Any": ["n >= 3", "x == 2"]}})
    assert result.events["x"].tolist() == [2.0, 4.0]


def test_flags_can_be_left_out() -> None:
    operation = SelectionCutflow.model_validate({"selection": ["n >= 1"], "emit_flags": False})
    assert operation.adds() == ()


def test_an_unknown_parent_names_the_nearest_step() -> None:
    with pytest.raises(ValidationError, match=r"did you mean 'A\[0\]'"):
        SelectionCutflow.model_validate({"selection": {"A": ["n > 1"], "B": {"parents": "A[1]", "steps": ["n > 2"]}}})
