"""Events that are kept for later runs: plain data, compressed, the same bit for bit, and laid over the right events."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.execution.worker.results.bundle import DATA, bodies_of, pack, unpack
from cenote.execution.worker.results.kept_events import (
    NotKeptError,
    data_in,
    done_again,
    from_kept,
    kept_data,
    size_of,
    what_it_did,
    within,
)

BARE = Events(columns={}, size=0, dataset=DatasetInfo("d"))
MANY = 6000
"""Values that are worth to be compressed."""
RNG = np.random.default_rng(3)
COUNTS = RNG.poisson(2.0, MANY)


def events_of(size: int, index: Any = None, **columns: Any) -> Events:
    return Events(columns=columns, size=size, index=index, dataset=DatasetInfo("d"))


def rows_of(events: Events) -> list[int]:
    return [*map(int, np.asarray(events.index))]


def packed(events: Events) -> bytes:
    return b"".join(pack({"S:columns": kept_data(events, 1.0, always=True)}))


def again(events: Events) -> Events:
    return from_kept(data_in(unpack(packed(events)), "S:columns"), BARE).events


def buffers_of(column: Any) -> Any:
    """Everything that a column is made of, bit for bit."""
    if isinstance(column, np.ndarray):
        return column.dtype.str, column.shape, column.tobytes()
    form, length, arrays = ak.to_buffers(ak.to_packed(column))
    return form.to_json(), length, {name: (one.dtype.str, one.tobytes()) for name, one in arrays.items()}


def jagged(kind: str = "f4") -> ak.Array:
    return ak.unflatten(RNG.random(int(COUNTS.sum())).astype(kind), COUNTS)


COLUMNS = {
    "float32": RNG.random(MANY).astype("f4"),
    "float64": RNG.random(MANY),
    "int16": RNG.integers(-5, 5, MANY).astype("i2"),
    "big_endian": RNG.random(MANY).astype(">f8"),
    "flags": RNG.random(MANY) > 0.5,
    "complex": RNG.random(MANY) + 1j,
    "times": np.arange(MANY).astype("M8[s]"),
    "texts": np.array(["a", "bcd"])[RNG.integers(0, 2, MANY)],
    "matrix": RNG.random((MANY, 3)),
    "transposed": RNG.random((3, MANY)).T,
    "every_second": np.arange(2 * MANY)[::2],
    "jagged": jagged(),
    "jagged_flags": jagged() > 0.5,
    "lists_in_lists": ak.unflatten(jagged(), np.full(MANY // 10, 10))[np.repeat(np.arange(MANY // 10), 10)],
    "records": ak.zip({"pt": jagged(), "eta": jagged("f8")}, with_name="Muon"),
    "options": ak.mask(jagged(), RNG.random(MANY) > 0.2),
    "strings": ak.Array(["x" * (n % 4) for n in range(MANY)]),
    "nothing": ak.Array([None] * MANY),
    "unions": ak.concatenate([ak.Array([1, 2.5]), ak.Array(["a"] * (MANY - 2))]),
    "regular": ak.to_regular(ak.Array(RNG.random((MANY, 2)))),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_the_same_bit_for_bit(name: str) -> None:
    events = events_of(MANY, column=COLUMNS[name])
    found = again(events)["column"]
    assert type(found) is type(COLUMNS[name])
    assert buffers_of(found) == buffers_of(COLUMNS[name])


def test_what_is_kept_is_data() -> None:
    bodies = bodies_of(packed(events_of(MANY, **COLUMNS)))
    assert {body.codec for body in bodies.values()} == {DATA}


def test_columns_may_be_written_to_as_those_of_the_stage() -> None:
    found = again(events_of(MANY, small=np.zeros(MANY, "?"), random=RNG.random(MANY).astype("f4")))
    assert all(column.flags.writeable for column in found.columns.values())


@settings(deadline=None)
@given(
    values=hnp.arrays(
        st.one_of(hnp.floating_dtypes(), hnp.integer_dtypes(), hnp.unicode_string_dtypes()),
        st.sampled_from([0, 1, 7, 3000]),
    )
)
def test_any_array_of_numbers_or_texts_is_the_same(values: Any) -> None:
    found = again(events_of(len(values), column=values))["column"]
    assert buffers_of(found) == buffers_of(values)


LISTS = st.recursive(
    st.one_of(st.none(), st.floats(), st.text(max_size=3)), lambda inner: st.lists(inner, max_size=3), max_leaves=20
)


@settings(deadline=None)
@given(values=st.lists(LISTS, min_size=1, max_size=20))
def test_any_awkward_array_is_the_same(values: list[Any]) -> None:
    column = ak.Array(values)
    found = again(events_of(len(values), column=column))["column"]
    assert buffers_of(found) == buffers_of(column)


def test_numbers_take_less_room_than_in_memory() -> None:
    events = events_of(MANY, np.arange(0, 2 * MANY, 2), offsets=np.cumsum(COUNTS), flags=COLUMNS["flags"])
    whole = 8 * MANY + sum(column.nbytes for column in events.columns.values())
    assert size_of(kept_data(events, 1.0, always=True)) < whole / 4


@pytest.mark.parametrize(
    ("seconds", "values", "kept"),
    [(0.009, 1, False), (0.011, 1, True), (0.011, 10**6, False), (0.5, 10**6, False), (1.0, 10**6, True)],
    ids=["short", "small", "large and short", "large and not ten times dearer", "large and dear"],
)
def test_what_is_dear_is_kept(seconds: float, values: int, kept: bool) -> None:
    events = events_of(values, column=np.zeros(values))
    assert (kept_data(events, seconds, always=False) is not None) == kept
    assert kept_data(events, seconds, always=True) is not None


def test_what_nobody_knows_how_to_write_is_not_kept() -> None:
    objects = np.array([{}, []], dtype=object)
    masked = np.ma.array([1, 2])
    for column in (objects, masked, np.zeros(2, [("a", "f4")])):
        assert kept_data(events_of(2, column=column), 1.0, always=True) is None


# what a stage did


def test_a_stage_that_adds_columns_is_done_again() -> None:
    before = events_of(3, np.array([1, 4, 6]), a=np.array([1, 2, 3]))
    did = what_it_did(before, before.with_columns({"b": np.array([4, 5, 6])}), ("b",))
    assert did is not None
    found = done_again(again(did), before)
    assert {name: column.tolist() for name, column in found.columns.items()} == {"a": [1, 2, 3], "b": [4, 5, 6]}
    assert rows_of(found) == [1, 4, 6]


@pytest.mark.parametrize("index", [None, np.arange(0, 12, 2)], ids=["of all events", "of some"])
def test_a_stage_that_selects_is_done_again(index: Any) -> None:
    before = events_of(6, index, a=np.arange(6), lists=ak.Array([[n] for n in range(6)]))
    after = before.where(np.array([False, True, False, True, True, False]))
    did = what_it_did(before, after, ())
    assert did is not None
    assert not did.columns
    found = done_again(again(did), before)
    assert found["a"].tolist() == [1, 3, 4]
    assert found["lists"].tolist() == [[1], [3], [4]]
    assert rows_of(found) == rows_of(after)


def test_a_stage_that_repeats_events_is_done_again() -> None:
    before = events_of(3, None, a=np.array([7, 8, 9]))
    rows = np.array([0, 0, 2])
    after = Events(columns={"a": before["a"][rows]}, size=3, index=rows, dataset=before.dataset)
    did = what_it_did(before, after, ())
    assert did is not None
    assert done_again(again(did), before)["a"].tolist() == [7, 7, 9]


def test_what_does_not_tell_its_events_is_not_kept() -> None:
    before = events_of(3, None, a=np.arange(3))
    without_index = events_of(2, None, a=np.arange(2))
    assert what_it_did(before, without_index, ()) is None
    repeated = events_of(4, np.array([0, 0, 1, 2]), a=np.arange(4))
    assert what_it_did(repeated, repeated.where(np.array([True, False, True, True])), ()) is None


def test_a_part_of_the_partition_gets_its_events() -> None:
    did = again(events_of(3, np.array([1, 4, 6]), b=np.array([10, 40, 60])))
    before = events_of(3, np.array([3, 4, 5]), a=np.array([3, 4, 5]))
    found = done_again(within(did, (3, 6)), before)
    assert (found["a"].tolist(), found["b"].tolist(), rows_of(found)) == ([4], [40], [4])


def test_other_events_are_refused() -> None:
    did = events_of(2, np.array([1, 9]))
    with pytest.raises(NotKeptError):
        done_again(did, events_of(3, np.array([1, 2, 3])))


@pytest.mark.parametrize(
    "change",
    [
        {"events": 3},
        {"columns": {"a": ("<f8", (2,), np.zeros(3, "u1"))}},
        {"columns": {"a": ("|O", (2,), np.zeros(3, "u1"))}},
        {"columns": {"a": {"form": {"class": "Nonsense"}, "length": 2, "arrays": {}}}},
        {"columns": [1]},
        {"index": "one"},
        {"seconds": None},
    ],
    ids=["size", "cut", "objects", "form", "columns", "index", "seconds"],
)
def test_what_is_forged_is_refused(change: dict[str, Any]) -> None:
    data = {"events": 2, "seconds": 1.0, "index": None, "columns": {"a": np.zeros(2)}}
    assert from_kept(data, BARE).events.size == 2
    with pytest.raises(NotKeptError):
        from_kept({**data, **change}, BARE)
