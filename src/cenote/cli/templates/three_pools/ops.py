"""Operations of this analysis: the workflows name this file under `plugins`."""

import awkward as ak
import numpy as np

from cenote import Events, operation


@operation("custom.index", reads=["Muon_pt"], adds=["n_good", "leading_pt"])
def index(events: Events, *, threshold: float = 10.0) -> dict[str, ak.Array]:
    """Count the muons above a threshold and find the hardest one."""
    pt = events["Muon_pt"]
    hardest = ak.fill_none(ak.max(pt, axis=1), 0.0)
    return {"n_good": ak.sum(pt > threshold, axis=1), "leading_pt": hardest}


@operation("custom.build_index", reads=["Muon_pt"], adds=["n_good", "leading_pt"])
def build_index(events: Events, *, threshold: float = 10.0) -> dict[str, ak.Array]:
    """The same under the name that `training.yaml` uses: an operation stays an ordinary function."""
    return index(events, threshold=threshold)


@operation("custom.inference", reads=["leading_pt", "n_good", "MET_pt"], adds=["score"])
class Inference:
    """A very small network. `prepare` runs once per worker: the place to load a model, onto a GPU if there is one."""

    sharpness: float = 1.0
    """How decided the answers are."""

    def prepare(self) -> None:
        """Make the weights; a real analysis would load a file."""
        self.weights = self.sharpness * np.array([1.5, 0.8, 1.3])

    def run(self, events: Events) -> dict[str, np.ndarray]:
        """One score between 0 and 1 per event."""
        inputs = np.stack(
            [
                np.log1p(np.asarray(events["leading_pt"])) - 3.6,
                np.asarray(events["n_good"]) - 1.4,
                np.log1p(np.asarray(events["MET_pt"])) - 3.4,
            ],
            axis=1,
        )
        return {"score": 1.0 / (1.0 + np.exp(-inputs @ self.weights))}


@operation("custom.train", reads=["leading_pt", "n_good", "MET_pt"], scope="run", product="model")
def train(events: Events) -> dict[str, list[float]]:
    """Learn to guess the missing momentum from the muons, from the events of all datasets in one call."""
    pt, count = np.asarray(events["leading_pt"]), np.asarray(events["n_good"])
    inputs = np.stack([np.ones(len(events)), pt, count], axis=1)
    weights, *_ = np.linalg.lstsq(inputs, np.asarray(events["MET_pt"]), rcond=None)
    return {"weights": [round(float(weight), 6) for weight in weights]}
