"""Check what renderers read from a histogram: which axes, which bins, in which order."""

from __future__ import annotations

from typing import Any

import hist
import numpy as np
import pytest

from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.bins import bin_axis, counts_along, nice_number, roles
from cenote.analysis.renderers.support.samples import samples_of
from cenote.analysis.renderers.support.style import SampleGroup, Scale
from cenote.analysis.renderers.support.transforms import transformed
from cenote.common.errors import CenoteError


def test_a_dataset_axis_is_known_by_its_name_or_by_its_categories() -> None:
    by_name = hist.Hist(hist.axis.StrCategory(["x"], name="dataset"), hist.axis.Regular(2, 0, 1, name="a"))
    by_content = hist.Hist(hist.axis.Regular(2, 0, 1, name="a"), hist.axis.StrCategory(["mc"], name="process"))
    assert roles(by_name, []).dataset == 0
    assert roles(by_content, ["mc", "data"]).dataset == 1
    assert roles(by_content, []).free == (0, 1)


def test_an_axis_of_variations_is_known_by_its_nominal() -> None:
    made = hist.Hist(hist.axis.Regular(2, 0, 1, name="a"), hist.axis.StrCategory(["nominal", "up"], name="shift"))
    made.fill([0.1, 0.2, 0.3], ["nominal", "up", "up"])
    assert roles(made, []).variation == 1
    nominal, up = (
        samples_of(made, roles(made, []), [0], DrawContext("s"), styles={}, variation=name) for name in (None, "up")
    )
    assert nominal[0].counts.total == 1
    assert up[0].counts.total == 2
    with pytest.raises(CenoteError, match="no variation 'upp'") as caught:
        samples_of(made, roles(made, []), [0], DrawContext("s"), styles={}, variation="upp")
    assert caught.value.problems[0].hint == "did you mean 'up'?"


@pytest.mark.parametrize(("flow", "expected"), [("none", [1, 0, 2]), ("show", [1, 1, 0, 2, 3]), ("sum", [2, 0, 5])])
def test_under_and_overflow_are_left_out_shown_or_added(flow: Any, expected: list[int]) -> None:
    made = hist.Hist(hist.axis.Regular(3, 0, 3, name="a")).fill([-1, 0.5, 2.5, 2.5, 9, 9, np.nan])
    assert counts_along(made, [0], {}, flow=flow).values.tolist() == expected
    assert len(bin_axis(made.axes[0], flow=flow).edges) == len(expected) + 1


def test_whole_numbers_are_drawn_in_ascending_order_whatever_came_first() -> None:
    made = hist.Hist(hist.axis.IntCategory([], growth=True, name="n")).fill([3, 1, 1, 2])
    assert bin_axis(made.axes[0]).ticks == ("1", "2", "3")
    assert counts_along(made, [0], {}).values.tolist() == [2, 1, 1]


def test_booleans_are_called_false_and_true() -> None:
    assert bin_axis(hist.axis.Boolean(name="b")).ticks == ("false", "true")


def test_bins_that_are_not_finite_are_counted_and_drawn_as_empty() -> None:
    made = hist.Hist(hist.axis.Regular(2, 0, 2, name="a"), storage=hist.storage.Weight())
    made.fill([0.5, 1.5], weight=[np.nan, 2.0])
    counts = counts_along(made, [0], {})
    assert counts.values.tolist() == [0.0, 2.0]
    assert counts.broken == 1


def test_other_axes_are_summed_over_with_everything_in_them() -> None:
    made = hist.Hist(hist.axis.Regular(2, 0, 2, name="a"), hist.axis.Regular(2, 0, 2, name="b"))
    made.fill([0.5, 0.5, 1.5], [0.5, 99, -99])
    assert counts_along(made, [0], {}).values.tolist() == [2, 1]
    assert counts_along(made, [1, 0], {}).values.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (hist.axis.Regular(10, 0, 20, name="a", label="m [GeV]"), " / 2 GeV"),
        (hist.axis.Regular(20, 0, 20, name="a", label="m (GeV)"), " / GeV"),
        (hist.axis.Regular(10, 0, 1, name="a"), " / 0.1"),
        (hist.axis.Variable([0, 1, 5], name="a"), " / bin"),
        (hist.axis.Integer(0, 4, name="a"), ""),
    ],
)
def test_the_vertical_label_says_what_a_bin_covers(axis: Any, expected: str) -> None:
    assert bin_axis(axis).per_bin == expected


def test_samples_are_grouped_and_scaled_as_a_style_says(mass: Any, context: DrawContext) -> None:
    found = samples_of(mass, roles(mass, context.datasets), [1], context, styles={})
    before = {sample.name: sample.counts.total for sample in found}
    scaled = transformed(found, [Scale(kind="scale", factors={"TTbar": 2.0})], {}, context)
    grouped = transformed(scaled, [SampleGroup(kind="group", by={"all": ["DYJets", "TTbar"]})], {}, context)
    after = {sample.name: sample.counts.total for sample in grouped}
    assert list(after) == ["data", "all", "DYLow", "Zprime"]
    assert after["all"] == pytest.approx(before["DYJets"] + 2 * before["TTbar"])


def test_a_list_of_factors_must_fit_the_bins(mass: Any, context: DrawContext) -> None:
    found = samples_of(mass, roles(mass, context.datasets), [1], context, styles={})
    wrong = Scale(kind="scale", mode="bin_by_bin", factors={"TTbar": [1.0, 2.0]})
    with pytest.raises(CenoteError, match="2 factors, the histogram has 30 bins"):
        transformed(found, [wrong], {}, context)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (3.14159, "3.14"), (1234, "1234"), (56789, "56\N{THIN SPACE}789"), (2e9, "2e+09")]
)
def test_numbers_in_a_legend_are_short(value: float, text: str) -> None:
    assert nice_number(value) == text
