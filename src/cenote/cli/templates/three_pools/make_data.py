"""Makes the data of this analysis: events with a few muons each. The same numbers every time."""

from pathlib import Path

import awkward as ak
import numpy as np
import uproot

EVENTS = 20_000
FILES = 4


def write(folder: Path) -> list[Path]:
    """Write the files and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    return [write_file(folder / f"muons_{number}.root", seed=number) for number in range(FILES)]


def write_file(path: Path, *, seed: int) -> Path:
    """Write one file."""
    random = np.random.default_rng(seed)
    counts = random.poisson(1.6, EVENTS)
    muons = ak.zip(
        {
            "pt": ak.unflatten((3.0 + random.exponential(22.0, counts.sum())).astype(np.float32), counts),
            "eta": ak.unflatten(random.normal(0.0, 1.2, counts.sum()).astype(np.float32), counts),
        }
    )
    met = random.exponential(25.0, EVENTS).astype(np.float32)
    with uproot.recreate(path) as file:
        tree = file.mktree("Events", {"Muon": muons.type.content, "MET_pt": met.dtype})
        tree.extend({"Muon": muons, "MET_pt": met})
    return path


if __name__ == "__main__":
    for written in write(Path(__file__).parent / "data"):
        print(written)
