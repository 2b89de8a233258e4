"""Products of two runs are compared number by number, and only where that means something."""

from __future__ import annotations

from typing import Any

import hist
import numpy as np
import pytest

from cenote.analysis.products.cutflow import Cutflow, CutflowRow
from cenote.analysis.products.table import GroupedTable, Total
from cenote.report.diff.histograms import compare_histograms
from cenote.report.diff.records import HistogramDiff, RowDiff
from cenote.report.diff.tables import compare_cutflows, compare_files, compare_objects, compare_tables


def weighted(values: list[float], variances: list[float] | None = None, *, high: float = 3) -> Any:
    found = hist.Hist(hist.axis.Regular(len(values), 0, high, name="mass"), storage=hist.storage.Weight())
    view: Any = found.view()
    view.value, view.variance = values, values if variances is None else variances
    return found


def compared(before: Any, after: Any) -> HistogramDiff:
    found, words = compare_histograms(before, after, shared="none")
    assert found is not None
    assert words == ()
    return found


def test_equal_histograms_have_no_bin_that_differs() -> None:
    found = compared(weighted([1, 2, 3]), weighted([1, 2, 3]))
    assert (found.differ, found.bins, found.largest, found.worst) == (0, 5, None, ())


def test_bins_that_differ_are_counted_and_the_largest_pull_is_named() -> None:
    found = compared(weighted([10, 20, 30]), weighted([10, 22, 18]))
    assert (found.differ, found.sum_before, found.sum_after) == (2, 60, 50)
    assert found.largest is not None
    assert found.largest.at == {"mass": "2 to 3"}
    assert found.largest.pull == pytest.approx(-12 / np.sqrt(30 + 18))
    assert [one.at["mass"] for one in found.worst] == ["2 to 3", "1 to 2"]


def test_a_pull_has_both_variances_whatever_the_weights() -> None:
    found = compared(weighted([10], [4]), weighted([13], [5]))
    assert found.largest is not None
    assert found.largest.pull == 1.0


def test_equal_values_of_other_variances_differ_without_a_pull_of_their_own() -> None:
    found = compared(weighted([10], [4]), weighted([10], [5]))
    assert found.differ == 1
    assert found.largest is not None
    assert found.largest.pull == 0


def test_bins_without_an_uncertainty_have_no_pull_and_still_differ() -> None:
    before, after = (hist.Hist(hist.axis.Regular(1, 0, 1, name="x"), storage=hist.storage.Weight()) for _ in range(2))
    view: Any = after.view()
    view.value = 3
    found = compared(before, after)
    assert (found.differ, found.largest) == (1, None)
    assert found.worst[0].pull is None


def test_bins_that_are_not_finite_are_equal_where_both_are() -> None:
    assert compared(weighted([np.nan, np.inf]), weighted([np.nan, np.inf])).differ == 0
    assert compared(weighted([np.nan, 1]), weighted([2, 1])).differ == 1
    assert compared(weighted([np.inf, 1]), weighted([2, 1])).differ == 1


def test_underflow_and_overflow_are_compared_too() -> None:
    before, after = weighted([1]), weighted([1])
    after.fill([-5.0, 99.0])
    assert [one.at["mass"] for one in compared(before, after).worst] == ["underflow", "overflow"]


def test_counts_are_compared_as_counts() -> None:
    before, after = (hist.Hist(hist.axis.Integer(0, 3, name="n"), storage=hist.storage.Int64()) for _ in range(2))
    before.fill([0, 0, 1])
    after.fill([0, 1])
    found = compared(before, after)
    assert found.largest is not None
    assert (found.largest.at, found.largest.pull) == ({"n": "0"}, pytest.approx(-1 / np.sqrt(3)))


def per_dataset(**counts: int) -> Any:
    axes = hist.axis.StrCategory([], name="dataset", growth=True), hist.axis.Regular(1, 0, 1, name="x")
    found: Any = hist.Hist(*axes, storage=hist.storage.Weight())
    for name, count in counts.items():
        found.fill(name, np.full(count, 0.5))
    return found


