"""Makes the data of this analysis: events with a few muons each. The same numbers every time."""

from pathlib import Path

import awkward as ak
import numpy as np
import uproot

EVENTS, FILES = 20_000, 2
HARDNESS = {"background": 1.0, "signal": 1.8}
"""Of muons and missing momentum, compared to the background."""


def write(folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed, (name, hardness) in enumerate(HARDNESS.items()):
        for number in range(FILES):
            paths.append(folder / f"{name}_{number}.root")
            write_file(paths[-1], np.random.default_rng([seed, number]), hardness)
    return paths


def write_file(path: Path, random: np.random.Generator, hardness: float) -> None:
    """Write one file."""
    counts = 1 + random.poisson(0.5 * hardness, EVENTS)
    muons = ak.zip(
        {
            "pt": ak.unflatten((3.0 + random.exponential(18.0 * hardness, counts.sum())).astype(np.float32), counts),
            "eta": ak.unflatten(random.normal(0.0, 1.2, counts.sum()).astype(np.float32), counts),
        }
    )
    met = random.gamma(2.0, 12.0 * hardness, EVENTS).astype(np.float32)
    with uproot.recreate(path) as file:
        tree = file.mktree("Events", {"Muon": muons.type.content, "MET_pt": met.dtype})
        tree.extend({"Muon": muons, "MET_pt": met})


if __name__ == "__main__":
    for written in write(Path(__file__).parent / "data"):
        print(written)
