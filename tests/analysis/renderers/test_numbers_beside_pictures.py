"""What a picture compares is written as a table beside it: both sides, their intervals, and the comparison."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

from cenote.analysis.renderers.hep.render.comparison import ComparisonPicture
from cenote.analysis.renderers.hep.render.data_mc import DataMC
from cenote.analysis.renderers.hep.render.heatmap2d import Heatmap2D
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.compared import binomial_interval, poisson_errors

SMALL: Any = {"formats": ["png"], "figure": {"dpi": 20}}


def table(files: list[Path]) -> list[dict[str, str]]:
    (file,) = (file for file in files if file.suffix == ".csv")
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def column(rows: list[dict[str, str]], name: str) -> list[float]:
    return [float(row[name] or "nan") for row in rows]


def test_data_and_simulation_with_their_ratio(mass: Any, context: DrawContext, target: Path) -> None:
    rows = table(DataMC(**SMALL).draw(mass, target, context))
    data, others = mass[{"dataset": "data"}].values(), mass.values()[1:].sum(axis=0)
    spread = np.sqrt(mass.variances()[1:].sum(axis=0))
    known = (others > 0) & (data > 0)
    assert column(rows, "x_low") == pytest.approx(mass.axes["mass"].edges[:-1])
    assert column(rows, "x_high") == pytest.approx(mass.axes["mass"].edges[1:])
    assert (rows[0]["first"], rows[0]["second"], rows[0]["comparison"]) == ("Data", "expected", "ratio")
    assert column(rows, "first_value") == pytest.approx(data)
    assert column(rows, "second_value") == pytest.approx(others)
    assert column(rows, "second_up") == pytest.approx(spread)
    assert column(rows, "value") == pytest.approx(np.where(known, data / others, np.nan), nan_ok=True)
    assert column(rows, "up") == pytest.approx(np.where(known, poisson_errors(data)[1] / others, np.nan), nan_ok=True)


def test_an_efficiency_has_its_interval(context: DrawContext, target: Path) -> None:
    axis = hist.axis.Regular(3, 0, 3, name="x")
    made = hist.Hist(hist.axis.StrCategory(["data", "TTbar"], name="dataset"), axis)
    made.fill("TTbar", [0.5] * 10 + [1.5] * 4)
    made.fill("data", [0.5] * 3 + [1.5] * 4)
    settings: Any = {"reference": "data", "target": "TTbar", "comparison": "efficiency"}
    rows = table(ComparisonPicture(**SMALL, comparison=settings).draw(made, target, context))
    low, high = binomial_interval(np.array([3.0, 4.0]), np.array([10.0, 4.0]))
    assert column(rows, "value") == pytest.approx([0.3, 1.0, np.nan], nan_ok=True)
    assert (np.array(column(rows, "value")) - column(rows, "down"))[:2] == pytest.approx(low)
    assert (np.array(column(rows, "value")) + column(rows, "up"))[:2] == pytest.approx(high)
    assert [(row["first"], row["second"], row["comparison"]) for row in rows] == [("Data", "TTbar", "efficiency")] * 3
    assert rows[2]["value"] == "", "there is nothing to take a share of"


def test_every_pair_has_its_rows_and_overflow_has_no_end(mass: Any, context: DrawContext, target: Path) -> None:
    settings: Any = {"target": ["DYJets", "TTbar"], "flow": "show"}
    rows = table(ComparisonPicture(**SMALL, comparison=settings).draw(mass, target, context))
    assert [row["second"] for row in rows] == ["DYJets"] * 32 + ["TTbar"] * 32
    assert (rows[0]["x_low"], rows[31]["x_high"]) == ("-inf", "inf")


def test_shares_of_two_variables_have_a_row_for_each_bin(context: DrawContext, target: Path) -> None:
    axes = [hist.axis.Regular(2, 0, 2, name="x"), hist.axis.StrCategory(["a", "b"], name="y")]
    every, passed = (hist.Hist(hist.axis.StrCategory(["data"], name="dataset"), *axes) for _ in range(2))
    every.fill("data", [0.5] * 4, "b")
    passed.fill("data", [0.5], "b")
    share = Heatmap2D(**SMALL, heatmap2d={"divide": ["passed", "all"]})
    rows = table(share.draw_together({"all": every, "passed": passed}, target, context))
    assert [(row["x_low"], row["y"], row["value"]) for row in rows] == [
        ("0.0", "a", ""),
        ("0.0", "b", "0.25"),
        ("1.0", "a", ""),
        ("1.0", "b", ""),
    ]
    low, high = binomial_interval(np.array([1.0]), np.array([4.0]))
    assert (float(rows[1]["down"]), float(rows[1]["up"])) == pytest.approx((0.25 - low[0], high[0] - 0.25))


def test_a_table_of_some_of_the_data_says_so(mass: Any, context: DrawContext, target: Path) -> None:
    rows = table(DataMC(**SMALL).draw(mass, target, replace(context, partial=True)))
    assert {row["partial"] for row in rows} == {"true"}


def test_pictures_that_compare_nothing_have_no_table(mass: Any, context: DrawContext, target: Path) -> None:
    alone = DataMC(**SMALL, select={"dataset": ["DYJets", "TTbar"]}).draw(mass, target, context)
    assert [file.suffix for file in alone] == [".png"]
    assert Heatmap2D(**SMALL).endings == ("png",)
