"""A histogram in a ROOT file has the entries, mean and spread of the values that filled it, as a filled TH1D has."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot

from cenote.analysis.operations.hep.hist.operation import Hist
from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.analysis.products.histogram import HistogramProduct
from cenote.language.systematics import Fillings

RANDOM = np.random.default_rng(7)
SIZE = 50_000
X, Y, Z = RANDOM.normal(50, 30, SIZE), RANDOM.exponential(2.0, SIZE).astype("f4"), RANDOM.integers(-3, 9, SIZE)
WEIGHTS = RANDOM.normal(1.0, 0.5, SIZE)
X[::1000] = np.nan
COLUMNS = {"x": X, "y": Y, "z": Z, "w": WEIGHTS, "kind": np.where(Z > 3, "signal", "other")}
AXES = {
    "x": {"name": "x", "bins": {"nbins": 40, "low": 0, "high": 100}},
    "y": {"name": "y", "type": "variable", "bins": [0, 0.5, 1.5, 4, 10]},
    "z": {"name": "z", "type": "integer", "bins": {"low": 0, "high": 5}},
}
LIMITS = {"x": (0, 100), "y": (0, 10), "z": (0, 5)}


def filled(params: dict[str, Any], part: slice = slice(None), dataset: str = "dy") -> Any:
    columns = {name: column[part] for name, column in COLUMNS.items()}
    events = Events(columns, len(columns["x"]), DatasetInfo(dataset, "mc"), datasets=("data", "dy"))
    return Hist.model_validate(params).for_stage("h").run(events).product


def in_parts(params: dict[str, Any], dataset: str = "dy") -> Any:
    cuts = [0, 17, 17, 20_000, 33_333, SIZE]
    return HistogramProduct().merge([filled(params, slice(a, b), dataset) for a, b in pairwise(cuts)])


def expected(names: str, weights: Any, chosen: Any = slice(None)) -> dict[str, float]:
    """The statistics of a ROOT histogram, from the values themselves."""
    values = [np.asarray(COLUMNS[name], dtype=np.float64)[chosen] for name in names]
    weights = weights[chosen]
    within = np.ones(len(weights), np.bool_)
    for name, value in zip(names, values, strict=True):
        within &= (value >= LIMITS[name][0]) & (value < LIMITS[name][1])
    w, inside = weights[within], [value[within] for value in values]
    found = {"fEntries": len(weights), "fTsumw": w.sum(), "fTsumw2": (w**2).sum()}
    for number, (letter, value) in enumerate(zip("xyz", inside, strict=False)):
        found |= {f"fTsumw{letter}": (w * value).sum(), f"fTsumw{letter}2": (w * value**2).sum()}
        for other, before in zip("xyz", inside[:number], strict=False):
            found[f"fTsumw{other}{letter}"] = (w * before * value).sum()
    return found


def saved(product: Any, folder: Path, name: str = "H") -> dict[str, float]:
    HistogramProduct().save(product, folder, "H")
    with uproot.open(folder / "H.root") as file:
        return {key: value for key, value in file[name].all_members.items() if key.startswith(("fEntries", "fTsum"))}


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("names", ["x", "y", "z", "xy", "xyz"])
def test_entries_and_moments_are_those_of_the_values(names: str, weight: str | None, tmp_path: Path) -> None:
    product = in_parts({"axes": [AXES[name] for name in names], "weight_expr": weight})
    found = saved(product, tmp_path)
    assert found == pytest.approx(expected(names, np.ones(SIZE) if weight is None else WEIGHTS), rel=1e-10)


def test_every_category_has_its_own(tmp_path: Path) -> None:
    product = in_parts({"axes": [AXES["x"], {"source": "kind", "type": "category"}], "weight_expr": "w"})
    for name in ("signal", "other"):
        found = saved(product, tmp_path, f"H_{name}")
        assert found == pytest.approx(expected("x", WEIGHTS, COLUMNS["kind"] == name), rel=1e-10)


def test_every_dataset_and_variation_has_its_own(tmp_path: Path) -> None:
    varied = {"weights": {"nominal": "w", "up": "2 * w"}}
    params = {"axes": [AXES["x"]], "dataset_axis": True, "variations": varied}
    product = HistogramProduct().merge([in_parts(params), filled(params, slice(0, 100), "data")])
    assert saved(product, tmp_path, "H_dy_up") == pytest.approx(expected("x", 2 * WEIGHTS), rel=1e-10)
    first = expected("x", WEIGHTS, slice(0, 100))
    assert saved(product, tmp_path, "H_data_nominal") == pytest.approx(first, rel=1e-10)


def test_a_variation_that_leaves_a_dataset_alone_has_what_is_nominal(tmp_path: Path) -> None:
    fillings = Fillings(("nominal", "jes_up"), varied={"jes_up": frozenset({"ttbar"})})
    params = {"axes": [AXES["x"]], "dataset_axis": True, "weight_expr": "w"}
    operation = Hist.model_validate(params).for_stage("h").with_fillings(fillings)
    events = Events(COLUMNS, SIZE, DatasetInfo("dy", "mc"), datasets=("data", "dy"))
    found = saved(operation.run(events).product, tmp_path, "H_dy_jes_up")
    assert found == pytest.approx(expected("x", WEIGHTS), rel=1e-10)


def test_without_overflow_only_what_is_in_bins_counts_as_an_entry(tmp_path: Path) -> None:
    found = saved(filled({"axes": [{**AXES["x"], "overflow": False}], "weight_expr": "w"}), tmp_path)
    within = (X >= 0) & (X <= 100)
    assert found["fEntries"] == np.count_nonzero(within)
    assert found["fTsumwx"] == pytest.approx((WEIGHTS * X)[within].sum())


@pytest.mark.parametrize(
    ("value", "overflow", "entries"), [("1", True, 3), ("1", False, 3), ("9", True, 3), ("9", False, 0)]
)
def test_a_constant_may_fill_an_axis(value: str, overflow: bool, entries: int, tmp_path: Path) -> None:
    axis = {"name": "one", "source": value, "bins": {"nbins": 2, "low": 0, "high": 2}, "overflow": overflow}
    found = saved(filled({"axes": [axis], "weight_expr": "2"}, slice(0, 3)), tmp_path)
    inside = 3 if value == "1" else 0
    assert (found["fEntries"], found["fTsumwx"], found["fTsumwx2"]) == (entries, 2 * inside, 2 * inside)


def test_they_are_kept_in_files_and_on_the_way(tmp_path: Path) -> None:
    product = in_parts({"axes": [AXES["x"]], "dataset_axis": True, "weight_expr": "w"})
    before = saved(pickle.loads(pickle.dumps(product)), tmp_path, "H_dy")
    again = HistogramProduct().load(tmp_path, "H")
    assert type(again) is hist.Hist
    assert saved(again, tmp_path, "H_dy") == before == pytest.approx(expected("x", WEIGHTS), rel=1e-10)


def test_the_json_is_a_histogram_for_everybody(tmp_path: Path) -> None:
    import uhi.schema

    HistogramProduct().save(in_parts({"axes": [AXES["x"]], "dataset_axis": True}), tmp_path, "H")
    uhi.schema.validate(json.loads((tmp_path / "H.json").read_text()))


def test_products_from_before_there_were_sums_have_the_statistics_of_their_bins(tmp_path: Path) -> None:
    product = filled({"axes": [AXES["x"]], "weight_expr": "w"})
    HistogramProduct().save(product, tmp_path, "H")
    document = json.loads((tmp_path / "H.json").read_text())
    del document["writer_info"]["cenote"]
    (tmp_path / "H.json").write_text(json.dumps(document))
    old = HistogramProduct().load(tmp_path, "H")
    found = saved(HistogramProduct().merge([old, product]), tmp_path)
    inside, squares, centres = 2 * product.values(), 2 * product.variances(), product.axes[0].centers
    assert found["fEntries"] == pytest.approx(inside.sum() ** 2 / squares.sum())
    assert found["fTsumwx"] == pytest.approx((inside * centres).sum())


def test_a_histogram_that_was_scaled_since_does_not_keep_the_sums_of_before(tmp_path: Path) -> None:
    product = filled({"axes": [AXES["x"]], "weight_expr": "w"})
    found = saved(product * 3, tmp_path)
    assert found["fTsumwx"] == pytest.approx((3 * product.values() * product.axes[0].centers).sum())
