"""Workflows of the kinds that FAST-HEP's tutorials have: muons of ROOT files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

from builders.comparison.by_hand import ComparedWorkflow, Numbers, counted, filled, written
from builders.comparison.files import write_dimuons

SAMPLES = {"data": 420, "dy": 330}
HEAD = """
version: 1.0
include: [datasets.yaml]
use: {profiles: [hep_debug]}
data:
  defaults: {eventtype: mc, tree_primary: events}
sources:
  events:
    kind: root_tree
    tree: events
    stream_type: event_stream
"""
DATASETS = """
data:
  datasets:
    - name: data
      eventtype: data
      group: observed
      metadata: {label: Collision data}
      nevents: "420"
      files: [data/CMS/data.root]
    - name: dy
      group: signal
      nevents: "330"
      files:
        - data/CMS/dy.root
"""
FLAGS = """
analysis:
  stages:
    - id: MuonFlags
      op: hep.define
      params:
        variables:
          - name: Muon_Pt
            expr: "sqrt(Muon_Px ** 2 + Muon_Py ** 2)"
          - name: IsolatedMuon
            expr: "(Muon_Iso / Muon_Pt) < 0.10"
          - name: NIsolatedMuon
            reduce: {op: count_nonzero, over: IsolatedMuon}
          - name: HasMuonAbove25
            reduce: {op: any, over: "Muon_Pt > 25"}
"""
SELECTION = """
    - id: SelectDimuons
      op: hep.selection.cutflow
      params:
        selection:
          dimuon_candidates:
            - "NIsolatedMuon >= 2"
            - "triggerIsoMu24 == 1"
            - "HasMuonAbove25"
"""
ISOLATED = """
    - id: Isolated
      op: hep.hist
      params: {axes: [{name: n, type: regular, source: NIsolatedMuon, bins: {low: 0, high: 5, nbins: 5}}]}
"""
MASS = """
analysis:
  stages:
    - id: BasicVars
      op: hep.define
      params:
        variables:
          - {name: Muon_Pt, expr: "sqrt(Muon_Px ** 2 + Muon_Py ** 2)"}
          - {name: IsoMuon_Idx, expr: "(Muon_Iso / Muon_Pt) < 0.10"}
    - id: DiMuons
      op: hep.di_object_mass
      params: {collection: Muon, mask: IsoMuon_Idx}
    - id: DiMuonMass
      op: hep.hist
      params:
        dataset_axis: true
        storage: weighted
        axes:
          - {name: dimu_mass, source: DiMuon_Mass, type: regular, bins: {low: 60, high: 120, nbins: 30}}
        weight_expr: EventWeight
"""
BESIDE = {"datasets.yaml": DATASETS}


def write_samples(folder: Path) -> None:
    for seed, (name, events) in enumerate(SAMPLES.items()):
        write_dimuons(folder / f"data/CMS/{name}.root", events, seed)


def samples(folder: Path) -> dict[str, Any]:
    """All events, with the columns that the tutorials define."""
    found = {}
    for name in SAMPLES:
        events = uproot.open(folder / f"data/CMS/{name}.root")["events"].arrays()
        events["Muon_Pt"] = np.sqrt(events.Muon_Px**2 + events.Muon_Py**2)
        events["IsolatedMuon"] = events.Muon_Iso / events.Muon_Pt < 0.10
        events["NIsolatedMuon"] = ak.sum(events.IsolatedMuon, axis=1)
        events["HasMuonAbove25"] = ak.any(events.Muon_Pt > 25, axis=1)
        found[name] = events
    return found


def dimuon_mass(events: Any) -> Any:
    """Of the first two isolated muons; NaN where there are fewer."""
    isolated = {part: events[f"Muon_{part}"][events.IsolatedMuon] for part in ("Px", "Py", "Pz", "E")}
    two = {part: ak.pad_none(values, 2, clip=True) for part, values in isolated.items()}
    px, py, pz, energy = (ak.values_astype(two[part][:, 0], "f8") + two[part][:, 1] for part in ("Px", "Py", "Pz", "E"))
    return ak.fill_none(np.sqrt(np.maximum(energy**2 - px**2 - py**2 - pz**2, 0)), np.nan)


def masses(folder: Path) -> Numbers:
    return {
        f"DiMuonMass/{name}": filled([(dimuon_mass(events), (30, 60, 120))], events.EventWeight)
        for name, events in samples(folder).items()
    }


def cuts_of(events: Any) -> list[Any]:
    return [events.NIsolatedMuon >= 2, events.triggerIsoMu24 == 1, events.HasMuonAbove25]


def cutflows(folder: Path, *, weighted: bool = False) -> Numbers:
    found: Numbers = {}
    for name, events in samples(folder).items():
        weights = events.EventWeight if weighted else None
        found |= counted(f"SelectDimuons/{name}/dimuon_candidates", cuts_of(events), weights)
    return found


def skims(folder: Path, columns: list[str] | None = None) -> Numbers:
    found = cutflows(folder)
    for name, events in samples(folder).items():
        first, second, third = cuts_of(events)
        kept = events[first & second & third]
        kept["SelectDimuons_dimuon_candidates"] = np.ones(len(kept), dtype=bool)
        chosen = columns or kept.fields
        found |= written(f"SelectDimuons:files/{name}", {column: kept[column] for column in chosen})
    return found


def derived(folder: Path) -> Numbers:
    columns = ["Muon_Pt", "IsolatedMuon", "NIsolatedMuon", "HasMuonAbove25"]
    every = samples(folder)
    isolated = np.concatenate([ak.to_numpy(events.NIsolatedMuon) for events in every.values()])
    found: Numbers = {"Isolated": filled([(isolated, (5, 0, 5))])}
    for name, events in every.items():
        found |= written(f"MuonFlags:files/{name}", {column: events[column] for column in columns})
    return found


def mapped(folder: Path) -> Numbers:
    found: Numbers = {}
    for name, events in samples(folder).items():
        some = events[10:300]
        found |= counted(f"TriggerSelection/{name}/All", [some.triggerIsoMu24 == 1])
        trigger = some[some.triggerIsoMu24]
        found[f"Weight/{name}"] = filled([(trigger.EventWeight, (10, 0, 2))])
    return found


def two_dimensional(folder: Path) -> Numbers:
    return {
        f"NumberMuons/{name}": filled(
            [(events.NMuon, (6, 0, 5)), (events.NIsolatedMuon, (6, 0, 5))], events.EventWeight
        )
        for name, events in samples(folder).items()
    }


MAPPED = """
    branches: [triggerIsoMu24, EventWeight]
    start: 10
    stop: 300
