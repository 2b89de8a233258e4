"""Bins of equal width hold what exact arithmetic puts into them, compiled and the ordinary way alike."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from builders.compiled_stages import Stage, compiled, events_of, ordinary
from cenote.analysis.operations.hep.hist.axis import Axis
from cenote.analysis.operations.support.lookup import guess_is_near, regular_edges

Cut = tuple[int, float, float]


def both_ways(columns: dict[str, Any], params: dict[str, Any]) -> list[NDArray[Any]]:
    """The bins, those beyond the limits included, as each way fills them."""
    stages, events = [Stage("h", "hep.hist", params)], events_of(columns)
    found = compiled(stages, events)
    assert found is not None
    return [np.asarray(ran.products["h"].values(flow=True)) for ran in (found, ordinary(stages, events))]


def axis(cut: Cut, source: str = "x", **more: Any) -> dict[str, Any]:
    return {"name": source, "type": "regular", "source": source, "bins": list(cut), **more}


def exact_edges(cut: Cut) -> list[float]:
    """Of the limits as they are written, each rounded once; `float` of a fraction is the nearest number."""
    count, low, high = cut
    start, stop = Fraction(str(low)), Fraction(str(high))
    return [float(start + number * (stop - start) / count) for number in range(count + 1)]


def expected(values: NDArray[Any], cut: Cut, *, overflow: bool = True) -> list[int]:
    """How many values lie in each bin, one after the other and with exact comparisons."""
    count, _, high = cut
    bins, edges = [0] * (count + 2), [Fraction(edge) for edge in exact_edges(cut)]
    for value in values.tolist():
        if math.isnan(value):
            place = count
        elif math.isinf(value):
            place = count if value > 0 else -1
        elif not overflow and value == high:
            place = count - 1
        else:
            place = bisect_right(edges, Fraction(value)) - 1
        bins[place + 1] += 1
    return bins if overflow else bins[1:-1]


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "u4", "i8", "f4", "f8"])
def test_a_whole_number_is_in_the_bin_that_begins_with_it(kind: str) -> None:
    for counted in both_ways({"x": np.arange(100).astype(kind)}, {"axes": [axis((100, 0, 100))]}):
        assert counted.tolist() == [0, *[1] * 100, 0]


def test_what_is_written_as_a_decimal_is_in_the_bin_that_begins_with_it() -> None:
    whole = ((10, 0.0, 1.0), (50, -2.5, 2.5), (20, -1.0, 1.0), (300, 0.0, 3.0), (70, 0.0, 7.0))
    fractions = ((10, 0.1, 1.1), (24, -2.4, 2.4), (48, -2.4, 2.4), (32, -3.2, 3.2), (100, -0.7, 0.3), (24, 0.3, 2.7))
    for count, low, high in whole + fractions:
        digits = 3
        values = np.array([round(low + n * (high - low) / count, digits) for n in range(count)])
        for counted in both_ways({"x": values}, {"axes": [axis((count, low, high))]}):
            assert counted.tolist() == [0, *[1] * count, 0], (count, low, high)


ends = st.one_of(
    st.integers(-1000, 1000).map(float),
    st.decimals(-100, 100, places=2).map(float),
    st.floats(-1e6, 1e6, allow_subnormal=False),
    st.sampled_from([1e15, -1e15, 1e-300, 2.0**53, 1.0 + 2**-50, 1e308, -1e308, 5e-324]),
)


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    one, other = draw(st.tuples(ends, ends).filter(lambda pair: 0 < abs(pair[0] - pair[1]) < math.inf))
    return draw(st.integers(1, 400)), min(one, other), max(one, other)


@settings(deadline=None, max_examples=120)
@given(cut=cuts(), overflow=st.booleans(), more=st.lists(st.floats(width=64), max_size=20), weighted=st.booleans())
def test_bins_are_those_of_exact_arithmetic(cut: Cut, overflow: bool, more: list[float], weighted: bool) -> None:
    edges = np.array(exact_edges(cut))
    near = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]
    values = np.concatenate([*near, (edges[1:] / 2 + edges[:-1] / 2), more, [np.nan, np.inf, -np.inf, -0.0]])
    params = {"axes": [axis(cut, overflow=overflow)], **({"storage": "weighted"} if weighted else {})}
    assert regular_edges(*cut).tolist() == edges.tolist()
    for counted in both_ways({"x": values}, params):
        assert counted.tolist() == expected(values, cut, overflow=overflow)


@settings(deadline=None, max_examples=30)
@given(cut=cuts())
def test_single_precision_is_compared_as_the_number_that_it_is(cut: Cut) -> None:
    with np.errstate(over="ignore"):
        values = np.array(exact_edges(cut)).astype("f4")
    for counted in both_ways({"x": values}, {"axes": [axis(cut)]}):
        assert counted.tolist() == expected(values, cut)


def test_every_axis_of_a_histogram_and_every_element_of_a_list_follows_it() -> None:
    lists = ak.Array([[float(n), float(n)] for n in range(100)])
    numbers, weights = np.arange(100), np.full(100, 0.5)
    axes = [axis((100, 0, 100)), axis((50, 0, 100), "Jet_x")]
    params = {"axes": axes, "weight_expr": "w", "dataset_axis": True}
    for counted in both_ways({"x": numbers, "Jet_x": lists, "w": weights}, params):
        whole = counted.sum(axis=0)[1:-1, 1:-1]
        assert whole.tolist() == np.repeat(np.eye(50), 2, axis=0).tolist()


def test_bins_narrower_than_the_roundings_of_their_edges_are_searched_for() -> None:
    cut = (400, 1e15, 1e15 + 8)
    assert not guess_is_near(*cut)
    values = 1e15 + np.arange(-8, 80) / 8
    for counted in both_ways({"x": values}, {"axes": [axis(cut)]}):
        assert counted.tolist() == expected(values, cut)


def test_limits_without_a_finite_distance_are_refused() -> None:
    with pytest.raises(ValidationError, match="too far for bins"):
        Axis.model_validate(axis((10, -1e308, 1e308)))


def test_the_settings_state_the_edges_that_filling_goes_by() -> None:
    stated = Axis.model_validate(axis((100, 0, 100))).edges
    assert stated == tuple(map(float, range(101)))
