"""A study of a trigger: two trees of each file, joined event by event, with objects that are matched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

from builders.comparison.by_hand import ComparedWorkflow, Numbers, counted, filled
from builders.comparison.files import write_trigger

PROFILES = """
use:
  profiles:
    - registry
    - fasthep_carpenter:registry
    - fasthep_curator:registry
    - fasthep_render:registry
    - fasthep_workshop:registry
"""
TRIGGER = f"""
version: 4.0
{PROFILES}
data:
  datasets:
    - name: l1t
      files:
        - data/CMS/L1Trigger/2k.root
        - data/CMS/L1Trigger/2kmu.root
  defaults: {{eventtype: mc}}
sources:
  l1: {{kind: root_tree, tree: l1UpgradeTree/L1UpgradeTree, stream_type: event_stream}}
  reco: {{kind: root_tree, tree: l1JetRecoTree/JetRecoTree, stream_type: event_stream}}
joins:
  events:
    kind: zip
    on_mismatch: warn
    inputs:
      - {{source: l1,   prefix: l1}}
      - {{source: reco, prefix: reco}}
primary_stream: events
fields:
  l1_jetEt:   {{stream: events, branch: "l1.jetEt"}}
  l1_jetEta:  {{stream: events, branch: "l1.jetEta"}}
  l1_jetPhi:  {{stream: events, branch: "l1.jetPhi"}}
  reco_jetEtCorr: {{stream: events, branch: "reco.etCorr"}}
  reco_jetEtUp:   {{stream: events, branch: "reco.etUp"}}
  reco_jetEta:    {{stream: events, branch: "reco.eta"}}
  reco_jetPhi:    {{stream: events, branch: "reco.phi"}}
observers:
  - {{kind: hep.schema_snapshot, at: [join.events, project.events, stage.MatchJets], out: schema}}
systematics:
  variations:
    - {{name: jes_up, replace: {{reco_jetEtCorr: reco_jetEtUp}}}}
analysis:
  stages:
    - id: MatchJets
      op: cms.match_l1t_jets
      params:
        reco: {{et: reco_jetEtCorr, eta: reco_jetEta, phi: reco_jetPhi}}
        l1: {{et: l1_jetEt, eta: l1_jetEta, phi: l1_jetPhi}}
        dr_max: 0.4
    - id: HasMatch
      op: hep.selection.cutflow
      from: MatchJets
      params: {{selection: {{All: ["n_matched >= 1"]}}}}
    - id: NoMatch
      op: hep.selection.cutflow
      from: MatchJets
      params: {{selection: {{All: ["n_matched == 0"]}}}}
    - id: H_MatchedEt
      op: hep.hist
      from: HasMatch
      params:
        dataset_axis: true
        axes:
          - {{name: reco_et, type: regular, source: matched_reco_et, bins: {{low: 0, high: 100, nbins: 10}}}}
          - {{name: l1_et,   type: regular, source: matched_l1_et,   bins: {{low: 0, high: 100, nbins: 10}}}}
    - id: H_unmatched_dR
      op: hep.hist
      from: NoMatch
      params:
        dataset_axis: true
        axes:
          - {{name: unmatched_dR, type: regular, source: unmatched_dr, bins: {{low: 0, high: 4, nbins: 40}}}}
"""


def write_l1t(folder: Path) -> None:
    for seed, name in enumerate(("2k", "2kmu")):
        write_trigger(folder / f"data/CMS/L1Trigger/{name}.root", 200, seed)


def nearest(reco: Any, l1: Any, energy: Any) -> tuple[list[tuple[float, float]], list[float]]:
    """Transverse energies of reconstructed jets and their nearest ones of the trigger, and distances of the others."""
    matched, distances = [], []
    for jet in range(len(energy)):
        turn = np.abs(float(reco.phi[jet]) - np.asarray(l1.jetPhi, dtype=float))
        apart = np.hypot(float(reco.eta[jet]) - np.asarray(l1.jetEta, dtype=float), np.minimum(turn, 2 * np.pi - turn))
        if apart.min() <= 0.4:
            matched.append((energy[jet], l1.jetEt[apart.argmin()]))
        else:
            distances.append(float(apart.min()))
    return matched, distances


def matches(folder: Path, column: str) -> tuple[Any, Any, Any]:
    """How many each event has, the energies of each pair, and distances in events without any."""
    pairs: list[tuple[float, float]] = []
    alone: list[float] = []
    counts = []
    for name in ("2k", "2kmu"):
        file = uproot.open(folder / f"data/CMS/L1Trigger/{name}.root")
        trees = (file[tree].arrays() for tree in ("l1JetRecoTree/JetRecoTree", "l1UpgradeTree/L1UpgradeTree"))
        for reco, l1 in zip(*trees, strict=True):
            if len(l1.jetEt) and ak.any(reco[column] > 20):
                matched, distances = nearest(reco, l1, reco[column])
                counts.append(len(matched))
                pairs += matched
                alone += [] if matched else distances
    return np.array(counts), np.array(pairs), np.array(alone)


def l1t(folder: Path) -> Numbers:
    found: Numbers = {}
    for variation, column in {"jes_up": "etUp", "nominal": "etCorr"}.items():
        counts, pairs, alone = matches(folder, column)
        bins = (10, 0, 100)
        found[f"H_MatchedEt/l1t/{variation}"] = filled([(pairs[:, 0], bins), (pairs[:, 1], bins)])
        found[f"H_unmatched_dR/l1t/{variation}"] = filled([(alone, (40, 0, 4))])
    return found | counted("HasMatch/l1t/All", [counts >= 1]) | counted("NoMatch/l1t/All", [counts == 0])


TRIGGER_STUDY = ComparedWorkflow("trigger study", TRIGGER, write_l1t, l1t)
