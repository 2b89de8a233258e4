"""Compiled stages give what they give the ordinary way: the same events, columns, histograms and cutflows."""

from __future__ import annotations

import os
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders.compiled_stages import Stage, assert_same, compiled, events_of, ordinary
from cenote.analysis.compiled import passes
from cenote.analysis.operations.support.events import Events

EXAMPLES = 1_000 if os.environ.get("CENOTE_DEEP_TESTS") else 25


def sample(seed: int, size: int = 300) -> dict[str, Any]:
    """Columns as an experiment has them, with odd values among them."""
    random = np.random.default_rng(seed)
    jets, muons = random.poisson(2.0, size), random.poisson(1.3, size)

    def lists(counts: Any, scale: float, kind: str = "f4") -> ak.Array:
        values = random.normal(0, scale, counts.sum())
        values[random.random(len(values)) < 0.02] = random.choice([np.inf, -np.inf, 0.0, -0.0, 1e30])
        with np.errstate(all="ignore"):
            return ak.unflatten(values.astype(kind), counts)

    met = random.exponential(60, size)
    met[random.random(size) < 0.05] = random.choice([np.nan, np.inf, -3.0, 200.0, 0.0])
    return {
        "weight": random.normal(1, 0.3, size),
        "MET_pt": met.astype("f4"),
        "run": random.integers(-4, 9, size).astype("i4"),
        "fired": random.random(size) < 0.6,
        "Jet_pt": abs(lists(jets, 50)),
        "Jet_eta": lists(jets, 2),
        "Jet_n": ak.unflatten(random.integers(-4, 5, jets.sum()).astype("i2"), jets),
        "Muon_pt": abs(lists(muons, 30)),
        "Muon_eta": lists(muons, 1.5),
        "Muon_phi": lists(muons, 1.0, "f8"),
        "Muon_mass": ak.full_like(lists(muons, 1.0), 0.1),
        "Muon_charge": ak.unflatten(random.choice([-1, 1], muons.sum()).astype("i1"), muons),
    }


def assert_compiled_exactly(stages: list[Stage], events: Events) -> None:
    """They have a compiled form, which gives the same."""
    found = compiled(stages, events)
    assert found is not None
    assert_same(found, ordinary(stages, events))


def regular(source: str, low: float, high: float) -> dict[str, Any]:
    """An axis."""
    return {"name": "x", "type": "regular", "source": source, "bins": [20, low, high]}


REGULAR = {"name": "x", "type": "regular", "source": "MET_pt", "bins": [10, 0, 200]}
AXES: list[dict[str, Any]] = [
    REGULAR,
    {**REGULAR, "overflow": False},
    {"name": "y", "type": "variable", "source": "MET_pt", "bins": [0, 1.5, 20, 60.25, 200]},
    {"name": "y", "type": "variable", "source": "MET_pt", "bins": [0, 20, 200], "overflow": False},
    {"name": "n", "type": "integer", "source": "run", "bins": {"low": -2, "high": 5}},
    {"name": "n", "type": "integer", "source": "MET_pt", "bins": {"low": 0, "high": 100}, "overflow": False},
    {"name": "flag", "type": "boolean", "source": "fired"},
    {"name": "j", "type": "regular", "source": "Jet_pt", "bins": [7, 20, 90]},
    {"name": "k", "type": "integer", "source": "Jet_n", "bins": {"low": -2, "high": 3}},
    {"name": "e", "type": "regular", "source": "Jet_eta * 2 + MET_pt", "bins": [5, -2, 90.5]},
    {"name": "which", "type": "category", "source": "dataset_name"},
    {"name": "c", "type": "regular", "source": "2.5", "bins": [5, 0, 5]},
    {"name": "s", "type": "regular", "source": "sin(Jet_eta)", "bins": [9, -1, 1]},
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"weight_expr": "weight"},
    {"weight_expr": "weight * Jet_n", "dataset_axis": True},
    {"weight_expr": "2", "storage": "count"},
    {"storage": "weighted"},
    {"variations": {"weights": {"nominal": "weight", "up": "weight * 1.1", "flat": "1"}}},
    {"variations": {"weights": {"up": "weight * 2"}, "apply_to": {"eventtype": "data"}}, "weight_expr": "weight"},
]


@pytest.mark.parametrize("more", SETTINGS)
def test_histograms(more: dict[str, Any]) -> None:
    chosen = [*([axis] for axis in AXES), [AXES[0], AXES[7]], [AXES[2], AXES[4], AXES[6]]]
    stages = [Stage(f"h{n}", "hep.hist", {"axes": axes, **more}) for n, axes in enumerate(chosen)]
    assert_compiled_exactly(stages, events_of(sample(1)))


def test_every_edge_of_an_axis() -> None:
    edges = np.linspace(-1, 2, 10)
    values = np.concatenate([edges, np.nextafter(edges, 9), np.nextafter(edges, -9), [np.nan, np.inf, -np.inf, -0.0]])
    for overflow in (True, False):
        equal = {"name": "x", "type": "regular", "source": "x", "bins": [9, -1, 2], "overflow": overflow}
        variable = {"name": "x", "type": "variable", "source": "x", "bins": edges.tolist(), "overflow": overflow}
        whole = {
            "name": "x",
            "type": "integer",
            "source": "x * 3",
            "bins": {"low": -3, "high": 6},
            "overflow": overflow,
        }
        for axis in (equal, variable, whole):
            assert_compiled_exactly([Stage("h", "hep.hist", {"axes": [axis]})], events_of({"x": values}))