observers:
  - {kind: hep.schema_snapshot, at: [read.events, stage.TriggerSelection], out: schema}
fields:
  analysis_trigger: {stream: events, branch: "triggerIsoMu24"}
  analysis_weight: {stream: events, branch: "EventWeight"}
analysis:
  stages:
    - id: TriggerSelection
      op: hep.selection.cutflow
      params: {selection: {All: ["analysis_trigger == 1"]}}
    - id: Weight
      op: hep.hist
      params:
        dataset_axis: true
        axes: [{name: w, source: analysis_weight, type: regular, bins: {low: 0, high: 2, nbins: 10}}]
"""
PICTURE = """
      render: {style: dimuon_mass, when: final}
styles:
  base: {op: hep.render.data_mc, figure: {size: [6, 6], dpi: 30}, style: {experiment: CMS},
    data_mc: {data: data, signals: [dy], backgrounds: [], stack: true, ratio: true}}
  dimuon_mass:
    use: base
    with: {axes: {x: {name: dimu_mass, limits: [60, 120]}, y: {name: events, label: Events, scale: log}}}
"""
PLANE = """
    - id: NumberMuons
      op: hep.hist
      params:
        dataset_axis: true
        storage: weighted
        axes:
          - {name: nMuons, type: regular, source: NMuon, bins: {low: 0, high: 5, nbins: 6}}
          - {name: nIsoMuons, type: regular, source: NIsolatedMuon, bins: {low: 0, high: 5, nbins: 6}}
        weight_expr: EventWeight
      render:
        - {style: heatmap, when: final, out: "NumberMuons_heatmap"}
        - {style: proj_x, when: final, out: "NumberMuons_proj.png"}
styles:
  heatmap:
    op: hep.render.heatmap2d
    figure: {size: [6, 6], dpi: 30}
    axes: {x: {name: nMuons}, y: {name: nIsoMuons}, z: {name: events, label: Events, scale: log}}
    heatmap2d: {per_dataset: true, cbar: true}
  proj_x:
    op: hep.render.project
    project:
      axis: nMuons
      keep_dataset: true
      then: {op: hep.render.data_mc, figure: {dpi: 30}, data_mc: {data: data, signals: [dy]}}
"""
KEPT = ["NMuon", "Muon_Px", "Muon_Pt", "IsolatedMuon", "NIsolatedMuon", "HasMuonAbove25", "triggerIsoMu24"]
OUTPUTS = f"outputs:\n  dimuon_candidates: {{tree: events, keep: [{', '.join(KEPT)}]}}\n"

WITH_FILES = (
    ComparedWorkflow(
        "derived columns",
        HEAD
        + FLAGS
        + "      write: {kind: parquet, path: derived, keep: [Muon_Pt, IsolatedMuon, NIsolatedMuon, HasMuonAbove25]}\n"
        + ISOLATED,
        write_samples,
        derived,
        others=BESIDE,
    ),
    ComparedWorkflow("object selections", HEAD + FLAGS + SELECTION, write_samples, cutflows, others=BESIDE),
    ComparedWorkflow("field mapping", HEAD + MAPPED, write_samples, mapped, others=BESIDE),
    ComparedWorkflow("histograms", HEAD + MASS, write_samples, masses, others=BESIDE),
    ComparedWorkflow("rendering", HEAD + MASS + PICTURE, write_samples, masses, others=BESIDE, pictures=3),
    ComparedWorkflow(
        "two-dimensional", HEAD + FLAGS + PLANE, write_samples, two_dimensional, others=BESIDE, pictures=7
    ),
    ComparedWorkflow(
        "cutflow tables",
        HEAD + FLAGS + SELECTION + "        weight_expr: EventWeight\n"
        "      render: {style: {op: hep.render.cutflow_csv}, when: final, out: SelectDimuons.csv}\n",
        write_samples,
        lambda folder: cutflows(folder, weighted=True),
        others=BESIDE,
        pictures=1,
    ),
    ComparedWorkflow(
        "skims",
        HEAD + FLAGS + SELECTION + "      write: [{kind: root_tree, path: dimuons.root, tree: events}]\n",
        write_samples,
        skims,
        others=BESIDE,
    ),
    ComparedWorkflow(
        "column selection",
        HEAD.replace("datasets.yaml", "datasets.yaml, outputs.yaml")
        + FLAGS
        + SELECTION
        + "      write: [{kind: root_tree, path: dimuons.root, use: dimuon_candidates}]\n",
        write_samples,
        lambda folder: skims(folder, KEPT),
        others={**BESIDE, "outputs.yaml": OUTPUTS},
    ),
)
