"""Variations of an analysis: one pass over the data gives what a workflow of its own for each of them would give."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
import uproot
import yaml

import cenote
from cenote.execution.worker.compiled_group import CompiledGroup

Flow = dict[str, Any]
HT = {"name": "ht", "type": "regular", "source": "ht", "bins": [40, 0, 400]}
FLOW = """
    data:
      datasets:
        - {name: data, files: data.root, eventtype: data}
        - {name: tt, files: tt.root, group: top}
        - {name: tt_alt, files: tt_alt.root}
        - {name: wj, files: wj.root}
    sources: {events: {kind: root_tree, chunk_size: 400}}
    analysis:
      stages:
        - {id: Met, op: hep.define, params: {met2: met * 1.5}}
        - id: Good
          op: hep.select_objects
          params: {collection: Jet, output: Jet, selection: [pt > 25, abs(eta) < 2.4], keep: [pt, eta]}
        - {id: Ht, op: hep.define, params: {ht: sum(Jet_pt)}}
        - {id: All, op: hep.hist, params: {dataset_axis: true, weight_expr: w, axes: [AXIS]}, render: []}
        - {id: MetCut, op: hep.select, params: {selection: met2 > 20}}
        - id: Cut
          op: hep.selection.cutflow
          params: {selection: {jets: [nJet >= 2, {expr: ht > 80, label: hard}]}}
        - {id: Angle, op: hep.define, params: {centre: cos(met2 / 50) + ht}}
        - {id: Selected, op: hep.hist, params: {dataset_axis: true, weight_expr: w, axes: [AXIS]}, render: []}
        - {id: Sum, op: hep.hist, params: {weight_expr: w, axes: [AXIS]}, render: []}
        - id: Kinds
          op: hep.hist
          params: {dataset_axis: true, axes: [{name: n, source: nJet, type: integer}, centre]}
          render: []
    systematics:
      variations:
        - {name: "jes_{d}", matrix: {d: [up, down]}, applies_to: mc, replace: {Jet.pt: "Jet_pt_{d}"}}
        - {name: "sf_{d}", matrix: {d: [up, down]}, applies_to: mc, weight: {multiply: "sf_{d}"}}
        - {name: generator, datasets: {replace: {tt: tt_alt}}}
        - name: tight
          anchor: Good
          patch: {selection: [pt > 30, abs(eta) < 2.4]}
          applies_to: {datasets: [wj]}
        - {name: both, replace: {Jet_pt: Jet_pt_up}, weight: {multiply: [sf_up, 0.9]}, applies_to: {eventtypes: [mc]}}
        - {name: late, stop_before: Cut, replace: {Jet_pt: Jet_pt_up}, applies_to: mc}
        - {name: axis, anchor: Selected, patch: {axes: [{name: ht, type: regular, source: 2 * ht, bins: [40, 0, 400]}]}}
