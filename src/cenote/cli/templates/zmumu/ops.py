"""Operations of this analysis: the workflow names this file under `plugins`."""

import awkward as ak
import numpy as np

from cenote import Events, operation


def columns(*, collection: str = "Muon") -> list[str]:
    """What `custom.pair` reads depends on its settings."""
    return [f"{collection}_{field}" for field in ("pt", "eta", "phi", "mass", "charge")]


@operation("custom.pair", reads=columns, adds=["pair_mass", "pair_pt", "pair_charge"])
def pair(events: Events, *, collection: str = "Muon") -> dict[str, np.ndarray]:
    """Mass, transverse momentum and charge of the two hardest objects; NaN where there are fewer."""
    pt, eta, phi, mass, charge = (first_two(events[name]) for name in columns(collection=collection))
    px, py, pz = pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
    energy = np.sqrt(px**2 + py**2 + pz**2 + mass**2)
    total = [component.sum(axis=1) for component in (px, py, pz, energy)]
    squared = total[3] ** 2 - total[0] ** 2 - total[1] ** 2 - total[2] ** 2
    return {
        "pair_mass": np.sqrt(np.maximum(squared, 0.0)),
        "pair_pt": np.hypot(total[0], total[1]),
        "pair_charge": charge.sum(axis=1),
    }


def first_two(column: ak.Array) -> np.ndarray:
    """The first two values of every event as two columns."""
    padded = ak.fill_none(ak.pad_none(column, 2, clip=True), np.nan)
    return ak.to_numpy(padded).astype(np.float64)
