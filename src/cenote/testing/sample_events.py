"""Make a few events for tests of plugins: particles, event-wide numbers and a plain table, always the same."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np

from cenote.analysis.operations.support.events import DatasetInfo, Events


def sample_events(size: int = 60) -> Events:
    """Muons and jets as lists (`Muon_pt`, …), flags and sums (`HLT_IsoMu24`, `MET_pt`, `weight`), and a table of
    trips (`minutes`, `kilometres`, `speed`, `hour`); one constant, `LUMI`."""
    random = np.random.default_rng(7)
    muons, jets = random.integers(0, 4, size), random.integers(0, 6, size)

    def each(counts: Any, low: float, high: float) -> ak.Array:
        return ak.unflatten(random.uniform(low, high, counts.sum()).astype(np.float32), counts)

    columns: dict[str, Any] = {
        "nMuon": muons,
        "Muon_pt": each(muons, 3, 80),
        "Muon_eta": each(muons, -2.4, 2.4),
        "Muon_phi": each(muons, -3, 3),
        "Muon_mass": each(muons, 0.1, 0.11),
        "Cart_Px": each(muons, -50, 50),
        "Cart_Py": each(muons, -50, 50),
        "Cart_Pz": each(muons, -50, 50),
        "Cart_E": each(muons, 90, 100),
        "nJet": jets,
        "Jet_pt": each(jets, 20, 200),
        "HLT": random.random(size) > 0.5,
        "HLT_IsoMu24": random.random(size) > 0.3,
        "weight": random.uniform(0.5, 1.5, size),
        "MET": random.exponential(90, size),
        "MET_pt": random.exponential(40, size),
        "MET_px": random.normal(0, 30, size),
        "MET_py": random.normal(0, 30, size),
        "minutes": random.uniform(0, 60, size),
        "kilometres": random.uniform(0, 40, size),
        "speed": random.uniform(1, 120, size),
        "hour": random.integers(0, 24, size),
        "Muon_charge": ak.unflatten(random.choice(np.array([-1, 1], np.int32), muons.sum()), muons),
        "Jet_eta": each(jets, -4, 4),
        "Jet_phi": each(jets, -3, 3),
        "MET_phi": random.uniform(-3, 3, size),
        "LHEPdfWeight": each(np.full(size, 9), 0.8, 1.2),
    }
    simulated = DatasetInfo("dy", "mc", metadata={"xs": 6.0})
    return Events(columns, size, simulated, datasets=("data", "dy"), constants={"LUMI": 59.7})


def same_column(left: Any, right: Any) -> bool:
    """Whether two columns are of one type and hold the same values."""
    return type(left) is type(right) and ak.type(left) == ak.type(right) and ak.to_list(left) == ak.to_list(right)
