"""Check histograms as products: exact ordered sums, and files that other tools read."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
import uproot
from hypothesis import given, settings
from hypothesis import strategies as st

from cenote.analysis.products.histogram import HistogramProduct

PRODUCT = HistogramProduct()


def growing(names: list[str]) -> hist.Hist[Any]:
    histogram = hist.Hist(
        hist.axis.StrCategory(sorted(set(names)), name="kind", growth=True),
        hist.axis.Boolean(name="flag"),
        storage=hist.storage.Int64(),
    )
    if names:
        histogram.fill(names, [len(name) > 1 for name in names])
    return histogram


def weighted(values: list[float]) -> hist.Hist[Any]:
    histogram = hist.Hist(hist.axis.Regular(4, 0, 1, name="x"), storage=hist.storage.Weight())
    histogram.fill(values, weight=np.array(values) + 0.1)
    return histogram


lists_of_names = st.lists(st.lists(st.sampled_from(["a", "b", "cc", "dd", "e"]), max_size=5), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(parts=lists_of_names, cut=st.integers(0, 5))
def test_merging_in_steps_is_merging_at_once(parts: list[list[str]], cut: int) -> None:
    histograms = [growing(names) for names in parts]
    at_once = PRODUCT.merge(histograms)
    assert at_once == growing([name for names in parts for name in names])
    if 0 < cut < len(parts):
        assert PRODUCT.merge([PRODUCT.merge(histograms[:cut]), PRODUCT.merge(histograms[cut:])]) == at_once


def test_labels_of_axes_may_differ_from_part_to_part() -> None:
    for one, other in ((weighted([0.1, 0.7]), weighted([0.1])), (growing(["a", "b"]), growing(["c"]))):
        expected = PRODUCT.merge([one, other])
        other.axes[0].label = "another label"
        assert PRODUCT.merge([one, other]) == expected
        assert np.array_equal(PRODUCT.merge([other, one]).view(flow=True), expected.view(flow=True))
    assert other.axes[0].label == "another label"


def test_weights_are_summed_in_the_order_given() -> None:
    parts = [weighted([0.1, 0.7]), weighted([0.3]), weighted([0.1, 0.2])]
    total = PRODUCT.merge(parts)
    expected = 0.0
    for part in parts:
        expected += part.values()[0]
    assert total.values()[0] == expected
    assert total == PRODUCT.merge(parts)


def test_the_parts_stay_as_they_were() -> None:
    parts = [weighted([0.1]), weighted([0.1])]
    before = pickle.dumps(parts)
    PRODUCT.merge(parts)
    assert pickle.dumps(parts) == before


def test_different_axes_cannot_be_added() -> None:
    other = hist.Hist(hist.axis.Regular(5, 0, 1, name="x"), storage=hist.storage.Weight())
    with pytest.raises(ValueError, match="different axes 'x'"):
        PRODUCT.merge([weighted([0.1]), other])


def test_parts_with_too_many_categories_together_cannot_be_added() -> None:
    parts = [growing([f"{which}{number}" for number in range(6000)]) for which in "ab"]
    assert len(PRODUCT.merge([parts[0], parts[0]]).axes[0]) == 6000
    with pytest.raises(ValueError, match="would need a category for each of 12,000 values: give it bins"):
        PRODUCT.merge(parts)


@pytest.mark.parametrize("histogram", [weighted([0.1, 0.9, 2.0]), growing(["a", "cc"])], ids=["weighted", "growing"])
def test_what_is_saved_is_loaded_equal(histogram: hist.Hist[Any], tmp_path: Path) -> None:
    PRODUCT.save(histogram, tmp_path, "h")
    assert PRODUCT.load(tmp_path, "h") == histogram
    assert json.loads((tmp_path / "h.json").read_text())["uhi_schema"] == 1


def test_root_reads_the_same_numbers(tmp_path: Path) -> None:
    histogram = weighted([0.1, 0.6, 0.9])
    assert [path.name for path in PRODUCT.save(histogram, tmp_path, "h")] == ["h.json", "h.root"]
    with uproot.open(tmp_path / "h.root") as file:
        np.testing.assert_array_equal(file["h"].values(flow=True), histogram.values(flow=True))
        np.testing.assert_array_equal(file["h"].variances(flow=True), histogram.variances(flow=True))


def test_categories_become_root_histograms_of_their_own(tmp_path: Path) -> None:
    histogram = hist.Hist(
        hist.axis.StrCategory(["data", "t tbar"], name="dataset"),
        hist.axis.Regular(2, 0, 2, name="x"),
        hist.axis.Integer(0, 3, name="n"),
        storage=hist.storage.Int64(),
    )
    histogram.fill("t tbar", [0.5, 1.5], [1, 2])
    PRODUCT.save(histogram, tmp_path, "h")
    with uproot.open(tmp_path / "h.root") as file:
        assert file.classnames() == {"h_data;1": "TH2D", "h_t_tbar;1": "TH2D"}
        assert file["h_t_tbar"].values().tolist() == [[0, 1, 0], [0, 0, 1]]


def test_saving_leaves_no_other_files(tmp_path: Path) -> None:
    PRODUCT.save(weighted([0.5]), tmp_path / "deep", "h")
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["h.json", "h.root"]


def test_a_histogram_is_described_in_one_line() -> None:
    assert PRODUCT.describe(growing(["a", "cc"])) == "2 axes, 4 bins, 2 entries"
    assert PRODUCT.describe(weighted([0.4])) == "1 axis, 4 bins, sum of weights 0.5"


def test_pickles_are_hardly_larger_than_the_bins() -> None:
    histogram = hist.Hist(hist.axis.Regular(1000, 0, 1, name="x"), storage=hist.storage.Int64())
    assert len(pickle.dumps(histogram, protocol=5)) < 8 * 1002 + 1500


def test_the_total_is_that_of_the_nominal_analysis() -> None:
    varied = hist.Hist(
        hist.axis.Regular(2, 0, 2), hist.axis.StrCategory(["nominal", "up", "down"]), storage=hist.storage.Weight()
    )
    for number, name in enumerate(["nominal", "up", "down"], start=1):
        varied.fill([0.5, 5.0], name, weight=number)
    assert PRODUCT.describe(varied) == "2 axes, 6 bins, sum of weights 2"
