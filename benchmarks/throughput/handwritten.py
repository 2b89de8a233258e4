"""The analysis written by hand, a loop of uproot, awkward and hist: the floor to compare with."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import uproot

COLUMNS = [
    "genWeight",
    "MET_pt",
    "HLT_IsoMu24",
    "Muon_pt",
    "Muon_eta",
    "Muon_Px",
    "Muon_Py",
    "Muon_Pz",
    "Muon_E",
    "Jet_pt",
]
STEP = 100_000

Events = Any  # awkward and hist publish no types
Histogram = Any


def run(files: list[Path]) -> tuple[dict[str, Histogram], dict[str, list[float]]]:
    """Histograms by name, and the cutflow as label → [events, sum of weights]."""
    histograms = {
        "met": hist.Hist.new.Reg(100, 0, 200, name="met").Weight(),
        "jet_pt": hist.Hist.new.Reg(100, 15, 215, name="pt").Weight(),
        "mass": hist.Hist.new.Reg(120, 0, 240, name="mass").Weight(),
    }
    cutflow: dict[str, list[float]] = {label: [0, 0.0] for label in ("all", "trigger", "two muons")}
    for file in files:
        with uproot.open(file) as opened:
            for events in opened["Events"].iterate(COLUMNS, step_size=STEP):
                analyse(events, histograms, cutflow)
    return histograms, cutflow


def analyse(events: Events, histograms: dict[str, Histogram], cutflow: dict[str, list[float]]) -> None:
    """One chunk."""
    weight = events.genWeight
    histograms["met"].fill(events.MET_pt, weight=weight)

    two_jets = ak.sum(events.Jet_pt > 30, axis=1) >= 2
    jets = events.Jet_pt[two_jets]
    jet_weight = ak.broadcast_arrays(weight[two_jets], jets)[0]
    histograms["jet_pt"].fill(ak.flatten(jets), weight=ak.flatten(jet_weight))

    good = (events.Muon_pt > 20) & (abs(events.Muon_eta) < 2.4)
    triggered = events.HLT_IsoMu24
    passed = triggered & (ak.sum(good, axis=1) >= 2)
    for label, mask in (("all", np.ones(len(events), bool)), ("trigger", triggered), ("two muons", passed)):
        cutflow[label][0] += int(ak.sum(mask))
        cutflow[label][1] += float(np.sum(np.asarray(weight[mask]), dtype=np.float64))

    chosen = good[passed]
    muons = [events[f"Muon_{name}"][passed][chosen] for name in ("Px", "Py", "Pz", "E")]
    leading, second = ([np.asarray(component[:, place], np.float64) for component in muons] for place in (0, 1))
    px, py, pz, energy = (one + other for one, other in zip(leading, second, strict=True))
    squared = energy**2 - px**2 - py**2 - pz**2
    histograms["mass"].fill(np.sqrt(np.maximum(squared, 0)), weight=weight[passed])


def save(path: Path, histograms: dict[str, Histogram], cutflow: dict[str, list[float]]) -> None:
    """What run.py compares: values and variances with under- and overflow."""
    found = {
        name: {"values": one.values(flow=True).tolist(), "variances": one.variances(flow=True).tolist()}
        for name, one in histograms.items()
    }
    path.write_text(json.dumps({"histograms": found, "cutflow": cutflow}))


def main() -> None:
    """`python handwritten.py OUT.json FILE…`."""
    parser = argparse.ArgumentParser(description="The analysis as a loop written by hand.")
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    chosen = parser.parse_args()
    save(chosen.out, *run(chosen.files))


if __name__ == "__main__":
    main()
