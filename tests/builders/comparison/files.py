"""Small files of the shapes that FAST-HEP's workflows read; the same seed gives the same events."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

from builders.root_files import VECTORS, Branch, flat, write_root_file

BASKET = 40


def write_tree(path: Path, trees: Mapping[str, Mapping[str, Any]]) -> None:
    """Trees of columns, in baskets of 40 events."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with uproot.recreate(path) as file:
        for name, columns in trees.items():
            file.mktree(name, {column: ak.type(ak.Array(values)).content for column, values in columns.items()})
            size = len(next(iter(columns.values())))
            for start in range(0, size, BASKET):
                file[name].extend({column: values[start : start + BASKET] for column, values in columns.items()})


def write_dimuons(path: Path, events: int, seed: int) -> None:
    """Muons with momenta, energy and isolation, a trigger and a weight: `events`."""
    random = np.random.default_rng(seed)
    counts = random.choice(4, size=events, p=[0.1, 0.2, 0.5, 0.2])
    total = int(counts.sum())
    pt, phi = random.exponential(18, total) + 15, random.uniform(-np.pi, np.pi, total)
    momentum = {"Px": pt * np.cos(phi), "Py": pt * np.sin(phi), "Pz": random.normal(0, 30, total)}
    energy = np.sqrt(sum(part**2 for part in momentum.values()) + 0.10566**2)
    fields = {**momentum, "E": energy, "Iso": random.exponential(2, total), "Charge": random.choice([-1, 1], total)}
    muons = {
        name: ak.unflatten(values.astype("i4" if name == "Charge" else "f4"), counts) for name, values in fields.items()
    }
    columns = {
        "NMuon": counts.astype("i4"),
        **{f"Muon_{name}": values for name, values in muons.items()},
        "triggerIsoMu24": random.random(events) < 0.8,
        "EventWeight": random.normal(1, 0.3, events).astype("f4"),
    }
    write_tree(path, {"events": columns})


def write_trigger(path: Path, events: int, seed: int) -> None:
    """Jets of the trigger and reconstructed ones, in two trees; every other one of these is near one of those."""
    random = np.random.default_rng(seed)
    first, second = random.poisson(2, events), random.poisson(2, events)
    l1 = {
        "Et": random.exponential(40, first.sum()),
        "Eta": random.uniform(-3, 3, first.sum()),
        "Phi": random.uniform(-np.pi, np.pi, first.sum()),
    }
    reco = {
        "etCorr": random.exponential(40, second.sum()),
        "eta": random.uniform(-3, 3, second.sum()),
        "phi": random.uniform(-np.pi, np.pi, second.sum()),
    }
    starts = np.cumsum(first) - first
    for jet, event in enumerate(np.repeat(np.arange(events), second)):
        if jet % 2 and first[event]:
            for own, other in (("eta", "Eta"), ("phi", "Phi")):
                reco[own][jet] = l1[other][starts[event]] + random.normal(0, 0.05)
    reco["etUp"] = reco["etCorr"] * 1.3
    write_tree(
        path,
        {
            "l1UpgradeTree/L1UpgradeTree": {
                f"jet{name}": ak.unflatten(values.astype("f4"), first) for name, values in l1.items()
            },
            "l1JetRecoTree/JetRecoTree": {
                name: ak.unflatten(values.astype("f4"), second) for name, values in reco.items()
            },
        },
    )


def scatters(events: int, seed: int) -> dict[str, Any]:
    """What a detector saw of single scatters."""
    random = np.random.default_rng(seed)
    area = 10 ** random.uniform(3.2, 5.6, events)
    return {
        "nSingleScatters": random.choice([0, 1, 1, 1], events).astype("i4"),
        "s1Area_phd": random.uniform(50, 600, events).astype("f4"),
        "s2Area_phd": area.astype("f4"),
        "correctedS2Area_phd": (area * random.uniform(0.8, 1.4, events)).astype("f4"),
        "correctedX_cm": random.normal(0, 30, events).astype("f4"),
        "correctedY_cm": random.normal(0, 30, events).astype("f4"),
    }


def write_scatters(path: Path, events: int, seed: int) -> None:
    """The branch `ss.` has branches for each of them."""
    below = []
    for name, values in scatters(events, seed).items():
        baskets = [values[start : start + BASKET] for start in range(0, events, BASKET)]
        below.append(flat(f"ss.{name}", values.dtype.str[1:], *baskets))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_root_file(path, {"Scatters": (events, [Branch("ss.", branches=tuple(below))])}, classes=VECTORS)


def write_planets(path: Path, stars: int, seed: int) -> None:
    """A row for each star, with lists of its planets."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(seed)
    counts = random.poisson(2.0, stars)
    letters = [[chr(98 + number) for number in range(count)] for count in counts]
    radius = ak.unflatten(np.round(random.uniform(0.4, 2.5, counts.sum()), 4), counts).to_list()
    period = ak.unflatten(random.exponential(30, counts.sum()), counts).to_list()
    table = pa.table(
        {
            "name": [f"star-{n:03}" for n in range(stars)],
            "planet_name": letters,
            "planet_radius": radius,
            "planet_period": period,
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=BASKET)