"""
HISTOGRAMS = ("All", "Selected", "Sum", "Kinds")
SIMULATED = "where(dataset_is_data, 1, {})"


def stage_of(flow: Flow, name: str) -> Flow:
    found: Flow = next(stage for stage in flow["analysis"]["stages"] if stage["id"] == name)
    return found


def shift_jets(flow: Flow, column: str) -> None:
    first = {"id": "Shift", "op": "hep.define", "params": {"Jet_pt": column}, "applies_to": {"eventtype": "mc"}}
    flow["analysis"]["stages"].insert(0, first)


def multiply(flow: Flow, *factors: str) -> None:
    """The weight of simulated events; that of data is multiplied with 1."""
    for name in ("All", "Selected", "Sum"):
        stage_of(flow, name)["params"]["weight_expr"] = " * ".join(["w", *map(SIMULATED.format, factors)])


def take_others(flow: Flow) -> None:
    flow["data"]["datasets"][1]["files"] = "tt_alt.root"


def cut_harder(flow: Flow) -> None:
    """In one dataset."""
    stages, usual = flow["analysis"]["stages"], stage_of(flow, "Good")
    harder = copy.deepcopy(usual) | {"id": "Harder", "applies_to": {"datasets": ["wj"]}}
    harder["params"]["selection"][0] = "pt > 30"
    stages.insert(stages.index(usual), harder)
    usual["applies_to"] = {"datasets": ["data", "tt"]}


def both(flow: Flow) -> None:
    shift_jets(flow, "Jet_pt_up")
    multiply(flow, "sf_up", "0.9")


def double(flow: Flow) -> None:
    stage_of(flow, "Selected")["params"]["axes"] = [{**HT, "source": "2 * ht"}]


BY_HAND: Mapping[str, tuple[Callable[[Flow], object], tuple[str, ...]]] = {
    "nominal": (lambda flow: flow, HISTOGRAMS),
    "jes_up": (lambda flow: shift_jets(flow, "Jet_pt_up"), HISTOGRAMS),
    "jes_down": (lambda flow: shift_jets(flow, "Jet_pt_down"), HISTOGRAMS),
    "sf_up": (lambda flow: multiply(flow, "sf_up"), ("All", "Selected", "Sum")),
    "sf_down": (lambda flow: multiply(flow, "sf_down"), ("All", "Selected", "Sum")),
    "generator": (take_others, HISTOGRAMS),
    "tight": (cut_harder, HISTOGRAMS),
    "both": (both, HISTOGRAMS),
    "late": (lambda flow: shift_jets(flow, "Jet_pt_up"), ("All",)),
    "axis": (double, ("Selected",)),
}
"""Variation → how one would write it by hand, and the histograms that it changes."""


def write_jets(path: Path, events: int, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    counts = numbers.poisson(3, events)
    pt = ak.unflatten((numbers.exponential(30, counts.sum()) + 15).astype(np.float32), counts)
    eta = ak.unflatten(numbers.normal(0, 1.5, counts.sum()).astype(np.float32), counts)
    factor = 1 + 0.05 * numbers.random(events)
    with uproot.recreate(path) as file:
        file["events"] = {
            "Jet_pt": pt,
            "Jet_eta": eta,
            "Jet_pt_up": pt * np.float32(1.05),
            "Jet_pt_down": pt * np.float32(0.95),
            "met": numbers.exponential(40, events).astype(np.float32),
            "w": numbers.normal(1, 0.1, events),
            "sf_up": factor,
            "sf_down": 2 - factor,
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("jets")
    for seed, name in enumerate(("data", "tt", "tt_alt", "wj")):
        write_jets(made / f"{name}.root", 900, seed)
    return made


def plain_flow(text: str = FLOW) -> Flow:
    flow: Flow = yaml.safe_load(text)
    for name in ("All", "Selected", "Sum"):
        stage_of(flow, name)["params"]["axes"] = [HT]
    return flow


def ran(
    folder: Path, flow: Flow, name: str, *, backend: str = "local", chunks: int = 400, **options: Any
) -> cenote.Run:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(flow, sort_keys=False))
    sets = [f"sources.events.chunk_size={chunks}"]
    run = cenote.load(path, backend=backend, sets=sets).run(folder / name, **options)
    assert run.status == "succeeded", str(run.failures)
    return run


def rows(histogram: Any, variation: str | None = None) -> dict[Any, Any]:
    """What is filled: by growing categories, or all in order."""
    chosen = histogram[{"variation": variation}] if variation else histogram
    growing = [axis for axis in chosen.axes if axis.traits.growth]
    if not growing:
        return {"all": chosen.view(flow=True).tobytes()}
    pieces = {one: chosen[{growing[0].name: hist.loc(one)}].view(flow=True) for one in growing[0]}
    return {one: piece.tobytes() for one, piece in pieces.items() if piece.sum()}


@pytest.fixture(scope="module")
def by_hand(folder: Path) -> dict[str, cenote.Run]:
    """Variation → a workflow of its own."""
    nominal = {key: value for key, value in plain_flow().items() if key != "systematics"}
    del nominal["data"]["datasets"][2]
    found = {}
    for name, (change, _) in BY_HAND.items():
        flow = copy.deepcopy(nominal)
        change(flow)
        found[name] = ran(folder, flow, f"by-hand-{name}", workers=1)
    return found


@pytest.mark.parametrize("compiled", [False, True])
def test_each_variation_is_what_a_workflow_of_its_own_gives(
    folder: Path, by_hand: dict[str, cenote.Run], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CompiledGroup, "worth", 0 if compiled else 10**9)
    run = ran(folder, plain_flow(), f"compiled-{compiled}", workers=1)
    for name, (_, changed) in BY_HAND.items():
        for product in changed:
            found = rows(run.product(product), name)
            assert found == rows(by_hand[name].product(product)), (name, product)
            assert name == "nominal" or found != rows(run.product(product), "nominal"), (name, product)
    assert run.product("Cut").to_rows() == by_hand["nominal"].product("Cut").to_rows(), "the nominal one alone"


def test_histograms_have_an_axis_of_the_variations_that_change_them(folder: Path) -> None:
    run = ran(folder, plain_flow(), "axes", workers=1)
    everything = run.product("All")
    assert list(everything.axes["variation"]) == [
        "nominal", "jes_up", "jes_down", "sf_up", "sf_down", "generator", "tight", "both", "late",
    ]  # fmt: skip
    assert "sf_up" not in run.product("Kinds").axes["variation"], "counts have no weights"
    assert list(everything.axes["dataset"]) == ["data", "tt", "wj"], "what replaces another one is none of its own"
    unchanged = everything[{"dataset": "data", "variation": "jes_up"}]
    assert unchanged == everything[{"dataset": "data", "variation": "nominal"}], "it applies to mc"


def test_the_same_numbers_on_every_backend(folder: Path) -> None:
    def numbers(run: cenote.Run) -> list[bytes]:
        return [run.product(name).view(flow=True).tobytes() for name in HISTOGRAMS]

    alone = numbers(ran(folder, plain_flow(), "alone", workers=1))
    assert numbers(ran(folder, plain_flow(), "four", workers=4)) == alone
    assert numbers(ran(folder, plain_flow(), "dask", backend="dask")) == alone


def test_other_chunks_move_last_bits_of_sums_of_weights_alone(folder: Path) -> None:
    small, large = (ran(folder, plain_flow(), f"chunks-{size}", chunks=size, workers=1) for size in (350, 100_000))
    assert np.array_equal(small.product("Kinds").view(flow=True), large.product("Kinds").view(flow=True))
    for name in ("All", "Selected", "Sum"):
        one, other = (run.product(name).view(flow=True) for run in (small, large))
        np.testing.assert_allclose(one.value, other.value, rtol=1e-12, atol=1e-12)


def test_a_hand_written_loop_gives_the_same_histogram(folder: Path) -> None:
    run = ran(folder, plain_flow(), "loop", chunks=100_000, workers=1)
    events = uproot.open(folder / "wj.root")["events"].arrays()
    for variation, column in {"nominal": "Jet_pt", "jes_up": "Jet_pt_up", "both": "Jet_pt_up"}.items():
        good = events[column][(events[column] > 25) & (abs(events.Jet_eta) < 2.4)]
        ht = ak.to_numpy(ak.sum(good, axis=1))
        kept = ak.to_numpy((events.met * 1.5 > 20) & (ak.num(good) >= 2)) & (ht > 80)
        weight = events.w * events.sf_up * 0.9 if variation == "both" else events.w
        expected, _ = np.histogram(ht[kept], bins=40, range=(0, 400), weights=ak.to_numpy(weight)[kept])
        found = run.product("Selected")[{"dataset": "wj", "variation": variation}].values()
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


ODD = """
    plugins: [ops.py]
    data:
      datasets:
        - {name: data, files: data.root, eventtype: data}
        - {name: tt, files: tt.root}
        - {name: tt_alt, files: tt_alt.root}
        - {name: wj, files: wj.root}
    sources: {events: {kind: root_tree, chunk_size: 400}}
    analysis:
      stages:
        - {id: Ht, op: define, params: {ht: sum(Jet_pt), lead: max(Jet_pt)}}
        - {id: Top, op: define, params: {ht: ht * 1.1}, applies_to: {datasets: [tt]}}
        - {id: Hard, op: custom.hard, needs: [Top], params: {least: 60}, execution: {require: big}}
        - {id: Mean, op: custom.mean, scope: dataset, needs: [Top]}
        - {id: Centred, op: custom.centre, needs: [Hard, Mean]}
        - {id: Side, op: define, needs: [Top], params: {other: lead + met}}
        - {id: Met, op: filter, needs: [Side], params: {expr: met > 10}}
        - {id: Both, op: filter, needs: [Centred, Met], params: {expr: other > 30}}
        - {id: Few, op: project, params: {keep: [ht, other, centred, w]}}
        - id: H
          op: hep.hist
          params:
            dataset_axis: true
            axes: [{name: x, type: regular, source: ht, bins: [20, 0, 400]}]
            variations: {weights: {nominal: w, double: 2 * w}}
          render: []
        - id: C
          op: hep.hist
          params: {weight_expr: w, axes: [{name: x, type: regular, source: centred + other, bins: [20, -200, 200]}]}
          render: []
    execution: {pools: {default: {workers: 1}, big: {workers: 1}}}
    systematics:
      cutflows: true
      variations:
        - {name: up, replace: {Jet_pt: Jet_pt_up}, applies_to: mc}
        - {name: late, replace: {lead: ht}, applies_to: {datasets: [wj]}}
        - {name: cut, anchor: Hard, patch: {least: 90}, applies_to: mc}
        - {name: sf, weight: {multiply: sf_up}, applies_to: mc, stop_before: Few}
