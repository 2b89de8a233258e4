"""Compare samples: the numbers and their intervals are right, and what is wrong is said before anything is drawn."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

from cenote.analysis.operations.interface import ProductShape
from cenote.analysis.operations.support.events import DatasetInfo
from cenote.analysis.renderers.hep.render.comparison import ComparisonPicture
from cenote.analysis.renderers.hep.render.hist1d import Hist1D
from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.bins import BinCounts, roles
from cenote.analysis.renderers.support.compared import TAIL, Compared, ComparisonKind, binomial_interval, compare
from cenote.analysis.renderers.support.samples import samples_of
from cenote.analysis.renderers.support.transforms import transformed
from cenote.common.errors import CenoteError

SHAPE = ProductShape("histogram", axes=("mass",), drawn=("mass",), per_dataset=True)


def counts(*values: float) -> BinCounts:
    return BinCounts(np.array(values, dtype=float), np.array(values, dtype=float))


def weighted(values: list[float], variances: list[float]) -> BinCounts:
    return BinCounts(np.array(values), np.array(variances), weighted=True)


@pytest.mark.parametrize("total", [1, 5, 40])
def test_shares_have_the_interval_of_clopper_and_pearson(total: int) -> None:
    passed = np.arange(total + 1.0)
    low, high = binomial_interval(passed, np.full(total + 1, float(total)))

    def at_most(count: int, share: float) -> float:
        return sum(math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(count + 1))

    for count in range(total + 1):
        assert low[count] == 0 if count == 0 else 1 - at_most(count - 1, low[count]) == pytest.approx(TAIL)
        assert high[count] == 1 if count == total else at_most(count, high[count]) == pytest.approx(TAIL)


def test_large_shares_continue_where_exact_ones_end() -> None:
    low, high = binomial_interval(np.array([1999.0, 2001.0]), np.array([4000.0, 4000.0]))
    assert low[1] - low[0] == pytest.approx(2 / 4000, rel=0.02)
    assert high[1] - high[0] == pytest.approx(2 / 4000, rel=0.02)
    assert (high - low)[0] / 2 == pytest.approx(0.5 / math.sqrt(4000), rel=0.02)


def test_a_ratio_of_counts_has_the_interval_of_their_share() -> None:
    found = compare("ratio", counts(0, 3, 5, 0), counts(4, 6, 0, 0))
    assert found.known.tolist() == [True, True, False, False]
    assert found.values[1] == 0.5
    low, high = binomial_interval(np.array([3.0]), np.array([9.0]))
    assert found.values[1] - found.down[1] == pytest.approx(low[0] / (1 - low[0]))
    assert found.values[1] + found.up[1] == pytest.approx(high[0] / (1 - high[0]))
    assert found.down[0] == 0
    assert found.up[0] > 0


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("ratio", 2.0, 2 * math.hypot(0.3 / 4, 0.2 / 2)),
        ("split_ratio", 2.0, 0.3 / 2),
        ("difference", 2.0, math.hypot(0.3, 0.2)),
        ("relative_difference", 1.0, 2 * math.hypot(0.3 / 4, 0.2 / 2)),
        ("pull", 2 / math.hypot(0.3, 0.2), 1.0),
        ("asymmetry", 2 / 6, 2 / 36 * math.hypot(2 * 0.3, 4 * 0.2)),
    ],
)
def test_uncertainties_of_weighted_events_are_propagated(kind: ComparisonKind, value: float, error: float) -> None:
    found = compare(kind, weighted([4.0], [0.09]), weighted([2.0], [0.04]))
    assert found.values[0] == pytest.approx(value)
    assert (found.down[0], found.up[0]) == pytest.approx((error, error))


def test_an_efficiency_of_all_or_nothing_has_an_uncertainty() -> None:
    found = compare("efficiency", counts(0, 10, 3, 0), counts(10, 10, 10, 0))
    assert found.known.tolist() == [True, True, True, False]
    assert found.up[0] == pytest.approx(1 - TAIL ** (1 / 10))
    assert found.down[1] == pytest.approx(1 - TAIL ** (1 / 10))
    assert found.down[0] == pytest.approx(0)
    assert found.up[1] == pytest.approx(0)
    same = compare("efficiency", weighted([0.9], [0.27]), weighted([3.0], [0.9]))
    assert (same.values[0], same.down[0], same.up[0]) == pytest.approx((0.3, found.down[2], found.up[2]))


@pytest.mark.parametrize("kind", ["ratio", "pull", "difference", "efficiency", "asymmetry", "relative_difference"])
def test_whatever_is_in_the_bins_the_numbers_are_finite(kind: ComparisonKind) -> None:
    odd = weighted([0.0, -3.0, 1e-300, 1e300, 0.0], [0.0, 2.0, 1e-300, 1e300, 4.0])
    for one in (odd, counts(0, 1, 2, 1e6, 5)):
        for other in (odd, counts(0, 0, 7, 1e6, 3)):
            with np.errstate(all="ignore"):
                found: Compared = compare(kind, one, other)
            assert np.isfinite(found.values[found.known]).all()


def test_what_is_compared_follows_from_the_type_of_the_datasets(mass: Any, context: DrawContext, target: Path) -> None:
    files = ComparisonPicture(formats=["png"], figure={"dpi": 30}).draw(mass, target, context)
    assert [path.name for path in files] == ["mass.png", "mass.csv"]
    with pytest.raises(CenoteError, match="no dataset of stage 'Mass' has `eventtype: data`"):
        ComparisonPicture().check(SHAPE, DrawContext("Mass", {"dy": DatasetInfo("dy", "mc")}))


@pytest.mark.parametrize(
    ("settings", "message", "hint"),
    [
        ({"comparison": {"reference": "dato"}}, "'comparison.reference' names 'dato'", "did you mean 'data'?"),
        ({"comparison": {"target": ["Z", "topp"]}}, "'comparison.target' names 'topp'", "did you mean 'top'?"),
        ({"select": {"dataset": "TTbarr"}}, "no dataset 'TTbarr' to draw", "did you mean 'TTbar'?"),
        ({"select": {"datset": "TTbar"}}, "no axis of categories 'datset'", "did you mean 'dataset'?"),
        ({"transforms": [{"kind": "scale", "factors": {"TTbarr": 2}}]}, "names 'TTbarr'", "did you mean 'TTbar'?"),
        ({"transforms": [{"kind": "group", "by": {"t": ["TTbra"]}}]}, "names 'TTbra'", "did you mean 'TTbar'?"),
        (
            {"transforms": [{"kind": "luminosity", "lumi": 5}]},
            "its 'xsec' is missing",
            "write `xsec: …` at the dataset",
        ),
    ],
)
def test_names_are_checked_before_the_run(settings: Any, message: str, hint: str, context: DrawContext) -> None:
    with pytest.raises(CenoteError) as caught:
        ComparisonPicture.model_validate(settings).check(SHAPE, context)
    problem = caught.value.problems[0]
    assert message in problem.message
    assert (problem.hint or "").startswith(hint)


def test_datasets_must_be_kept_apart_to_be_compared(context: DrawContext, target: Path) -> None:
    with pytest.raises(CenoteError, match="does not keep datasets apart"):
        ComparisonPicture().check(ProductShape("histogram", axes=("mass",), per_dataset=False), context)
    alone = hist.Hist(hist.axis.Regular(3, 0, 3, name="mass")).fill([1.5])
    with pytest.raises(CenoteError, match="does not keep datasets apart"):
        ComparisonPicture().draw(alone, target, context)


def test_an_efficiency_of_events_that_are_not_among_the_others_is_refused(target: Path) -> None:
    made = hist.Hist(hist.axis.StrCategory(["passed", "all"], name="dataset"), hist.axis.Regular(2, 0, 2, name="pt"))
    made.fill("passed", [0.5]).fill("all", [0.5, 1.5])
    block = {"comparison": "efficiency", "reference": "passed", "target": "all"}
    assert ComparisonPicture(formats=["png"], figure={"dpi": 30}, comparison=block).draw(
        made, target, DrawContext("Pt")
    )
    with pytest.raises(CenoteError, match="bin 1 has 1 of 'all', and 0 of 'passed'"):
        ComparisonPicture(comparison={**block, "reference": "all", "target": "passed"}).draw(
            made, target, DrawContext("Pt")
        )
    inverted = {**block, "reference": "all", "target": "passed", "invert": True, "only_comparison": True}
    assert ComparisonPicture(formats=["png"], figure={"dpi": 30}, comparison=inverted).draw(
        made, target, DrawContext("Pt")
    )


def test_simulation_is_scaled_to_a_luminosity_by_its_cross_section() -> None:
    info = {"mc": DatasetInfo("mc", "mc", nevents=1000, metadata={"xsec": 2.0}), "data": DatasetInfo("data", "data")}
    made = hist.Hist(hist.axis.StrCategory(["mc", "data"], name="dataset"), hist.axis.Regular(1, 0, 1, name="pt"))
    made.fill("mc", [0.5] * 10).fill("data", [0.5] * 7)
    settings = {"transforms": [{"kind": "luminosity", "lumi": 3.0}], "style": {"datasets": {"mc": {"label": "x"}}}}
    context = DrawContext("Pt", info)
    picture = Hist1D.model_validate(settings)
    found = samples_of(made, roles(made, info), [1], context, styles={})
    after = {s.name: s.counts.total for s in transformed(found, picture.transforms, {}, context)}
    assert after == {"mc": pytest.approx(10 * 3000 * 2.0 / 1000), "data": 7}