def test_categories_are_compared_by_their_names_wherever_they_stand() -> None:
    found, words = compare_histograms(per_dataset(dy=3, ttbar=5), per_dataset(ttbar=5, wjets=2, dy=4), shared="all")
    assert found is not None
    assert [(one.at["dataset"], one.before, one.after) for one in found.worst] == [("dy", 3, 4)]
    assert words == ("dataset wjets only after",)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (weighted([1, 2, 3]), weighted([1, 2]), "mass has other bins: 3 from 0 to 3 → 2 from 0 to 3"),
        (weighted([1]), weighted([1], high=4), "mass has other bins: 1 from 0 to 3 → 1 from 0 to 4"),
        (
            hist.Hist(hist.axis.Variable([0, 1, 3], name="x")),
            hist.Hist(hist.axis.Variable([0, 2, 3], name="x")),
            "x has other bins: 2 from 0 to 3, with an edge at 1 → 2 from 0 to 3, with an edge at 2",
        ),
        (
            hist.Hist(hist.axis.Regular(1, 0, 1, name="x")),
            hist.Hist(hist.axis.Regular(1, 0, 1, name="x", overflow=False)),
            "x has other bins: 1 from 0 to 1, with underflow and overflow → 1 from 0 to 1, with underflow",
        ),
        (
            hist.Hist(hist.axis.Regular(1, 0, 1, name="x")),
            hist.Hist(hist.axis.Regular(1, 0, 1, name="y")),
            "axes are others: x → y",
        ),
        (
            hist.Hist(hist.axis.Regular(1, 0, 1, name="x")),
            hist.Hist(hist.axis.Regular(1, 0, 1, name="x"), storage=hist.storage.Mean()),
            "the histograms hold other things: count → mean",
        ),
    ],
)
def test_histograms_of_other_bins_are_not_comparable_and_it_is_said_why(before: Any, after: Any, words: str) -> None:
    assert compare_histograms(before, after, shared="all") == (None, (words,))


def row(cut: str, index: int, passed: int, *, dataset: str = "dy", came: int = 100) -> CutflowRow:
    counts = {"n_unweighted_in": came, "n_unweighted_out": passed, "sumw_in": came, "sumw_out": passed}
    squares = {"sumw2_in": came, "sumw2_out": passed}
    named = {"dataset": dataset, "name": f"All[{index}]", "selection": "All", "index": index, "label": cut, "expr": cut}
    return CutflowRow(**named, kind="expression", parents=(), weighted=False, **counts, **squares)  # type: ignore[arg-type]


def test_cutflows_are_compared_cut_by_cut() -> None:
    before = Cutflow((row("trigger", 0, 80), row("pt > 20", 1, 40), row("dy", 0, 3, dataset="data")))
    after = Cutflow((row("trigger", 0, 80), row("pt > 25", 1, 30), row("dy", 0, 3, dataset="data")))
    assert compare_cutflows(before, before) == ()
    assert compare_cutflows(before, after) == (RowDiff("dy: pt > 20 → pt > 25", "events", 40, 30),)


def test_a_cut_that_is_new_moves_none_of_the_others() -> None:
    before = Cutflow((row("trigger", 0, 80), row("pt > 20", 1, 40)))
    after = Cutflow((row("trigger", 0, 80), row("clean", 1, 70), row("pt > 20", 2, 35)))
    assert compare_cutflows(before, after) == (
        RowDiff("dy: clean", "events", None, 70),
        RowDiff("dy: pt > 20", "events", 40, 35),
    )


def test_tables_and_lists_of_files_are_compared_by_their_groups_and_names() -> None:
    one = GroupedTable(("hour",), (("trips", "count"),), {(1,): (Total(5),), (2,): (Total(6),)})
    other = GroupedTable(("hour",), (("trips", "count"),), {(1,): (Total(7),), (3,): (Total(1),)})
    assert compare_tables(one, one) == ()
    assert compare_tables(one, other) == (
        RowDiff("1", "trips", 5, 7),
        RowDiff("2", "trips", 6, None),
        RowDiff("3", "trips", None, 1),
    )
    files = [{"path": "a.root", "entries": 3}], [{"path": "a.root", "entries": 2}, {"path": "b.root", "entries": 1}]
    assert compare_files(*files) == (RowDiff("a.root", "events", 3, 2), RowDiff("b.root", "events", None, 1))


def test_objects_are_compared_by_what_they_hold() -> None:
    assert compare_objects({"fit": {"mass": 91.1}}, {"fit": {"mass": 91.2}}) == ("fit.mass changed, 91.1 → 91.2",)
    assert compare_objects(np.array([1.0, np.nan]), np.array([1.0, np.nan])) == ()
    assert compare_objects(np.arange(3), np.array([0, 5, 2])) == ("1 of 3 values differ",)
    assert compare_objects({"a": np.arange(3)}, {"a": np.arange(3), "b": np.arange(2)}) == ("b is new",)
    assert compare_objects(b"one", b"two") == ("it is another one",)
    assert compare_objects(3, 3) == ()
