"""The custom operations that the snippets name, as somebody would write them beside the workflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from cenote import Events, operation


@operation("custom.index", reads=["Muon_pt"], adds=["n_muons"])
def index(events: Events, *, threshold: float = 10.0) -> dict[str, Any]:
    return {"n_muons": np.asarray([sum(pt > threshold for pt in event) for event in events["Muon_pt"]])}


@operation("custom.build_index", reads=["Muon_pt"], adds=["n_muons"])
def build_index(events: Events) -> dict[str, Any]:
    return {"n_muons": np.asarray([len(event) for event in events["Muon_pt"]])}


@operation("custom.inference", reads=["n_muons"], adds=["score"])
def inference(events: Events) -> dict[str, Any]:
    return {"score": 1.0 / (1.0 + np.asarray(events["n_muons"]))}


@operation("custom.train", reads=["n_muons"], scope="run", product="model")
def train(events: Events, *, epochs: int = 5) -> float:
    return float(np.sum(events["n_muons"])) * epochs
