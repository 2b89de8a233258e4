"""Branches of a workflow come together again without losing or doubling an event."""

from __future__ import annotations

import awkward as ak
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.execution.worker.join import one_after_the_other, side_by_side


def events(size: int = 6) -> Events:
    columns = {"x": np.arange(size), "jagged": ak.Array([[n] * (n % 3) for n in range(size)])}
    return Events(columns=columns, size=size, dataset=DatasetInfo("d"))


def test_branches_that_kept_all_events_join_their_columns() -> None:
    start = events()
    joined = side_by_side([start.with_columns({"a": start["x"] + 1}), start.with_columns({"b": start["x"] * 2})])
    assert set(joined.names) == {"x", "jagged", "a", "b"}
    assert joined.size == 6
    assert joined.index is None


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_branches_that_chose_events_join_the_ones_that_both_kept(kept: list[tuple[bool, bool]]) -> None:
    start = events(len(kept))
    one = start.where(np.array([k[0] for k in kept])).with_columns({})
    other = start.with_columns({"y": start["x"] * 10}).where(np.array([k[1] for k in kept]))
    joined = side_by_side([one, other])
    expected = [n for n, (first, second) in enumerate(kept) if first and second]
    assert joined["x"].tolist() == expected
    assert joined["y"].tolist() == [10 * n for n in expected]
    assert joined["jagged"].to_list() == [[n] * (n % 3) for n in expected]
    assert joined.size == len(expected)


def test_partitions_follow_each_other_in_order() -> None:
    parts = [events(3), events(0), events(2)]
    whole = one_after_the_other(parts, ["x", "jagged"])
    assert whole["x"].tolist() == [0, 1, 2, 0, 1]
    assert whole["jagged"].to_list() == [[], [1], [2, 2], [], [1]]
    assert whole.size == 5
