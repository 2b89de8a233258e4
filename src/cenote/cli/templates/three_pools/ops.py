"""Operations of this analysis: the workflows name this file under `plugins`."""

import awkward as ak
import numpy as np

from cenote import Events, OnnxModel, operation, resource

FEATURES = ["leading_pt", "n_good", "MET_pt"]
"""What the models take, in this order."""


@operation("custom.index", reads=["Muon_pt"], adds=["n_good", "leading_pt"])
def index(events: Events, *, threshold: float = 10.0) -> dict[str, ak.Array]:
    """Count the muons above a threshold and find the hardest one."""
    pt = events["Muon_pt"]
    hardest = ak.fill_none(ak.max(pt, axis=1), 0.0)
    return {"n_good": ak.sum(pt > threshold, axis=1), "leading_pt": hardest}


@operation("custom.build_index", reads=["Muon_pt"], adds=["is_signal", "n_good", "leading_pt"])
def build_index(events: Events, *, threshold: float = 10.0) -> dict[str, ak.Array]:
    """The same, and what a training has to know: an operation stays an ordinary function."""
    is_signal = np.full(len(events), events.dataset.name == "signal")
    return {"is_signal": is_signal, **index(events, threshold=threshold)}


@operation("custom.inference", reads=FEATURES, adds=["score"])
class Inference:
    """The score of `model.onnx`. `prepare` runs once per worker and puts the model onto a GPU, if there is one."""

    def prepare(self) -> None:
        """Open the model; `resource` finds it wherever this runs."""
        self.model = OnnxModel(resource("model.onnx"))

    def run(self, events: Events) -> dict[str, np.ndarray]:
        """One score between 0 and 1 per event."""
        return self.model.columns(events, inputs=FEATURES, outputs="score")


NETWORK = """
<ir_version: 8, opset_import: ["": 17]>
score_of_events (float[N, 3] features) => (float[N, 1] score) <float[1] one = {1.0}>
{
    above_zero = Add(features, one)
    logarithms = Log(above_zero)
    centred = Sub(logarithms, centre)
    scaled = Div(centred, scale)
    sums = Gemm(scaled, weights, biases)
    hidden = Tanh(sums)
    sum = Gemm(hidden, last_weights, last_bias)
    score = Sigmoid(sum)
}
"""


@operation("custom.train", reads=[*FEATURES, "is_signal"], scope="run", product="model")
def train(events: Events, *, steps: int = 100, neurons: int = 6, rate: float = 2.0) -> bytes:
    """Learn to tell signal from background, from the events of all datasets in one call: gradient descent in numpy.

    `einsum` adds up in the same order with any number of processors; `@` does not.
    """
    logarithms = np.log1p(np.stack([np.asarray(events[name], dtype=float) for name in FEATURES], axis=1))
    centre, scale = logarithms.mean(axis=0), logarithms.std(axis=0)
    inputs, truth = (logarithms - centre) / scale, np.asarray(events["is_signal"], dtype=float)
    random = np.random.default_rng(1)
    weights, biases = random.normal(0.0, 0.5, (len(FEATURES), neurons)), np.zeros(neurons)
    last_weights, last_bias = random.normal(0.0, 0.5, neurons), 0.0
    for _ in range(steps):
        hidden = np.tanh(np.einsum("ei,ih->eh", inputs, weights) + biases)
        score = 1.0 / (1.0 + np.exp(-(hidden * last_weights).sum(axis=1) - last_bias))
        wrong = (score - truth) / len(truth)
        blame = wrong[:, None] * last_weights * (1.0 - hidden**2)
        last_weights = last_weights - rate * np.einsum("e,eh->h", wrong, hidden)
        last_bias = last_bias - rate * wrong.sum()
        weights = weights - rate * np.einsum("ei,eh->ih", inputs, blame)
        biases = biases - rate * blame.sum(axis=0)
    return as_onnx(
        centre=centre,
        scale=scale,
        weights=weights,
        biases=biases,
        last_weights=last_weights[:, None],
        last_bias=np.array([last_bias]),
    )


def as_onnx(**numbers: np.ndarray) -> bytes:
    """The network with these numbers, as a later stage, or any other program, can use it."""
    import onnx.parser
    from onnx.numpy_helper import from_array

    model = onnx.parser.parse_model(NETWORK)
    model.graph.initializer.extend(from_array(values.astype(np.float32), name) for name, values in numbers.items())
    onnx.checker.check_model(model)
    return model.SerializeToString()