CUTFLOWS: list[dict[str, Any]] = [
    {"selection": ["fired", "MET_pt > 30"]},
    {"selection": {"All": ["fired", {"Any": ["MET_pt > 60", "run == 2"]}]}, "weight_expr": "weight"},
    {"selection": {"A": ["fired"], "B": {"steps": ["run > 0", "MET_pt < 80"], "parents": ["A[0]"]}}, "filter": "any"},
    {"selection": {"A": ["fired"], "B": ["run > 0"]}, "filter": False, "output_field": "passed", "weight_expr": "2"},
    {"selection": [{"reduce": {"op": "any", "over": "Jet_pt > 60"}}, "sum(Jet_pt) > 20"], "emit_flags": False},
    {"selection": ["true", "weight > 1"], "weight_expr": "weight * MET_pt"},
]


@pytest.mark.parametrize("params", CUTFLOWS)
def test_cutflows(params: dict[str, Any]) -> None:
    assert_compiled_exactly([Stage("cuts", "hep.selection.cutflow", params)], events_of(sample(2)))


OBJECTS: list[dict[str, Any]] = [
    {"selection": ["pt > 20", "abs(eta) < 2"], "keep": ["pt", "eta"]},
    {"selection": ["pt > MET_pt"], "keep": ["eta"], "sort": False},
    {"keep": ["pt", "charge"], "sort": {"by": "eta", "order": "ascending"}},
    {"selection": "x > 0", "derived": {"x": "eta * charge", "y": "exp(x)"}, "keep": ["x", "y"]},
    {"keep": ["pt"], "sort": {"by": "charge"}},
]


@pytest.mark.parametrize("params", OBJECTS)
def test_selected_objects_and_what_uses_them(params: dict[str, Any]) -> None:
    kept = params["keep"][0]
    stages = [
        Stage("good", "hep.select_objects", {"collection": "Muon", "output": "Good", **params}),
        Stage(
            "new", "define", {"t": f"sum(Good_{kept})", "l": f"leading(Good_{kept}, -1)", "n": "nGood * 2"}, ("good",)
        ),
        Stage("cut", "filter", {"expr": "nGood >= 1"}, ("new",)),
        Stage("h", "hep.hist", {"axes": [regular(f"Good_{kept}", -5, 90)]}, ("cut",)),
    ]
    events = events_of(sample(3))
    assert_compiled_exactly(stages, events)


@pytest.mark.parametrize("mask", [None, "Muon_pt > 20", "fired", "(Muon_pt > 20) & (abs(Muon_eta) < 2.4)"])
@pytest.mark.parametrize("more", [{}, {"mass": 0.2, "fields": {"pt": "Muon_pt", "eta": "Muon_eta", "phi": "Muon_phi"}}])
def test_masses_of_pairs(mask: str | None, more: dict[str, Any]) -> None:
    stages = [Stage("pair", "hep.di_object_mass", {"collection": "Muon", **({"mask": mask} if mask else {}), **more})]
    events = events_of(sample(4))
    assert_compiled_exactly(stages, events)


def test_equal_expressions_in_branches_that_do_not_share_their_events() -> None:
    stages = [
        Stage("a", "filter", {"expr": "run > 3"}),
        Stage("b", "filter", {"expr": "run < 2"}),
        Stage("xa", "define", {"x": "sum(Jet_pt) * 2"}, ("a",)),
        Stage("xb", "define", {"y": "sum(Jet_pt) * 2", "z": "sum(Jet_pt)"}, ("b",)),
        Stage("all", "define", {"x": "sum(Jet_pt) * 2"}),
    ]
    events = events_of(sample(5))
    assert_compiled_exactly(stages, events)


def test_branches_that_meet_again() -> None:
    stages = [
        Stage("a", "filter", {"expr": "run > 0"}),
        Stage("b", "filter", {"expr": "fired"}),
        Stage("xa", "define", {"x": "sum(Jet_pt)"}, ("a",)),
        Stage("both", "define", {"y": "x + MET_pt"}, ("xa", "b")),
        Stage("h", "hep.hist", {"axes": [regular("y", 0, 300)]}, ("both",)),
    ]
    events = events_of(sample(6))
    assert_compiled_exactly(stages, events)


def test_numpy_computes_only_what_reaches_it() -> None:
    stages = [
        Stage("cut", "filter", {"expr": "MET_pt > 30"}),
        Stage("waves", "define", {"s": "sin(MET_pt)", "w": "exp(s) + cos(Jet_eta)"}, ("cut",)),
        Stage("again", "filter", {"expr": "s > 0"}, ("waves",)),
        Stage("third", "define", {"t": "sum(w) * exp(sum(w) / 9)", "v": "w * s"}, ("again",)),
        Stage("flag", "hep.selection.flag", {"selection": ["t > 1", "fired"]}, ("third",)),
        Stage("h", "hep.hist", {"axes": [regular("v", -3, 3)], "weight": "t"}, ("flag",)),
        Stage("aside", "hep.hist", {"axes": [REGULAR]}, ("cut",)),
    ]
    events = events_of(sample(7))
    assert_compiled_exactly(stages, events)


