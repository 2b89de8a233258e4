"""Check `hep.hist`: what is filled where, with which weight, and that cutting the data changes nothing."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.hist.operation import Hist
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.products.histogram import HistogramProduct

MC, DATA = DatasetInfo("dy", "mc", group="Z"), DatasetInfo("data", "data")


def events_of(columns: dict[str, Any], dataset: DatasetInfo = MC) -> Events:
    return Events(columns, len(next(iter(columns.values()))), dataset, datasets=("data", "dy"))


def three_events(dataset: DatasetInfo = MC) -> Events:
    return events_of(
        {
            "x": np.array([0.5, 1.5, np.nan]),
            "n": np.array([2, 0, 1]),
            "w": np.array([1.0, 2.0, 4.0]),
            "Muon_pt": ak.Array([[10.0, 30.0], [], [50.0]]),
            "Muon_eta": ak.Array([[0.1, -0.2], [], [0.3]]),
            "trigger": np.array(["mu", "e", "mu"]),
        },
        dataset,
    )


def filled(params: dict[str, Any], events: Events | None = None, stage: str = "h") -> hist.Hist[Any]:
    events = three_events() if events is None else events
    product = Hist.model_validate(params).for_stage(stage).resolve(list(events.names)).run(events).product
    assert isinstance(product, hist.Hist)
    return product


def values(histogram: hist.Hist[Any]) -> list[Any]:
    listed: list[Any] = histogram.values(flow=True).tolist()
    return listed


def test_counts_are_whole_numbers_and_nan_overflows() -> None:
    histogram = filled({"axes": [{"name": "x", "bins": {"nbins": 2, "low": 0, "high": 2}}]})
    assert histogram.storage_type is hist.storage.Int64
    assert values(histogram) == [0, 1, 1, 1]


@pytest.mark.parametrize("kind", ["u1", "i2", "u4", "i8", "u8", "f4", "f8"])
def test_whole_numbers_of_any_type_are_counted_where_they_belong(kind: str) -> None:
    largest = np.inf if kind[0] == "f" else np.iinfo(kind).max
    smallest = -np.inf if kind[0] == "f" else np.iinfo(kind).min
    column = np.array([largest, smallest, 1, 2, 2], dtype=kind)
    histogram = filled({"axes": [{"source": "n", "type": "integer", "bins": [1, 3]}]}, events_of({"n": column}))
    assert values(histogram) == [1, 1, 2, 1]


def test_axes_and_weights_follow_the_rules_of_expressions() -> None:
    events = events_of({"n": np.array([0, 1, 3], dtype=np.uint32), "x": np.array([1.0, 2.0, 3.0])})
    axes = [{"name": "n", "source": "n - 2", "type": "integer", "bins": [-2, 2]}]
    assert values(filled({"axes": axes, "weight": "(x > 1) + (n > 1)"}, events)) == [0, 0, 1, 0, 2, 0]
    assert values(filled({"axes": axes, "weight": "n - 1"}, events)) == [0, -1, 0, 0, 2, 0]


def test_a_missing_weight_is_an_error_where_it_would_drop_entries() -> None:
    first = {"name": "pt", "source": "first(Muon_pt)", "bins": [0.0, 20.0, 60.0]}
    assert values(filled({"axes": [first], "weight": "first(Muon_eta) * 0 + 2"})) == [0, 2, 2, 0]
    axes, words = [{"name": "x", "bins": [0.0, 1.0, 9.0]}], "the weight 'first.Muon_pt.' is missing for 1 of 3 entries"
    with pytest.raises(EvaluationError, match=words):
        filled({"axes": axes, "weight": "first(Muon_pt)"})
    with pytest.raises(EvaluationError, match=r"'max.Muon_pt.' of 'up' is missing for 1 of 3"):
        filled({"axes": axes, "variations": {"weights": {"nominal": "w", "up": "max(Muon_pt)"}}})


def test_every_element_of_a_list_is_filled_with_the_weight_of_its_event() -> None:
    histogram = filled({"axes": [{"source": "Muon_pt", "bins": [0.0, 20.0, 60.0]}], "weight_expr": "w"})
    assert values(histogram) == [0.0, 1.0, 5.0, 0.0]
    assert np.asarray(histogram.variances(flow=True)).tolist() == [0.0, 1.0, 17.0, 0.0]


def test_event_columns_are_repeated_beside_lists() -> None:
    axes = [{"source": "Muon_pt", "bins": [0.0, 20.0, 60.0]}, {"source": "n", "type": "integer", "bins": [0, 3]}]
    assert filled({"axes": axes}).values().tolist() == [[0, 0, 1], [0, 1, 1]]


def test_lists_of_different_lengths_do_not_go_together() -> None:
    events = three_events().with_columns({"Jet_pt": ak.Array([[1.0], [], [2.0]])})
    with pytest.raises(EvaluationError, match="'Muon_pt' and 'Jet_pt' have different numbers of elements"):
        filled({"axes": ["Muon_pt", "Jet_pt"]}, events)


def test_missing_values_are_left_out_together_with_what_belongs_to_them() -> None:
    axes = [{"source": "max(Muon_pt)", "bins": [0.0, 40.0, 60.0]}, {"source": "n", "type": "integer", "bins": [0, 3]}]
    assert filled({"axes": axes, "weight": "w"}).values().tolist() == [[0, 0, 1.0], [0, 4.0, 0]]


def test_lists_of_lists_are_opened_entirely() -> None:
    events = events_of({"hits": ak.Array([[[1.0, 2.0], []], [[3.0]]]), "w": np.array([1.0, 10.0])})
    histogram = filled({"axes": [{"source": "hits", "bins": [4, 0, 4]}], "weight": "w"}, events)
    assert histogram.values().tolist() == [0.0, 1.0, 1.0, 10.0]


def test_categories_that_grow_are_sorted() -> None:
    histogram = filled({"axes": [{"source": "trigger", "type": "category"}, {"source": "n", "type": "int"}]})
    assert list(histogram.axes[0]) == ["e", "mu"]
    assert list(histogram.axes[1]) == [0, 1, 2]
    assert histogram.values().tolist() == [[1, 0, 0], [0, 1, 1]]


def test_fixed_categories_keep_their_order_and_count_the_rest_as_overflow() -> None:
    histogram = filled({"axes": [{"source": "trigger", "bins": ["mu", "tau"]}]})
    assert list(histogram.axes[0]) == ["mu", "tau"]
    assert values(histogram) == [2, 0, 1]


def test_too_many_categories_are_refused() -> None:
    events = events_of({"run": np.arange(20_000)})
    with pytest.raises(EvaluationError, match="give it bins"):
        filled({"axes": [{"source": "run", "type": "int"}]}, events)


def test_text_needs_a_category_axis() -> None:
    with pytest.raises(EvaluationError, match="set type: category"):
        filled({"axes": ["trigger"]})


def test_an_axis_without_overflow_drops_what_is_outside() -> None:
    axis = {"source": "n", "type": "regular", "bins": [1, 0.5, 1.5], "overflow": False}
    assert values(filled({"axes": [axis]})) == [1]


def test_the_dataset_axis_holds_all_datasets_of_the_run() -> None:
    histogram = filled({"axes": [{"source": "n", "type": "integer", "bins": [0, 3]}], "dataset_axis": True})
    assert list(histogram.axes["dataset"]) == ["data", "dy"]
    assert histogram.values().tolist() == [[0, 0, 0], [1, 1, 1]]


def test_the_dataset_axis_may_be_ones_own() -> None:
    axis = {"name": "group", "type": "category", "source": "dataset_group"}
    histogram = filled({"axes": [{"source": "n", "type": "integer", "bins": [0, 3]}], "dataset_axis": axis})
    assert list(histogram.axes["group"]) == ["Z"]
    assert histogram.sum() == 3


VARIED = {
    "axes": [{"source": "n", "type": "integer", "bins": [0, 3]}],
    "weight_expr": "w",
    "variations": {"weights": {"nominal": "w", "up": "w * 2"}, "apply_to": {"eventtype": "mc"}},
}


def test_variations_are_filled_side_by_side() -> None:
    assert filled(VARIED).values().tolist() == [[2.0, 4.0], [4.0, 8.0], [1.0, 2.0]]


AXES = [{"source": "x", "bins": [5, 0, 1]}, {"source": "trigger", "type": "category"}]


def many_events(events: int) -> Events:
    random = np.random.default_rng(1)
    columns = {"x": random.random(events), "w": random.random(events), "v": random.random(events)}
    return events_of({**columns, "trigger": random.choice(["mu", "e"], events)})


@pytest.mark.parametrize("number", [1, 15, 16, 17, 40])
def test_many_variations_are_what_each_is_alone(number: int) -> None:
    weights = {f"w{place}": f"w * {place} + v" for place in range(number)}
    events = many_events(500)
    together = filled({"axes": AXES, "variations": {"weights": weights}}, events).view(flow=True)
    alone = [filled({"axes": AXES, "weight": text}, events).view(flow=True) for text in weights.values()]
    assert [together[..., place].tobytes() for place in range(number)] == [one.tobytes() for one in alone]


def test_a_weight_with_lists_makes_entries_of_lists_for_all_variations() -> None:
    weights = {f"w{place}": "w" for place in range(20)} | {"of muons": "Muon_pt"}
    histogram = filled(
        {"axes": [{"source": "n", "type": "integer", "bins": [0, 3]}], "variations": {"weights": weights}}
    )
    assert histogram[:, "w0"].values().tolist() == [0.0, 4.0, 2.0]
    assert histogram[:, "of muons"].values().tolist() == [0.0, 50.0, 40.0]


def test_a_thousand_variations_are_never_in_memory_at_once() -> None:
    events = many_events(20_000)
    params = {"axes": AXES, "variations": {"weights": {f"w{place}": f"w * {place}" for place in range(1000)}}}
    operation = Hist.model_validate(params).for_stage("h").resolve(list(events.names))
    tracemalloc.start()
    try:
        operation.run(events)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * events["w"].nbytes


def test_data_are_never_varied() -> None:
    histogram = filled(VARIED, three_events(DATA))
    assert histogram.values().tolist() == [[2.0, 0.0], [4.0, 0.0], [1.0, 0.0]]


def test_data_without_a_weight_count_one_each() -> None:
    params = {key: value for key, value in VARIED.items() if key != "weight_expr"}
    assert filled(params, three_events(DATA)).values()[:, 0].tolist() == [1.0, 1.0, 1.0]


def test_counting_ignores_weights() -> None:
    histogram = filled({"axes": [{"source": "n", "type": "int"}], "weight_expr": "w", "storage": "count"})
    assert histogram.values().tolist() == [1, 1, 1]
    assert Hist.model_validate({"axes": ["n"], "weight": "w", "storage": "count"}).reads() == ("n",)


def test_without_settings_the_column_of_the_stages_name_is_filled() -> None:
    operation = Hist().for_stage("MuonPt").resolve(["x", "Muon_pt", "last"])
    assert operation.axes[0].source == "Muon_pt"
    assert operation.inferred_axis_note() == "no axes are given: filling 'Muon_pt', 50 bins from 0 to 200"
    assert operation.reads() == ("Muon_pt",)


def test_without_settings_and_such_a_column_the_newest_is_filled() -> None:
    assert Hist().for_stage("ProducePlots").resolve(["x", "Muon_pt", "score"]).axes[0].source == "score"


@pytest.mark.parametrize(
    ("column", "kind", "low", "high"),
    [
        ("Jet_pt", "regular", 0, 200),
        ("Muon_Eta", "regular", -5, 5),
        ("DiMuon_Mass", "regular", 0, 200),
        ("nMuon", "integer", 0, 20),
        ("n_muons", "integer", 0, 20),
        ("dnn_score", "regular", 0, 1),
        ("anything", "regular", 0, 100),
        ("night", "regular", 0, 100),
    ],
)
def test_customary_bins_follow_the_name(column: str, kind: str, low: float, high: float) -> None:
    axis = Hist.model_validate({"axes": [column]}).axes[0]
    assert axis.type == kind
    assert axis.model_dump()["bins"] | {"nbins": 0} == {"nbins": 0, "low": low, "high": high}


@pytest.mark.parametrize(
    ("axis", "part"),
    [
        ({"name": "x", "type": "regular"}, "needs bins"),
        ({"name": "x", "bins": [1, 2, 3]}, "set type: variable or regular"),
        ({"name": "x", "bins": {"nbins": 3, "low": 3, "high": 1}}, "must be below"),
        ({"name": "x", "type": "variable", "bins": [3, 2]}, "each larger"),
        ({"name": "x", "type": "integer", "bins": {"low": 0, "high": 2.5}}, "one bin per number"),
        ({"name": "weight", "bins": [2, 0, 1]}, "cannot be named"),
        ({"name": "x", "typ": "regular"}, "Extra inputs"),
        ({"name": "x", "type": "regulr", "bins": [2, 0, 1]}, "'regular'"),
    ],
)
def test_wrong_axes_are_explained(axis: dict[str, Any], part: str) -> None:
    with pytest.raises(ValidationError, match=part):
        Hist.model_validate({"axes": [axis]})


def test_two_axes_of_the_same_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="two axes are named 'x'"):
        Hist.model_validate({"axes": ["x", "x"]})


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 200), max_size=6), seed=st.integers(0, 1000))
def test_counts_are_the_same_however_the_events_are_cut(cuts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, 200)
    events = events_of(
        {
            "pt": ak.unflatten(rng.exponential(30, counts.sum()), counts),
            "kind": rng.choice(["a", "b", "c"], 200),
            "n": counts,
        }
    )
    params = {"axes": ["pt", {"source": "kind", "type": "category"}, {"source": "n", "type": "int"}]}
    edges = sorted({0, 200, *cuts})
    parts = []
    for start, stop in pairwise(edges):
        inside = np.zeros(200, dtype=np.bool_)
        inside[start:stop] = True
        parts.append(filled(params, events.where(inside)))
    assert HistogramProduct().merge(parts) == filled(params, events)
