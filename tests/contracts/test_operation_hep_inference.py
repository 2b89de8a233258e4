"""The operation `hep.inference`, which needs a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from builders.onnx_models import dense, layers
from cenote.analysis.operations.hep.inference import Inference
from cenote.language.plugins import resources
from cenote.testing.contracts import OperationContract


class TestInference(OperationContract):
    plugin = Inference
    cases: ClassVar[Any] = (
        {"model": "model.onnx", "inputs": {"x": ["Muon_pt", "MET_pt"]}, "outputs": {"y": ["Muon_score"]}},
        {"model": "model.onnx", "inputs": ["MET_pt", "nMuon"], "outputs": "score", "batch": 7, "memory": "1MB"},
    )

    @pytest.fixture(autouse=True)
    def a_model_beside_the_workflow(self, tmp_path: Path) -> Iterator[None]:
        (tmp_path / "model.onnx").write_bytes(dense(layers(2, 8, 1)))
        resources.serve(resources.describe([tmp_path / "model.onnx"]), str(tmp_path))
        yield
        resources.serve((), "")
