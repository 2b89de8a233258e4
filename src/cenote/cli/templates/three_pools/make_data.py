"""Makes the data of this analysis, events with a few muons each, and its model. The same numbers every time."""

from pathlib import Path

import awkward as ak
import numpy as np
import onnx.parser
import uproot

EVENTS, FILES = 20_000, 2
HARDNESS = {"background": 1.0, "signal": 1.8}
"""Of muons and missing momentum, compared to the background."""
MODEL = """
<ir_version: 8, opset_import: ["": 17]>
score_of_events (float[N, 3] features) => (float[N, 1] score)
<float[1] one = {1.0}, float[3] centre = {3.6, 0.9, 3.4}, float[3, 1] weights = {1.5, 1.9, 1.3}>
{
    above_zero = Add(features, one)
    logarithms = Log(above_zero)
    centred = Sub(logarithms, centre)
    sum = MatMul(centred, weights)
    score = Sigmoid(sum)
}
"""
"""A very small network in ONNX's own language: how much an event looks like signal, from 0 to 1."""


def write(folder: Path) -> list[Path]:
    """Write the files, and the model beside the folder, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder.parent / "model.onnx"]
    paths[0].write_bytes(onnx.parser.parse_model(MODEL).SerializeToString())
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