"""
OPERATIONS = """
import awkward as ak
import numpy as np

from cenote import operation


@operation("custom.hard", reads=["ht"], filter=True)
def hard(events, *, least: float):
    return np.asarray(events["ht"] > least)


@operation("custom.mean", reads=["met"], scope="dataset", product="mean")
def mean(events):
    return float(np.mean(events["met"], dtype=float))


@operation("custom.centre", reads=["lead"], adds=["centred"])
def centre(events):
    return {"centred": np.asarray(ak.fill_none(events["lead"], 0.0), dtype=float) - events.product("Mean")}
"""


def replaced(flow: Flow, name: str, column: str, *, after: str | None, datasets: list[str]) -> None:
    """A column set to another one, in some datasets, before all stages or after one of them."""
    stages = flow["analysis"]["stages"]
    step = {"id": "Replace", "op": "define", "params": {name: column}, "applies_to": {"datasets": datasets}}
    if after is None:
        stages.insert(0, {**step, "needs": []})
        stages[1]["needs"] = ["Replace"]
        return
    place = next(number for number, stage in enumerate(stages) if stage["id"] == after)
    stages.insert(place + 1, {**step, "needs": [after]})
    for stage in stages[place + 2 :]:
        stage["needs"] = ["Replace" if need == after else need for need in stage.get("needs", ())] or stage.get("needs")
        if stage["needs"] is None:
            del stage["needs"]


def cut_at_90(flow: Flow) -> None:
    place = next(number for number, one in enumerate(flow["analysis"]["stages"]) if one["id"] == "Hard")
    usual = flow["analysis"]["stages"][place]
    usual["applies_to"] = {"datasets": ["data"]}
    harder = {**usual, "id": "Harder", "params": {"least": 90}, "applies_to": {"datasets": ["tt", "wj"]}}
    flow["analysis"]["stages"].insert(place, harder)
    usual["needs"] = ["Harder"]


def test_joins_pools_products_and_stages_for_some_datasets(folder: Path) -> None:
    (folder / "ops.py").write_text(OPERATIONS)
    flow: Flow = yaml.safe_load(ODD)
    del flow["data"]["datasets"][2]
    run = ran(folder, flow, "odd")
    changes: dict[str, Callable[[Flow], object]] = {
        "nominal": lambda flow: flow,
        "up": lambda flow: replaced(flow, "Jet_pt", "Jet_pt_up", after=None, datasets=["tt", "wj"]),
        "late": lambda flow: replaced(flow, "lead", "ht", after="Ht", datasets=["wj"]),
        "cut": cut_at_90,
    }
    for name, change in changes.items():
        alone = copy.deepcopy({key: value for key, value in flow.items() if key != "systematics"})
        change(alone)
        found = ran(folder, alone, f"odd-{name}")
        assert rows(run.product("C"), name) == rows(found.product("C")), name
        if name != "late":  # what it changes is not in this one
            assert rows(run.product("H"), name) == rows(found.product("H"), "nominal"), name
    assert list(run.product("C").axes["variation"]) == ["nominal", "up", "late", "cut"], "sf ends before"
    assert list(run.product("H").axes["variation"]) == ["nominal", "double", "up", "late", "cut"]


def test_a_dataset_that_takes_the_place_of_another_is_in_nothing_else(folder: Path) -> None:
    (folder / "ops.py").write_text(OPERATIONS)
    flow: Flow = yaml.safe_load(ODD)
    flow["analysis"]["stages"] = [
        one for one in flow["analysis"]["stages"] if one["id"] in ("Ht", "Met", "H") or one["op"] == "project"
    ]
    for stage, needs in zip(flow["analysis"]["stages"], ([], ["Ht"], ["Met"], ["Few"]), strict=True):
        stage["needs"] = needs
    flow["analysis"]["stages"][1] = {
        "id": "Met",
        "op": "hep.selection.cutflow",
        "needs": ["Ht"],
        "params": {"selection": ["met > 10", "ht > 50"]},
        "write": {"kind": "parquet", "path": "skim.parquet", "keep": ["ht"]},
    }
    flow["analysis"]["stages"][2]["params"]["keep"] = ["ht", "w"]
    flow["systematics"]["variations"] = [
        {"name": "other", "datasets": {"replace": {"tt": "tt_alt"}}, "weight": {"multiply": "1.5"}, "applies_to": "mc"},
        {"name": "up", "replace": {"Jet_pt": "Jet_pt_up"}, "applies_to": "mc"},
        {
            "name": "mixed",
            "datasets": {"replace": {"tt": "tt_alt"}},
            "replace": {"Jet_pt": "Jet_pt_up"},
            "applies_to": "mc",
        },
    ]
    run = ran(folder, flow, "stands-in", workers=1)
    assert {row["dataset"] for row in run.product("Met").to_rows()} == {"data", "tt", "wj"}
    assert {row["dataset"] for row in run.product("Met@up").to_rows()} == {"tt", "wj"}
    assert {one["path"].split("/")[1] for one in run.product("Met:files")} == {"data", "tt", "wj"}
    flow["data"]["datasets"][1]["files"] = "tt_alt.root"
    del flow["data"]["datasets"][2], flow["systematics"], flow["analysis"]["stages"][1]["write"]
    params = flow["analysis"]["stages"][3]["params"]
    params["variations"]["weights"]["nominal"] = "(w) * (where(dataset_is_data, 1, 1.5))"
    other = ran(folder, flow, "stands-in-by-hand", workers=1)
    assert rows(run.product("H"), "other") == rows(other.product("H"), "nominal")
    params["variations"]["weights"]["nominal"] = "w"
    replaced(flow, "Jet_pt", "Jet_pt_up", after=None, datasets=["tt", "wj"])
    mixed = ran(folder, flow, "stands-in-mixed-by-hand", workers=1)
    assert rows(run.product("H"), "mixed") == rows(mixed.product("H"), "nominal")


@pytest.mark.parametrize("backend", ["local", "dask"])
def test_a_histogram_is_whole_where_variations_of_it_are_filled_on_other_pools(
    folder: Path, by_hand: dict[str, cenote.Run], backend: str
) -> None:
    flow = plain_flow()
    for name in ("All", "Selected"):  # stages that follow a histogram follow its pool; its variations need not go there
        stage_of(flow, name)["execution"] = {"require": "big"}
    flow["execution"] = {"pools": {"default": {"workers": 1}, "big": {"workers": 1}}}
    run = ran(folder, flow, f"apart-{backend}", backend=backend)
    plan = cenote.load(folder / f"apart-{backend}.yaml").plan()
    where = {step.stage: segment.index for segment in plan.segments for step in segment.steps}
    assert where["Sum"] != where["Sum@jes_up"]
    for name, (_, changed) in BY_HAND.items():
        for product in changed:
            assert rows(run.product(product), name) == rows(by_hand[name].product(product)), (name, product)


def test_a_stage_sees_the_whole_of_a_dataset_that_takes_the_place_of_another(folder: Path) -> None:
    (folder / "ops.py").write_text(OPERATIONS)
    flow: Flow = {
        "plugins": ["ops.py"],
        "data": {"datasets": [{"name": name, "files": f"{name}.root"} for name in ("tt", "tt_alt", "wj")]},
        "analysis": {
            "stages": [
                {"id": "Mean", "op": "custom.mean", "needs": [], "scope": "dataset"},
                {"id": "Lead", "op": "define", "needs": [], "params": {"lead": "max(Jet_pt)"}},
                {"id": "Centred", "op": "custom.centre", "needs": ["Lead", "Mean"]},
                {"id": "H", "op": "hep.hist", "params": {"axes": [{**HT, "source": "centred"}]}, "render": []},
            ]
        },
    }
    varied = flow | {"systematics": {"variations": [{"name": "other", "datasets": {"replace": {"tt": "tt_alt"}}}]}}
    run = ran(folder, varied, "whole", workers=1)
    assert run.product("Mean").keys() == {"tt", "wj"}, "products of own operations are nominal"
    flow["data"]["datasets"] = [{"name": "tt", "files": "tt_alt.root"}, {"name": "wj", "files": "wj.root"}]
    other = ran(folder, flow, "whole-by-hand", workers=1)
    assert rows(run.product("H"), "other") == rows(other.product("H"))
    assert rows(run.product("H"), "other") != rows(run.product("H"), "nominal")
