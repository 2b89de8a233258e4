"""Write NanoAOD-like ROOT files, always the same: jagged objects, MET, trigger flags, weights."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot

Arrays = dict[str, Any]  # Any: numpy or awkward, and awkward publishes no types

KINDS = ("few", "narrow", "wide")
"""Of files: only the branches that handwritten.py reads (and their counters), about 80 branches, about 870."""
CODECS = {"zstd": uproot.ZSTD(5), "lz4": uproot.LZ4(4), "zlib": uproot.ZLIB(1), "lzma": uproot.LZMA(1)}
FEW = {
    "genWeight": None,
    "MET_pt": None,
    "HLT_IsoMu24": None,
    "Muon": ["pt", "eta", "Px", "Py", "Pz", "E"],
    "Jet": ["pt"],
}
"""Branches of the kind `few`, and of collections the fields."""
MUON_FLAGS = ("looseId", "mediumId", "tightId", "isGlobal", "isTracker")
MUON_FLOATS = ("dxy", "dz", "pfRelIso03_all", "pfRelIso04_all", "ptErr")
ELECTRON_FLOATS = ("dxy", "dz", "pfRelIso03_all", "mvaIso", "r9", "sieie", "hoe")
JET_FLOATS = ("area", "btagDeepB", "btagDeepFlavB", "chHEF", "neHEF", "chEmEF", "neEmEF", "rawFactor", "qgl")
TRIGGERS = (
    "IsoMu24",
    "IsoMu27",
    "Ele32_WPTight_Gsf",
    "PFMET120_PFMHT120_IDTight",
    "PFHT1050",
    "PFJet500",
    "AK8PFJet400",
)


@dataclass(frozen=True)
class Make:
    """What is in a file, but for its random numbers."""

    kind: str
    events: int
    basket: int
    """Events per basket."""
    codec: str = "zstd"

    @property
    def name(self) -> str:
        """The beginning of the names of such files."""
        return f"{self.kind}-{self.codec}-{self.events}-{self.basket}"


def generate(folder: Path, make: Make, *, files: int, distinct: int | None = None, seed: int = 1) -> list[Path]:
    """Write so many files; existing ones of the same make are kept. Those after the first `distinct` are links."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{make.name}-{number:03}.root" for number in range(files)]
    for number, path in enumerate(paths):
        if path.exists():
            continue
        unfinished = path.with_suffix(".part")
        if distinct and number >= distinct:
            unfinished.hardlink_to(paths[number % distinct])
        else:
            write(unfinished, make, seed=seed * 1000 + number)
        unfinished.rename(path)
    return paths


def write(path: Path, make: Make, *, seed: int) -> None:
    """One file with the tree `Events`."""
    random = np.random.default_rng(seed)
    with uproot.recreate(path, compression=CODECS[make.codec]) as file:
        first = columns(random, min(make.basket, make.events), kind=make.kind, start=0)
        tree = file.mktree("Events", {name: _type(array) for name, array in first.items()})
        if make.events:
            tree.extend(first)
        for start in range(make.basket, make.events, make.basket):
            tree.extend(columns(random, min(make.basket, make.events - start), kind=make.kind, start=start))


def columns(random: np.random.Generator, size: int, *, kind: str, start: int) -> Arrays:
    """The columns of `size` events."""
    wide = kind == "wide"
    arrays: Arrays = {
        "run": np.full(size, 362104, np.uint32),
        "luminosityBlock": np.arange(start, start + size, dtype=np.uint32) // 1000,
        "event": np.arange(start, start + size, dtype=np.uint64),
        "genWeight": _low_precision(random.normal(1.0, 0.1, size)),
        "Pileup_nTrueInt": _low_precision(random.normal(35, 8, size)),
        "PV_npvs": random.poisson(32, size).astype(np.int32),
        "MET_pt": _low_precision(random.exponential(30, size)),
        "MET_phi": _low_precision(random.uniform(-np.pi, np.pi, size)),
        "MET_sumEt": _low_precision(random.exponential(1200, size)),
        "MET_significance": _low_precision(random.exponential(2, size)),
    }
    arrays |= {f"HLT_{name}": random.random(size) < 0.3 for name in TRIGGERS}
    arrays |= {f"L1_Seed{number}": random.random(size) < 0.02 for number in range(600 if wide else 12)}
    arrays |= {f"Flag_filter{number}": random.random(size) < 0.99 for number in range(60 if wide else 6)}
    arrays["Muon"] = _muons(random, size)
    arrays["Electron"] = _leptons(random, size, mean=0.7, floats=ELECTRON_FLOATS, mass=0.000511)
    arrays["Jet"] = _jets(random, size, extra=80 if wide else 0)
    if wide:
        arrays["Tau"] = _leptons(random, size, mean=0.4, floats=tuple(f"id{n}" for n in range(60)), mass=1.777)
    return arrays if kind != "few" else {name: _fields(arrays[name], fields) for name, fields in FEW.items()}


