"""Check the operations on objects of events: selecting them, and the mass of two of them."""

from __future__ import annotations

import math
from typing import Any

import awkward as ak
import numpy as np
import pytest
import vector
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.operations.hep.di_object_mass import DiObjectMass
from cenote.analysis.operations.hep.select_objects import SelectObjects
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.common import errors


def muon_events(seed: int = 1, size: int = 40) -> Events:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size)

    def jagged(low: float, high: float) -> ak.Array:
        return ak.unflatten(rng.uniform(low, high, counts.sum()), counts)

    columns: dict[str, Any] = {
        "Muon_pt": jagged(3, 80),
        "Muon_eta": jagged(-2.4, 2.4),
        "Muon_phi": jagged(-3, 3),
        "Muon_mass": jagged(0.1, 0.2),
        "rho": rng.uniform(0, 30, size),
    }
    return Events(columns, size, DatasetInfo("dy", "mc"))


def selected(params: dict[str, Any], events: Events) -> Events:
    given = {"collection": "Muon", "output": "Good", **params}
    return SelectObjects.model_validate(given).for_stage("s").resolve(list(events.names)).run(events).events


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_objects_are_selected_and_sorted_as_awkward_would(seed: int) -> None:
    events = muon_events(seed)
    result = selected({"selection": ["pt > 20", "abs(eta) < 2"], "keep": ["pt", "eta"]}, events)
    mask = (events["Muon_pt"] > 20) & (abs(events["Muon_eta"]) < 2)
    order = ak.argsort(events["Muon_pt"][mask], axis=1, ascending=False, stable=True)
    assert ak.array_equal(result["Good_pt"], events["Muon_pt"][mask][order])
    assert ak.array_equal(result["Good_eta"], events["Muon_eta"][mask][order])
    assert result["nGood"].tolist() == ak.sum(mask, axis=1).tolist()


@pytest.mark.parametrize(("order", "expected"), [("descending", [30.0, 10.0]), ("ascending", [10.0, 30.0])])
def test_objects_whose_key_is_no_number_come_last(order: str, expected: list[float]) -> None:
    pt = ak.Array([[math.nan, 10.0, math.nan, 30.0], [math.nan], []])
    events = Events({"Muon_pt": pt, "Muon_index": ak.local_index(pt)}, 3, DatasetInfo("dy", "mc"))
    result = selected({"keep": ["pt", "index"], "sort": {"by": "pt", "order": order}}, events)
    assert result["Good_pt"][0, :2].tolist() == expected
    assert result["Good_index"][:, 2:].tolist() == [[0, 2], [], []]


def test_a_derived_field_may_be_called_like_what_it_is_made_of() -> None:
    settings = {"keep": ["pt"], "derived": {"unused": "phi", "pt": "pt * 2"}, "sort": False}
    made = SelectObjects.model_validate({"collection": "Muon", "output": "Good", **settings}).resolve(
        list(muon_events().names)
    )
    assert list(made.reads()) == ["Muon_pt"]
    found = made.run(muon_events().keep(made.reads())).events["Good_pt"]
    assert ak.array_equal(found, muon_events()["Muon_pt"] * 2)


def test_columns_of_the_event_may_decide_about_objects() -> None:
    events = muon_events()
    result = selected({"selection": ["pt > rho", "rho > 10"], "keep": ["pt"], "sort": False}, events)
    expected = events["Muon_pt"][(events["Muon_pt"] > events["rho"]) & (events["rho"] > 10)]
    assert ak.array_equal(result["Good_pt"], expected)


def test_derived_fields_can_be_kept_selected_by_and_sorted_by() -> None:
    events = muon_events()
    params = {
        "derived": {"p": "pt * cosh(eta)"},
        "selection": "p > 30",
        "keep": ["p"],
        "sort": {"by": "p", "order": "ascending"},
    }
    result = selected(params, events)
    momentum = events["Muon_pt"] * np.cosh(events["Muon_eta"])
    assert ak.array_equal(result["Good_p"], ak.sort(momentum[momentum > 30], axis=1))


