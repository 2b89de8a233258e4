"""Check the contract of operations on every one: honest columns, no events, settings that travel."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote.operations.interface import Operation
from cenote.operations.support.events import DatasetInfo, Events
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.plugins.settings import meanings
from cenote.products.interface import Product

EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "filter": [{"expr": "MET_pt > 20 & HLT"}, {"selection": [{"Any": ["nMuon >= 2", "HLT"]}, "MET_pt > 5"]}],
    "define": [{"twice": "MET_pt * 2", "more": "twice + LUMI"}, {"columns": [{"name": "one", "expr": 1}]}],
    "project": [{"keep": ["Muon_*", "HLT"]}],
    "hep.define": [
        {"variables": [{"name": "nHard", "reduce": {"op": "count_nonzero", "over": "Muon_pt > 25"}, "dtype": "int32"}]},
        {"variables": [{"name": "n{i}", "expr": "sum(Muon_pt > {i})", "matrix": {"i": [10, 20]}}]},
    ],
    "hep.select": [{"selection": ["nMuon >= 2", {"reduce": {"op": "any", "over": "Muon_pt > 25"}}]}],
    "hep.selection.flag": [{"selection": ["MET_pt > 100", "nMuon >= 1"]}, {"selection": "HLT", "output": "good"}],
    "hep.selection.cutflow": [
        {"weight_expr": "weight_mc", "selection": {"All": [{"label": "two", "expr": "nMuon >= 2"}, "MET_pt > 10"]}},
        {
            "selection": {"A": ["HLT"], "B": {"parents": "A[0]", "steps": [{"Any": ["nMuon > 1", "MET_pt > 50"]}]}},
            "filter": "any",
            "output_field": "passes",
        },
    ],
    "hep.select_objects": [
        {"collection": "Muon", "output": "Good", "selection": ["pt > 10", "MET_pt > 20"], "keep": ["pt", "eta"]},
        {"collection": "Muon", "output": "Good", "keep": ["p2"], "derived": {"p2": "pt * 2"}, "sort": {"by": "eta"}},
    ],
    "hep.di_object_mass": [{"mask": "Muon_pt > 5"}, {"collection": "Cart", "out_var": "m"}],
    "hep.hist": [
        {},
        {
            "axes": ["Muon_pt", {"source": "MET_pt / 2", "bins": [10, 0, 100]}],
            "weight": "weight_mc",
            "dataset_axis": True,
        },
        {"axes": [{"source": "nMuon", "type": "int"}, {"source": "HLT", "type": "bool"}]},
        {"axes": [{"name": "m", "source": "max(Muon_pt)", "type": "variable", "bins": [0, 10, 50, 100]}]},
        {
            "axes": ["MET_pt"],
            "variations": {"weights": {"nominal": "weight_mc", "up": "weight_mc * 2"}, "apply_to": {"eventtype": "mc"}},
        },
    ],
}
"""Settings for each operation; a new operation adds its own here."""

CASES = [(name, params) for name, several in EXAMPLES.items() for params in several]
IDS = [f"{name}-{number}" for name, several in EXAMPLES.items() for number in range(len(several))]


def the_events(size: int = 60) -> Events:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 4, size)

    def jagged(low: float, high: float) -> ak.Array:
        return ak.unflatten(rng.uniform(low, high, counts.sum()).astype(np.float32), counts)

    columns: dict[str, Any] = {
        "nMuon": counts,
        "Muon_pt": jagged(3, 80),
        "Muon_eta": jagged(-2.4, 2.4),
        "Muon_phi": jagged(-3, 3),
        "Muon_mass": jagged(0.1, 0.11),
        "Cart_Px": jagged(-50, 50),
        "Cart_Py": jagged(-50, 50),
        "Cart_Pz": jagged(-50, 50),
        "Cart_E": jagged(90, 100),
        "HLT": rng.random(size) > 0.5,
        "weight_mc": rng.uniform(0.5, 1.5, size),
        "MET_pt": rng.exponential(40, size),
    }
    mc = DatasetInfo("dy", "mc", metadata={"xs": 6.0})
    return Events(columns, size, mc, datasets=("data", "dy"), constants={"LUMI": 59.7})


def an_operation(name: str, params: dict[str, Any]) -> Operation:
    factory = registry.load(PluginKind.OPERATION, name)
    operation: Operation = factory.model_validate(params).for_stage("MuonPt").resolve(list(the_events().columns))
    return operation


def without_events(events: Events) -> Events:
    return events.where(np.zeros(events.size, dtype=np.bool_))


def test_every_operation_has_an_example() -> None:
    built_in = {name for name in registry.names(PluginKind.OPERATION) if not name.startswith("custom.")}
    assert built_in == set(EXAMPLES)


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
@pytest.mark.parametrize("by_alias", [False, True])
def test_settings_travel_to_workers_and_give_the_same_operation(
    name: str, params: dict[str, Any], by_alias: bool
) -> None:
    operation = an_operation(name, params)
    sent = operation.model_dump(mode="json", exclude_unset=True, by_alias=by_alias)
    received = type(operation).model_validate(sent).for_stage("MuonPt")
    assert received.model_dump() == operation.model_dump()
    assert received.run(the_events()).product == operation.run(the_events()).product


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_it_needs_no_column_but_those_it_declares(name: str, params: dict[str, Any]) -> None:
    operation = an_operation(name, params)
    kept = operation.keeps()
    there = the_events().keep({*operation.reads(), *(kept or ())})
    result = operation.run(there)
    assert set(result.events.names) - set(there.names) == set(operation.adds()) - set(there.names)
    everywhere = operation.run(the_events())
    for column in operation.adds():
        assert ak.array_equal(result.events[column], everywhere.events[column], equal_nan=True)
    assert result.product == everywhere.product


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_what_it_declares_to_read_is_there_or_a_constant(name: str, params: dict[str, Any]) -> None:
    known = {*the_events().names, *the_events().constants}
    assert set(an_operation(name, params).reads()) <= known


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_no_events_give_a_product_of_the_right_shape(name: str, params: dict[str, Any]) -> None:
    operation = an_operation(name, params)
    empty = operation.run(without_events(the_events()))
    assert empty.events.size == 0
    assert all(len(column) == 0 for column in empty.events.columns.values())
    assert set(operation.adds()) <= set(empty.events.names)
    if operation.product is None:
        assert empty.product is None
        return
    kind: Product = registry.load(PluginKind.PRODUCT, operation.product)()
    full = operation.run(the_events()).product
    assert kind.merge([empty.product, full]) == full
    assert kind.merge([full, empty.product]) == full


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_columns_and_events_have_the_size_they_claim(name: str, params: dict[str, Any]) -> None:
    result = an_operation(name, params).run(the_events()).events
    assert all(len(column) == result.size for column in result.columns.values())


@pytest.mark.parametrize(("name", "params"), CASES, ids=IDS)
def test_the_events_that_come_in_are_left_alone(name: str, params: dict[str, Any]) -> None:
    events, untouched = the_events(), the_events()
    an_operation(name, params).run(events)
    assert events.names == untouched.names
    assert all(ak.array_equal(events[column], untouched[column]) for column in events.names)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_setting_has_its_documentation(name: str) -> None:
    factory = registry.load(PluginKind.OPERATION, name)
    assert meanings(factory).keys() == factory.model_fields.keys()
    assert factory.__doc__