def _fields(array: Any, names: list[str] | None) -> Any:
    return array if names is None else array[names]


def _leptons(random: np.random.Generator, size: int, *, mean: float, floats: tuple[str, ...], mass: float) -> ak.Array:
    counts = random.poisson(mean, size)
    total = int(counts.sum())
    fields: Arrays = {
        "pt": _low_precision(3 + random.exponential(22, total)),
        "eta": _low_precision(random.uniform(-2.7, 2.7, total)),
        "phi": _low_precision(random.uniform(-np.pi, np.pi, total)),
        "mass": np.full(total, mass, np.float32),
        "charge": (random.integers(0, 2, total) * 2 - 1).astype(np.int32),
    }
    fields |= {name: _low_precision(random.normal(0, 1, total)) for name in floats}
    return ak.zip({name: ak.unflatten(values, counts) for name, values in fields.items()})


def _muons(random: np.random.Generator, size: int) -> ak.Array:
    """With Cartesian components beside pt, eta, phi: the ones that `hep.di_object_mass` asks for."""
    muons = _leptons(random, size, mean=1.1, floats=MUON_FLOATS, mass=0.10566)
    px, py, pz = muons.pt * np.cos(muons.phi), muons.pt * np.sin(muons.phi), muons.pt * np.sinh(muons.eta)
    energy = np.sqrt(px**2 + py**2 + pz**2 + muons.mass**2)
    for name, values in {"Px": px, "Py": py, "Pz": pz, "E": energy}.items():
        muons[name] = ak.values_astype(values, np.float32)
    counts = ak.num(muons.pt)
    for name in MUON_FLAGS:
        muons[name] = ak.unflatten(random.random(int(ak.sum(counts))) < 0.8, counts)
    return muons


def _jets(random: np.random.Generator, size: int, *, extra: int) -> ak.Array:
    names = JET_FLOATS + tuple(f"extra{number}" for number in range(extra))
    jets = _leptons(random, size, mean=4.2, floats=names, mass=10.0)
    del jets["charge"]
    jets["pt"] = jets.pt + np.float32(12)
    return jets


def _low_precision(values: Any) -> Any:
    """As experiments store floats: 10 bits of mantissa, so that compression has something to do."""
    stored = values.astype(np.float32)
    return (stored.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def _type(array: Any) -> Any:
    return array.type.content if isinstance(array, ak.Array) else array.dtype


def main() -> None:
    """`python generate.py FOLDER --files 8 --events 250000`."""
    parser = argparse.ArgumentParser(description="Write NanoAOD-like ROOT files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--distinct", type=int, help="only so many are written, the others are links to them")
    parser.add_argument("--events", type=int, default=250_000, help="per file")
    parser.add_argument("--basket", type=int, default=50_000, help="events per basket")
    parser.add_argument("--kind", choices=KINDS, default="narrow", help="how many branches")
    parser.add_argument("--codec", choices=CODECS, default="zstd")
    chosen = parser.parse_args()
    make = Make(chosen.kind, chosen.events, chosen.basket, chosen.codec)
    for path in generate(chosen.folder, make, files=chosen.files, distinct=chosen.distinct):
        print(path)


if __name__ == "__main__":
    main()
