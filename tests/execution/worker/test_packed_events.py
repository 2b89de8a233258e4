"""Events leave a task packed: nothing twice, nothing beside them, and the same when they are unpacked."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote.analysis.operations.support.events import DatasetInfo, Events
from cenote.execution.worker.results.bundle import pack, packed, unpack

EVENTS = 5000
RNG = np.random.default_rng(3)
COUNTS = RNG.poisson(2.0, EVENTS)


def events_of(**columns: Any) -> Events:
    return Events(columns=columns, size=EVENTS, dataset=DatasetInfo("d"))


def jagged(dtype: str = "f8") -> ak.Array:
    return ak.unflatten(RNG.random(int(COUNTS.sum())).astype(dtype), COUNTS)


def travelled(events: Events) -> Events:
    found: Events = unpack(b"".join(pack(packed(events)))).unpacked()
    return found


def bytes_of(events: Events) -> int:
    return sum(len(part) for part in pack(packed(events)))


COLUMNS = {
    "flat": RNG.random(EVENTS),
    "matrix": RNG.random((EVENTS, 3)),
    "every_second": np.arange(2 * EVENTS)[::2],
    "transposed": RNG.random((3, EVENTS)).T,
    "flags": RNG.random(EVENTS) > 0.5,
    "texts": np.array(["a", "bcd"])[RNG.integers(0, 2, EVENTS)],
    "jagged": jagged("f4"),
    "of_booleans": jagged() > 0.5,
    "lists_in_lists": ak.unflatten(jagged(), np.full(EVENTS // 10, 10))[np.repeat(np.arange(EVENTS // 10), 10)],
    "records": ak.zip({"pt": jagged(), "eta": jagged("f4")}, with_name="Muon"),
    "missing": ak.mask(jagged(), RNG.random(EVENTS) > 0.2),
    "strings": ak.Array(["x" * (n % 4) for n in range(EVENTS)]),
    "backwards": jagged()[::-1],
    "chosen": jagged()[RNG.integers(0, EVENTS, EVENTS)],
    "one_by_one": ak.concatenate([jagged()[:10], jagged()[10:]]),
    "unions": ak.concatenate([ak.Array([1, 2.5]), ak.Array(["a"] * (EVENTS - 2))]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_the_same_when_it_arrives(name: str) -> None:
    column = COLUMNS[name]
    found = travelled(events_of(column=column))["column"]
    assert type(found) is type(column)
    if isinstance(column, np.ndarray):
        assert found.dtype == column.dtype
        assert np.array_equal(found, column)
    else:
        assert ak.type(found) == ak.type(column)
        assert ak.to_list(found) == ak.to_list(column)


def test_events_without_any_event_arrive() -> None:
    nothing = Events(columns={"x": np.array([]), "y": jagged()[:0]}, size=0, dataset=DatasetInfo("d"))
    found = travelled(nothing)
    assert (found.size, len(found["x"]), len(found["y"])) == (0, 0, 0)


def test_whatever_else_events_have_arrives() -> None:
    index = np.arange(EVENTS) + 7
    found = travelled(Events({"x": COLUMNS["flat"]}, EVENTS, DatasetInfo("d"), ("d", "e"), {"lumi": 3}, index))
    assert (found.dataset, found.datasets, found.constants) == (DatasetInfo("d"), ("d", "e"), {"lumi": 3})
    assert np.array_equal(found.index, index)


def test_offsets_that_columns_share_travel_once() -> None:
    chosen = RNG.random(EVENTS) > 0.5  # a selection gives each column offsets of its own
    one = events_of(pt=jagged()).where(chosen)
    three = events_of(pt=jagged(), eta=jagged(), phi=jagged()).where(chosen)
    values = one["pt"].layout.to_packed().content.data.nbytes
    assert bytes_of(three) - bytes_of(one) == pytest.approx(2 * values, abs=2000)


def test_columns_that_shared_offsets_share_them_afterwards() -> None:
    found = travelled(events_of(pt=jagged(), eta=jagged()))
    assert np.shares_memory(found["pt"].layout.offsets.data, found["eta"].layout.offsets.data)


def test_columns_of_equal_values_and_other_types_stay_apart() -> None:
    found = travelled(events_of(a=np.arange(EVENTS), b=np.arange(EVENTS, dtype="i4"), c=np.arange(EVENTS)))
    assert [found[name].dtype for name in "abc"] == [np.dtype("i8"), np.dtype("i4"), np.dtype("i8")]


@pytest.mark.parametrize("column", [COLUMNS["flat"], COLUMNS["jagged"], COLUMNS["records"]], ids=str)
def test_a_slice_leaves_what_it_was_cut_from_behind(column: Any) -> None:
    few = packed(Events(columns={"x": column[:50]}, size=50, dataset=DatasetInfo("d")))
    assert few.nbytes < 10_000
    assert not any(
        np.shares_memory(array, whole)
        for array in ak.to_buffers(few.unpacked()["x"])[2].values()
        for whole in ak.to_buffers(column)[2].values()
    )


def test_what_is_packed_is_not_copied() -> None:
    flat, nested = RNG.random(EVENTS), jagged()
    again = packed(packed(events_of(flat=flat, nested=nested)).unpacked()).unpacked()
    assert np.shares_memory(again["flat"], flat)
    assert np.shares_memory(again["nested"].layout.content.data, nested.layout.content.data)


def test_small_arrays_travel_in_one_piece() -> None:
    few = Events({f"c{n}": np.arange(10) + n for n in range(100)}, 10, DatasetInfo("d"))
    assert len([part for part in pack(packed(few)) if len(part)]) == 1


def test_a_behaviour_that_somebody_gave_a_column_stays_with_it() -> None:
    column = ak.Array([{"x": 1}] * EVENTS, with_name="two", behavior={("*", "two"): int})
    assert packed(events_of(column=column)).unpacked()["column"].behavior == column.behavior
