"""Workflows of the kinds that FAST-HEP's tutorials have, of events that are generated as they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

from builders.comparison.by_hand import ComparedWorkflow, Numbers, counted, filled, per_element
from cenote.analysis.sources.workshop.toy_source import WorkshopToySource

CHUNKS = (10_000, 100_000)


def toy(process: str, events: int, seed: int, *names: str) -> dict[str, Any]:
    columns = [*names, "Muon_Px", "Muon_Py", "EventWeight"]
    found: dict[str, Any] = WorkshopToySource(nevents=events, seed=seed).read(f"toy://{process}", columns, 0, events)
    return found | {"Muon_Pt": np.sqrt(found["Muon_Px"] ** 2 + found["Muon_Py"] ** 2)}


def first_numbers(_: Path) -> Numbers:
    return {"MuonPt": filled([(ak.flatten(toy("dy", 25_000, 1729)["Muon_Pt"]), (60, 0, 120))])}


FIRST = """
version: 1.0
use:
  profiles:
    - hep_debug
    - fasthep_workshop:registry
data:
  datasets:
    - {name: toy, eventtype: mc, nevents: 25000, files: [toy://dy]}
  defaults: {eventtype: mc, tree_primary: events}
sources:
  events:
    kind: workshop.toy_source
    stream_type: event_stream
    nevents: 25000
    seed: 1729
    dataset: toy
    eventtype: mc
    weight: 1.0
styles:
  muon_pt:
    op: hep.render.hist1d
    figure: {size: [8, 6], dpi: 30}
    axes:
      x: {name: Muon_Pt, label: "Muon $p_T$ [GeV]", limits: [0, 120]}
      y: {name: events, label: Events, scale: linear}
analysis:
  stages:
    - id: BasicVars
      op: hep.define
      params: {variables: [{name: Muon_Pt, expr: "sqrt(Muon_Px ** 2 + Muon_Py ** 2)"}]}
    - id: MuonPt
      op: hep.hist
      params:
        axes:
          - name: Muon_Pt
            source: Muon_Pt
            type: regular
            bins: {low: 0, high: 120, nbins: 60}
      render: {style: muon_pt, when: final, out: MuonPt.png}
"""


SYSTEMATICS = """
version: 1.0
use: {profiles: [hep_debug, "fasthep_workshop:registry"]}
data:
  datasets:
    - {name: toy, eventtype: mc, files: [toy://dy]}
    - {name: toy_alt, eventtype: mc, files: [toy://ttbar]}
    - {name: observed, eventtype: data, files: [toy://data]}
sources:
  events: {kind: workshop.toy_source, stream_type: event_stream, nevents: 12000, seed: 1729, event_weight: 0.7}
systematics:
  include_nominal: true
  variations:
    - name: trigger_eff_up
      group: trigger_eff
      direction: up
      applies_to: mc
      requires: [stage.BasicVars, MET]
      weight: {multiply: TriggerEffWeight_up}
    - name: muon_pt_scale_up
      group: muon_pt_scale
      direction: up
      applies_to: mc
      replace: {Muon_Pt: Muon_Pt_scale_up}
    - name: dataset_alt
      group: dataset_replacement
      direction: alt
      applies_to: {datasets: [toy]}
      datasets: {replace: {toy: toy_alt}}
analysis:
  stages:
    - id: BasicVars
      op: hep.define
      params:
        variables:
          - {name: Muon_Pt, expr: "sqrt(Muon_Px ** 2 + Muon_Py ** 2)"}
          - {name: Muon_Pt_scale_up, expr: "1.05 * sqrt(Muon_Px ** 2 + Muon_Py ** 2)"}
          - {name: TriggerEffWeight_up, expr: "1.05 - MET / 10000"}
    - id: Hard
      op: hep.selection.cutflow
      params: {selection: {All: [{reduce: {op: any, over: "Muon_Pt > 40"}}]}}
    - id: MuonPt
      op: hep.hist
      params:
        dataset_axis: true
        axes:
          - {name: Muon_Pt, source: Muon_Pt, type: regular, bins: {low: 0, high: 120, nbins: 60}}
        weight_expr: EventWeight
"""


def varied(_: Path) -> Numbers:
    """Every variation of both datasets: what real events give is never varied."""
    found: Numbers = {}
    sets = {"toy": ("dy", 0.7), "observed": ("data", 1.0)}
    for name, (process, weight) in sets.items():
        for variation in ("nominal", "trigger_eff_up", "muon_pt_scale_up", "dataset_alt"):
            is_varied = name == "toy"
            chosen = "ttbar" if is_varied and variation == "dataset_alt" else process
            columns = toy(chosen, 12_000, 1729, "MET")
            pt = columns["Muon_Pt"] * (1.05 if is_varied and variation == "muon_pt_scale_up" else 1.0)
            factor = 1.05 - columns["MET"] / 10000 if is_varied and variation == "trigger_eff_up" else 1.0
            kept = ak.any(pt > 40, axis=1)
            weights = (np.full(len(kept), weight) * factor)[kept]
            values, each = per_element(pt[kept], weights)
            found[f"MuonPt/{name}/{variation}"] = filled([(values, (60, 0, 120))], each)
            if variation == "nominal":
                found |= counted(f"Hard/{name}/All", [kept])
    return found


DATA_AND_MC = """
version: 1.0
use: {profiles: [hep_debug, "fasthep_workshop:registry"]}
data:
  datasets:
    - {name: data, eventtype: data, files: [toy://data], nevents: 11000}
    - {name: ttbar, eventtype: mc, files: [toy://ttbar], nevents: 12000}
sources:
  events: {kind: workshop.toy_source, stream_type: event_stream, nevents: 12000, seed: 2601}
analysis:
  stages:
    - id: MuonColumns
      op: hep.define
      params: {variables: [{name: Muon_Pt, expr: "sqrt(Muon_Px ** 2 + Muon_Py ** 2)"}]}
    - id: MuonPt
      op: hep.hist
      params:
        dataset_axis: true
        axes: [{name: Muon_Pt, source: Muon_Pt, type: regular, bins: {low: 0, high: 180, nbins: 60}}]
    - id: MCLeptonColumns
      op: hep.define
      applies_to: {eventtype: mc}
      params: {variables: [{name: MCLepton_Pt, expr: "sqrt(MCLepton_Px ** 2 + MCLepton_Py ** 2)"}]}
    - id: MCLeptonPt
      op: hep.hist
      applies_to: {eventtype: mc}
      params: {axes: [{name: MCLepton_Pt, source: MCLepton_Pt, type: regular, bins: {low: 0, high: 180, nbins: 60}}]}
      render: {op: hep.render.hist1d, figure: {dpi: 30}, when: dataset, out: MCLeptonPt.png}
"""


def data_and_mc(_: Path) -> Numbers:
    real, simulated = toy("data", 11_000, 2601), toy("ttbar", 12_000, 2601, "MCLepton_Px", "MCLepton_Py")
    lepton = np.sqrt(simulated["MCLepton_Px"] ** 2 + simulated["MCLepton_Py"] ** 2)
    return {
        "MuonPt/data": filled([(ak.flatten(real["Muon_Pt"]), (60, 0, 180))]),
        "MuonPt/ttbar": filled([(ak.flatten(simulated["Muon_Pt"]), (60, 0, 180))]),
        "MCLeptonPt": filled([(ak.flatten(lepton), (60, 0, 180))]),
    }


NEEDS = """
version: 1.0
use: {profiles: [hep_debug, "fasthep_workshop:registry"]}
data:
  datasets:
    - {name: toy, eventtype: mc, files: [toy://dy], nevents: 12000}
sources:
  events: {kind: workshop.toy_source, stream_type: event_stream, nevents: 12000, seed: 2602}
analysis:
  stages:
    - id: Prepare
      op: hep.define
      params: {variables: [{name: Muon_Pt, expr: "sqrt(Muon_Px ** 2 + Muon_Py ** 2)"}]}
    - id: BranchA
      op: hep.define
      from: Prepare
      needs: [Prepare]
      params: {variables: [{name: LeadingMuonPt, expr: "leading(Muon_Pt)"}]}
    - id: BranchB
      op: hep.define
      from: Prepare
      needs: [Prepare]
      params: {variables: [{name: Jet_Pt, expr: "sqrt(Jet_Px ** 2 + Jet_Py ** 2)"}]}
    - id: Combine
      op: hep.define
      from: BranchA
      needs: [BranchA, BranchB]
      params:
        variables:
          - {name: SummaryScore, expr: "LeadingMuonPt + MET"}
          - {name: Ht, reduce: {op: sum, over: Jet_Pt}}
    - id: Score
      op: hep.hist
      params:
        axes:
          - {name: score, source: SummaryScore, type: regular, bins: {low: 0, high: 1500, nbins: 30}}
          - {name: ht, source: Ht, type: regular, bins: {low: 0, high: 3000, nbins: 30}}
    - id: IndependentAudit
      op: hep.define
      from: events
      needs: []
      params: {variables: [{name: EventNumberCopy, expr: "EventNumber"}]}
    - id: Audit
      op: hep.hist
      params: {axes: [{name: number, source: EventNumberCopy, type: regular, bins: {low: 0, high: 12000, nbins: 7}}]}
"""


def needed(_: Path) -> Numbers:
    events = toy("dy", 12_000, 2602, "MET", "Jet_Px", "Jet_Py", "EventNumber")
    leading = ak.fill_none(ak.firsts(events["Muon_Pt"]), 0.0)
    ht = ak.sum(np.sqrt(events["Jet_Px"] ** 2 + events["Jet_Py"] ** 2), axis=1)
    return {
        "Score": filled([(leading + events["MET"], (30, 0, 1500)), (ht, (30, 0, 3000))]),
        "Audit": filled([(events["EventNumber"], (7, 0, 12000))]),
    }


GENERATED = (
    ComparedWorkflow("first workflow", FIRST, lambda _: None, first_numbers, CHUNKS, pictures=2),
    ComparedWorkflow("systematics", SYSTEMATICS, lambda _: None, varied, CHUNKS),
    ComparedWorkflow("data and MC", DATA_AND_MC, lambda _: None, data_and_mc, CHUNKS, pictures=2),
    ComparedWorkflow("needs", NEEDS, lambda _: None, needed, CHUNKS),
)