def test_events_that_were_selected_before() -> None:
    events = events_of(sample(8))
    chosen = events.where(events["MET_pt"] > 20)
    stages = [Stage("x", "define", {"x": "sum(Jet_pt)"}), Stage("cut", "hep.select", {"selection": "x > 50"}, ("x",))]
    assert_compiled_exactly(stages, chosen)


def test_columns_that_cannot_be_read_pass_by() -> None:
    data = sample(9)
    words = ak.Array([["a", "bc"]] * len(data["run"]))
    missing = ak.mask(data["run"], data["run"] > 0)
    events = events_of({**data, "words": words, "missing": missing, "big": data["run"].astype("u8")})
    stages = [Stage("cut", "filter", {"expr": "run > 2"})]
    assert_compiled_exactly(stages, events)
    assert compiled([Stage("cut", "filter", {"expr": "missing > 2"})], events) is None


def test_lists_of_different_lengths_are_left_to_the_ordinary_way() -> None:
    events = events_of(sample(10))
    assert compiled([Stage("x", "define", {"x": "sum(Jet_pt * Muon_pt)"})], events) is None


def test_a_number_that_is_none_has_no_order() -> None:
    data = sample(11)
    data["Muon_pt"] = ak.where(data["Muon_pt"] > 50, np.nan, data["Muon_pt"])
    params = {"collection": "Muon", "output": "Good", "keep": ["pt"]}
    assert compiled([Stage("good", "hep.select_objects", params)], events_of(data)) is None


names = [
    "MET_pt",
    "run",
    "weight",
    "fired",
    "sum(Jet_pt)",
    "num(Muon_pt)",
    "count_nonzero(Jet_eta > 0)",
    "x",
    "exp(-MET_pt)",
]
signs, numbers = st.sampled_from(["<", ">", "!="]), st.sampled_from(["0", "1", "30", "run"])
conditions = st.tuples(st.sampled_from(names), signs, numbers).map(" ".join)

changed = st.sampled_from(["x + 1", "where(fired, x, 0)", "sqrt(abs(x))", "sin(x)"])
axes = st.sampled_from([[axis] for axis in AXES])


@st.composite
def workflows(draw: st.DrawFn) -> list[Stage]:
    """A few stages, each after one or two of those before it."""
    stages = [Stage("s0", "define", {"x": draw(st.sampled_from(["MET_pt * 2", "sum(Jet_pt)", "run - 1"]))})]
    for number in range(1, draw(st.integers(2, 7))):
        ids = st.sampled_from([stage.id for stage in stages])
        before = draw(st.lists(ids, min_size=1, max_size=2, unique=True))
        cuts = draw(st.lists(conditions, min_size=1, max_size=3))
        objects = {"collection": "Muon", "output": f"G{number}", "selection": f"pt > {number} * x"}
        made: dict[str, dict[str, Any]] = {
            "define": {"x": draw(changed), f"l{number}": "Jet_pt * x"},
            "filter": {"expr": draw(conditions)},
            "hep.selection.cutflow": {"selection": cuts, "weight_expr": "weight"},
            "hep.hist": {"axes": draw(axes), "weight_expr": "weight * x"},
            "hep.select_objects": {**objects, "keep": ["pt", "eta"]},
        }
        op = draw(st.sampled_from(sorted(made)))
        stages.append(Stage(f"s{number}", op, made[op], tuple(before)))
    return stages


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(stages=workflows(), seed=st.integers(0, 1000), size=st.sampled_from([1, 2, 60]), few=st.booleans())
def test_any_workflow(stages: list[Stage], seed: int, size: int, few: bool) -> None:
    events: Events = events_of(sample(seed, size))
    found = compiled(stages, events, leaving=[stages[-1].id] if few else None)
    if found is not None:
        assert_same(found, ordinary(stages, events))


def test_many_stages_become_several_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "LARGEST", 60)
    stages = [Stage("cut", "filter", {"expr": "MET_pt > 20"})]
    for number in range(6):
        before = stages[-1].id if number % 2 else "cut"
        stages.append(Stage(f"x{number}", "define", {f"x{number}": f"sum(Jet_pt) * {number} + sin(run)"}, (before,)))
        source = {"axes": [regular(f"x{number}", 0, 300)], "weight": "weight"}
        stages.append(Stage(f"h{number}", "hep.hist", source, (f"x{number}",)))
    assert_compiled_exactly(stages, events_of(sample(12)))


def test_a_stage_that_is_too_large_is_left_to_the_ordinary_way() -> None:
    varied = {"weights": {f"w{n}": f"weight * {n}" for n in range(500)}}
    stages = [Stage("h", "hep.hist", {"axes": [REGULAR], "variations": varied})]
    assert compiled(stages, events_of(sample(13, 5))) is None
