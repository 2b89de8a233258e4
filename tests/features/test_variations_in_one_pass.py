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
from cenote.worker.compiled_group import CompiledGroup

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
