"""Variations as a band: the envelope of each group, groups in quadrature."""

from __future__ import annotations

import numpy as np

from cenote.analysis.renderers.interface import DrawContext
from cenote.analysis.renderers.support.compared import envelope
from cenote.language.systematics import VariationSide

NOMINAL = np.array([10.0, 10.0, 10.0])
CONTEXT = DrawContext(stage="H", sides={"alone": VariationSide("theory")})


def test_up_and_down_reach_to_both_sides() -> None:
    found = envelope(NOMINAL, {"a_up": np.array([12.0, 11.0, 10.0]), "a_down": np.array([9.0, 9.5, 10.0])}, CONTEXT)
    assert found is not None
    assert found.up.tolist() == [2, 1, 0]
    assert found.down.tolist() == [1, 0.5, 0]


def test_of_two_to_the_same_side_the_larger_counts() -> None:
    found = envelope(NOMINAL, {"a_up": np.array([12.0, 9, 9]), "a_down": np.array([13.0, 8, 9])}, CONTEXT)
    assert found is not None
    assert found.up.tolist() == [3, 0, 0]
    assert found.down.tolist() == [0, 2, 1]


def test_groups_and_statistics_add_in_quadrature() -> None:
    varied = {"a_up": np.array([13.0, 10, 10]), "a_down": NOMINAL, "b_up": np.array([14.0, 10, 6]), "b_down": NOMINAL}
    found = envelope(NOMINAL, varied, CONTEXT)
    assert found is not None
    assert found.up.tolist() == [5, 0, 0]
    assert found.down.tolist() == [0, 0, 4]
    assert found.with_errors(np.array([12.0, 1, 3])).down.tolist() == [12, 1, 5]


def test_a_variation_without_a_counterpart_is_mirrored() -> None:
    found = envelope(NOMINAL, {"a_up": np.array([13.0, 10, 10]), "alone": np.array([14.0, 10, 6])}, CONTEXT)
    assert found is not None
    assert found.up.tolist() == found.down.tolist() == [5, 0, 4]


def test_what_does_not_vary_has_no_band() -> None:
    assert envelope(NOMINAL, {}, CONTEXT) is None
