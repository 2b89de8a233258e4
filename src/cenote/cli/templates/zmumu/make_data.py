"""Makes the data of this analysis: Z → μμ and top pairs, and pseudo-data with both. The same numbers every time."""

from pathlib import Path

import awkward as ak
import numpy as np
import uproot

MUON_MASS = 0.10566
DY_EVENTS, TOP_EVENTS = 40_000, 8_000
"""Expected in data; the simulation has three times as many, with weights of a third."""


def write(folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(2024)
    data = ak.concatenate([z_events(random, DY_EVENTS), top_events(random, TOP_EVENTS)])
    data = data[random.permutation(len(data))]
    return [
        *write_dataset(folder, "data", data, weight=1.0, files=2),
        *write_dataset(folder, "dy", z_events(random, 3 * DY_EVENTS), weight=1 / 3, files=2),
        *write_dataset(folder, "ttbar", top_events(random, 3 * TOP_EVENTS), weight=1 / 3, files=1),
    ]


def z_events(random: np.random.Generator, size: int) -> ak.Array:
    """Muon pairs from a boosted resonance of 91.2 GeV, with the resolution of a detector."""
    mass = np.clip(91.19 + 1.25 * np.tan(np.pi * (random.random(size) - 0.5)), 40.0, 200.0)
    pt, rapidity = random.exponential(14.0, size), random.normal(0.0, 1.1, size)
    angle, cosine = random.uniform(-np.pi, np.pi, size), random.uniform(-1, 1, size)
    sine, momentum = np.sqrt(1 - cosine**2), np.sqrt(mass**2 / 4 - MUON_MASS**2)
    own = momentum * np.stack([sine * np.cos(angle), sine * np.sin(angle), cosine])
    boost_energy = np.hypot(mass, pt) * np.cosh(rapidity)
    boost = np.stack([pt, np.zeros(size), np.hypot(mass, pt) * np.sinh(rapidity)])
    muons = []
    for sign in (1, -1):
        along = sign * (own * boost).sum(axis=0)
        moved = sign * own + boost * (along / (mass * (boost_energy + mass)) + 0.5)
        muons.append(moved * random.normal(1.0, 0.012, size))
    return as_events(random, np.stack(muons, axis=2), np.tile([1, -1], (size, 1)))


def top_events(random: np.random.Generator, size: int) -> ak.Array:
    """Two unrelated muons."""
    pt = 12.0 + random.exponential(38.0, (size, 2))
    eta, phi = random.normal(0.0, 1.1, (size, 2)), random.uniform(-np.pi, np.pi, (size, 2))
    momenta = np.stack([pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)])
    charge = np.where(random.random((size, 1)) < 0.9, [[1, -1]], [[1, 1]])
    return as_events(random, momenta, charge)


def as_events(random: np.random.Generator, momenta: np.ndarray, charge: np.ndarray) -> ak.Array:
    """Events with their muons, some of them missed by the detector, hardest first."""
    pt = np.hypot(momenta[0], momenta[1])
    muons = ak.zip(
        {
            "pt": pt.astype(np.float32),
            "eta": np.arcsinh(momenta[2] / pt).astype(np.float32),
            "phi": np.arctan2(momenta[1], momenta[0]).astype(np.float32),
            "mass": np.full(pt.shape, MUON_MASS, dtype=np.float32),
            "charge": charge.astype(np.int32),
        }
    )
    seen = ak.from_regular(muons)[ak.from_regular(ak.Array(random.random(pt.shape) < 0.95))]
    seen = seen[ak.argsort(seen.pt, axis=1, ascending=False)]
    fires = ak.fill_none(ak.max(seen.pt, axis=1) > 24, False)
    return ak.zip({"Muon": seen, "HLT_IsoMu24": fires}, depth_limit=1)


def write_dataset(folder: Path, name: str, events: ak.Array, *, weight: float, files: int) -> list[Path]:
    """Spread the events over several files."""
    paths = []
    for number, part in enumerate(np.array_split(np.arange(len(events)), files)):
        chosen = events[part]
        branches = {
            "Muon": ak.to_packed(chosen.Muon),
            "HLT_IsoMu24": ak.to_numpy(chosen.HLT_IsoMu24),
            "weight": np.full(len(chosen), weight, dtype=np.float32),
        }
        paths.append(folder / f"{name}_{number}.root")
        with uproot.recreate(paths[-1]) as file:
            kinds = {key: getattr(value, "dtype", None) or value.type.content for key, value in branches.items()}
            file.mktree("Events", kinds).extend(branches)
    return paths


if __name__ == "__main__":
    for written in write(Path(__file__).parent / "data"):
        print(written)
