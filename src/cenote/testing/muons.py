"""Make small ROOT files with muons, for tests and examples: the same seed gives the same events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot
from numpy.typing import NDArray


def write_muons(path: Path, *, events: int, seed: int = 1, tree: str = "events", weighted: bool = False) -> Path:
    """A TTree with jagged `Muon_pt/eta/phi/mass/charge`, `nMuon`, `MET_pt`, `HLT`, `EventWeight`, baskets of 500."""
    random = np.random.default_rng(seed)
    counts = random.poisson(1.8, events)
    total = int(counts.sum())

    def per_muon(values: NDArray[Any], kind: str = "f4") -> ak.Array:
        return ak.unflatten(values.astype(kind), counts)

    columns = {
        "Muon_pt": per_muon(random.exponential(25.0, total) + 3.0),
        "Muon_eta": per_muon(random.uniform(-2.5, 2.5, total)),
        "Muon_phi": per_muon(random.uniform(-np.pi, np.pi, total)),
        "Muon_mass": per_muon(np.full(total, 0.10566)),
        "Muon_charge": per_muon(random.choice([-1, 1], total), "i4"),
        "MET_pt": random.exponential(30.0, events).astype("f4"),
        "HLT": random.random(events) < 0.8,
        "EventWeight": (random.normal(1.0, 0.3, events) if weighted else np.ones(events)).astype("f4"),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with uproot.recreate(path) as file:
        muons = ak.zip({name.split("_")[1]: columns[name] for name in columns if name.startswith("Muon_")})
        rest = {name: column for name, column in columns.items() if not name.startswith("Muon_")}
        file.mktree(tree, {"Muon": muons.type, **{name: column.dtype for name, column in rest.items()}})
        for start in range(0, events, 500):
            stop = start + 500
            file[tree].extend({"Muon": muons[start:stop], **{n: c[start:stop] for n, c in rest.items()}})
    return path
