"""Operations of this analysis: the workflow names this file under `plugins`."""

import awkward as ak
import numpy as np

from cenote import Events, operation


@operation("custom.build_index", reads=["Muon_pt"], adds=["n_good", "leading_pt"])
def build_index(events: Events, *, threshold: float = 10.0) -> dict[str, ak.Array]:
    """Count the muons above a threshold and find the hardest one."""
    pt = events["Muon_pt"]
    hardest = ak.fill_none(ak.max(pt, axis=1), 0.0)
    return {"n_good": ak.sum(pt > threshold, axis=1), "leading_pt": hardest}


@operation("custom.inference", reads=["leading_pt", "n_good", "MET_pt"], adds=["score"])
class Inference:
    """A small neural network. `prepare` runs once per worker: the place to load a model onto a GPU."""

    hidden: int = 16
    """Neurons of the hidden layer."""

    def prepare(self) -> None:
        """Make the weights; a real analysis would load a file."""
        random = np.random.default_rng(7)
        self.first = random.normal(size=(3, self.hidden))
        self.second = random.normal(size=self.hidden) / np.sqrt(self.hidden)

    def run(self, events: Events) -> dict[str, np.ndarray]:
        """One score between 0 and 1 per event."""
        inputs = np.stack(
            [
                np.asarray(events["leading_pt"]) / 50.0 - 1.0,
                np.asarray(events["n_good"]) - 1.5,
                np.asarray(events["MET_pt"]) / 30.0 - 1.0,
            ],
            axis=1,
        )
        activity = np.tanh(inputs @ self.first) @ self.second
        return {"score": 1.0 / (1.0 + np.exp(-activity))}
