"""Build the histograms that the tests of renderers draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.interface import DrawContext

DATASETS = {
    "data": DatasetInfo("data", "data"),
    "DYJets": DatasetInfo("DYJets", "mc", "Z"),
    "DYLow": DatasetInfo("DYLow", "mc", "Z"),
    "TTbar": DatasetInfo("TTbar", "mc", "top"),
    "Zprime": DatasetInfo("Zprime", "mc"),
}


@pytest.fixture
def context() -> DrawContext:
    return DrawContext("Mass", DATASETS)


@pytest.fixture
def mass() -> Any:
    """A weighted histogram with a dataset axis, filled the same way every time."""
    made = hist.Hist(
        hist.axis.StrCategory(list(DATASETS), name="dataset"),
        hist.axis.Regular(30, 60, 120, name="mass", label=r"$m_{\mu\mu}$ [GeV]"),
        storage=hist.storage.Weight(),
    )
    random = np.random.default_rng(7)
    made.fill("data", np.append(random.normal(91, 4, 1990), np.full(10, 110.0)), weight=np.ones(2000))
    made.fill("DYJets", random.normal(91, 4, 4000), weight=np.full(4000, 0.4))
    made.fill("DYLow", random.normal(91, 4, 300), weight=np.full(300, 0.4))
    made.fill("TTbar", 60 + 60 * random.random(900), weight=np.full(900, 0.2))
    made.fill("Zprime", random.normal(110, 1, 100), weight=np.full(100, 0.3))
    return made


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "plots" / "mass"