def test_reads_are_the_fields_and_columns_that_are_used() -> None:
    params = {"collection": "Muon", "output": "G", "selection": ["pt > rho"], "keep": ["eta"], "derived": {"x": "phi"}}
    operation = SelectObjects.model_validate(params).for_stage("s").resolve(["Muon_pt", "Muon_eta", "Muon_phi", "rho"])
    assert set(operation.reads()) == {"Muon_pt", "Muon_eta", "rho"}
    assert operation.adds() == ("G_eta", "nG")


def test_capital_letters_do_not_hide_the_default_sort_key() -> None:
    events = Events({"Muon_Pt": ak.Array([[1.0, 3.0, 2.0]])}, 1, DatasetInfo("d"))
    assert selected({"keep": ["Pt"]}, events)["Good_Pt"].tolist() == [[3.0, 2.0, 1.0]]


def test_missing_fields_can_be_passed_over() -> None:
    result = selected({"keep": ["pt", "charge"], "missing_fields": "ignore"}, muon_events())
    assert "Good_charge" not in result
    assert "Good_pt" in result


def test_the_collection_can_replace_itself() -> None:
    result = selected({"output": "Muon", "selection": "pt > 40", "keep": ["pt"]}, muon_events())
    assert ak.min(result["Muon_pt"]) > 40


def test_conditions_with_other_lengths_are_refused() -> None:
    events = muon_events().with_columns({"Jet_pt": ak.Array([[1.0]] * 40)})
    with pytest.raises(EvaluationError, match="different number of elements"):
        selected({"selection": "Jet_pt > 0", "keep": ["pt"]}, events)


def mass(params: dict[str, Any], events: Events) -> Any:
    operation = DiObjectMass.model_validate(params).for_stage("s").resolve(list(events.names))
    (name,) = operation.adds()
    return operation.run(events).events[name]


def test_the_mass_is_that_of_four_vectors() -> None:
    events = muon_events()
    masses = mass({"mask": "Muon_pt > 10"}, events)
    chosen = events["Muon_pt"] > 10
    muons = vector.zip({name: events[f"Muon_{name}"][chosen] for name in ("pt", "eta", "phi", "mass")})
    enough = ak.num(muons) >= 2
    expected = (muons[enough][:, 0] + muons[enough][:, 1]).mass
    np.testing.assert_allclose(masses[ak.to_numpy(enough)], ak.to_numpy(expected), rtol=1e-9)
    assert np.isnan(masses[~ak.to_numpy(enough)]).all()


def test_cartesian_columns_come_first() -> None:
    columns = {
        "Mu_Px": ak.Array([[3.0, -3.0], [1.0]]),
        "Mu_Py": ak.Array([[0.0, 0.0], [1.0]]),
        "Mu_Pz": ak.Array([[0.0, 0.0], [1.0]]),
        "Mu_E": ak.Array([[5.0, 5.0], [2.0]]),
        "Mu_pt": ak.Array([[1.0, 1.0], [1.0]]),
    }
    events = Events(columns, 2, DatasetInfo("d"))
    masses = mass({"collection": "Mu"}, events)
    assert masses[0] == 10.0
    assert math.isnan(masses[1])


def test_impossible_four_vectors_have_no_mass_rather_than_an_imaginary_one() -> None:
    columns = {
        f"Mu_{name}": ak.Array([[value, value]]) for name, value in [("Px", 9.0), ("Py", 0.0), ("Pz", 0.0), ("E", 1.0)]
    }
    assert mass({"collection": "Mu"}, Events(columns, 1, DatasetInfo("d"))).tolist() == [0.0]


def test_a_given_mass_stands_in_for_a_missing_column() -> None:
    events = muon_events()
    without = events.keep(name for name in events.names if name != "Muon_mass")
    assert np.nanmax(mass({"mass": 0.10566}, without)) > 0


def test_without_mass_or_column_the_plan_is_told() -> None:
    with pytest.raises(errors.CenoteError) as caught:
        DiObjectMass().for_stage("s").resolve(["Muon_pt", "Muon_eta", "Muon_phi"])
    assert caught.value.problems[0].kind is errors.UNKNOWN_COLUMN
    assert "mass: 0.10566" in str(caught.value.problems[0].hint)
