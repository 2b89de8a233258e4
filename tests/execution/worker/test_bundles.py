"""The products of a task are packed each by itself: as data, bit for bit, where they are data."""

from __future__ import annotations

import copy
import pickle
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import hist
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from cenote.analysis.products.cutflow import Cutflow, CutflowRow
from cenote.analysis.products.histogram import HistogramProduct
from cenote.analysis.products.support import fill_sums
from cenote.analysis.products.support.histogram_data import NotDataError, histogram_data, histogram_from
from cenote.analysis.products.table import GroupedTable, Total
from cenote.execution.worker.results.bundle import (
    DATA,
    PICKLE,
    NotPackedError,
    PackedProducts,
    bodies_of,
    decoded,
    pack,
    pack_whole,
    packed_bundle,
    unpack,
)


def packed(value: Any) -> bytes:
    return b"".join(pack(value))


def through(product: Any, *, codec: int = DATA) -> Any:
    whole = packed({"P": product})
    assert bodies_of(whole)["P"].codec == codec
    return unpack(whole)["P"]


AXES = [
    hist.axis.Regular(7, 0.1, 0.7, name="x", label="$p_T$"),
    hist.axis.Regular(7, 0.1, 0.7, name="x", flow=False),
    hist.axis.Regular(7, 0.1, 0.7, underflow=False),
    hist.axis.Regular(7, 0.1, 0.7, circular=True),
    hist.axis.Regular(7, -3, 0.7, growth=True),
    hist.axis.Variable([0.1, 0.3, 1.7], name="v"),
    hist.axis.Variable([0.1, 0.3, 1.7], overflow=False),
    hist.axis.Variable([0.1, 0.3, 1.7], circular=True),
    hist.axis.Integer(-2, 5, name="i", metadata="units"),
    hist.axis.Integer(0, 3, flow=False),
    hist.axis.Integer(0, 3, growth=True),
    hist.axis.IntCategory([4, -1, 7], name="c"),
    hist.axis.IntCategory([], growth=True),
    hist.axis.StrCategory(["one", "zwölf", ""], overflow=False, name="s"),
    hist.axis.StrCategory(["one"], growth=True, label="dataset"),
    hist.axis.StrCategory(["one"]),
    hist.axis.StrCategory([], growth=True),
    hist.axis.Boolean(name="b"),
]
STORAGES = ["Weight", "Int64", "Double", "Mean", "WeightedMean", "AtomicInt64"]


def a_histogram(*axes: Any, storage: str = "Weight", seed: int = 1) -> Any:
    found = hist.Hist(*axes, storage=getattr(hist.storage, storage)(), name="h", label="events")
    view, rng = np.asarray(found.view(flow=True)), np.random.default_rng(seed)
    for part in [view[name] for name in view.dtype.names] if view.dtype.names else [view]:
        part[...] = (rng.normal(size=part.shape) * 1000).astype(part.dtype)
        if part.dtype.kind == "f" and part.size > 2:
            part.flat[:3] = np.nan, -0.0, np.inf
    return found


def state(histogram: Any) -> list[Any]:
    return [one.tobytes() if isinstance(one, np.ndarray) else one for one in histogram._hist.__getstate__()]


def demand_same(found: Any, given: Any) -> None:
    assert type(found) is type(given)
    assert state(found) == state(given)
    assert found.__dict__.keys() == given.__dict__.keys()
    assert [axis.__dict__ for axis in found.axes] == [axis.__dict__ for axis in given.axes]
    assert found.axes == given.axes


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("axis", AXES, ids=repr)
def test_a_histogram_comes_back_bit_for_bit(axis: Any, storage: str) -> None:
    given = a_histogram(axis, storage=storage)
    demand_same(through(given), given)
    demand_same(through({"signal": given})["signal"], given)


@given(st.lists(st.sampled_from(AXES), min_size=1, max_size=3), st.sampled_from(STORAGES), st.integers(0, 9))
def test_histograms_of_several_axes_come_back(axes: list[Any], storage: str, seed: int) -> None:
    unnamed = [copy.deepcopy(axis) for axis in axes]
    for axis in unnamed:
        axis.__dict__["name"] = ""
    given = a_histogram(*unnamed, storage=storage, seed=seed)
    demand_same(through(given), given)


def test_histograms_share_nothing_with_each_other() -> None:
    given = a_histogram(AXES[0])
    one, other = through(given), through(given)
    one.axes[0].label = "changed"
    one.view(flow=True).value[...] = 0
    demand_same(other, given)
    assert given.axes[0].label == "$p_T$"


def test_the_sums_of_what_filled_a_histogram_come_along() -> None:
    given = hist.Hist(hist.axis.StrCategory(["a", "b"], name="d"), hist.axis.Regular(3, 0, 1, name="x"))
    fill_sums.begin(given)
    fill_sums.add(given, (0,), 3, [0.25, 0.125])
    fill_sums.seal(given)
    found = through(given)
    assert_array_equal(fill_sums.sums_of(found), fill_sums.sums_of(given))
    merged = HistogramProduct().merge([found, through(given)])
    assert_array_equal(merged.view(flow=True), HistogramProduct().merge([given, given]).view(flow=True))


def test_limits_that_no_constructor_gives_back_keep_their_last_bit() -> None:
    axis = hist.axis.Regular(3, 0.1, 1e17 / 3, name="x")
    demand_same(through(a_histogram(axis)), a_histogram(axis))


class Labelled(hist.Hist[Any], family=object()):
    """Somebody's own kind of histogram."""


class Thing:
    """Somebody's own class."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing)

    __hash__ = None  # type: ignore[assignment]


def a_loop() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "product",
    [
        Labelled(AXES[0]),
        hist.Hist(AXES[0], storage=hist.storage.Unlimited()),
        hist.Hist(hist.axis.Regular(3, 1, 10, transform=hist.axis.transform.log)),
        hist.Hist(hist.axis.Regular(3, 1, 10, metadata=[1])),
        Thing(),
        [1, {"x": (Thing(),)}],
        {1, 2},
        2**64,
        "\ud800",
        np.array([Thing()], dtype=object),
        np.zeros(3, dtype=[("a", "f8")]),
        a_loop(),
        Path("x"),
    ],
    ids=lambda product: type(product).__name__,
)
def test_what_is_no_data_is_pickled(product: Any) -> None:
    found = through(product, codec=PICKLE)
    assert type(found) is type(product)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.sampled_from(
        [np.float64(1.5), np.float32("nan"), np.int8(-3), np.bool_(1), np.str_("ä"), np.datetime64(3, "ns")]
    ),
)
KINDS = ["f8", ">f4", "i2", "u8", "?", "c16", "U3", "S2", "M8[s]", "m8[us]"]


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    found = np.arange(np.prod(shape, dtype=int)).astype("i8").astype(draw(st.sampled_from(KINDS))).reshape(shape)
    return draw(st.sampled_from([found, found.T, found[::2] if found.ndim else found, np.asfortranarray(found)]))


PLAIN = st.recursive(
    SCALARS | arrays(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.tuples(st.integers(0, 9), st.text()), inner)
        | st.lists(st.tuples(inner, inner))
        | st.lists(st.fixed_dictionaries({"path": st.text(), "n": inner}))
    ),
    max_leaves=12,
)


def same(found: Any, given: Any) -> bool:
    """To the bit, and to the type."""
    if type(found) is not type(given):
        return False
    if isinstance(given, np.ndarray | np.generic):
        alike = found.dtype == given.dtype and found.shape == given.shape
        order = not isinstance(given, np.ndarray) or found.flags.f_contiguous == given.flags.f_contiguous
        return alike and found.tobytes() == given.tobytes() and (order or not given.flags.forc)
    if isinstance(given, dict):
        return [*found] == [*given] and all(same(found[key], given[key]) for key in given)
    if isinstance(given, list | tuple):
        return len(found) == len(given) and all(map(same, found, given))
    return pickle.dumps(found) == pickle.dumps(given)


@given(PLAIN)
def test_plain_values_come_back_bit_for_bit(value: Any) -> None:
    assert same(through(value), value)


def test_large_arrays_are_neither_copied_nor_writable_small_ones_are_writable() -> None:
    column = np.arange(100_000.0)
    grid = np.asfortranarray(column.reshape(100, 1000))
    parts = pack({"x": [column, column], "y": grid, "n": np.arange(3)})
    assert sum(memoryview(part).nbytes for part in parts) < 2 * column.nbytes + 1000
    assert any(isinstance(part, memoryview) and np.shares_memory(np.asarray(part), column) for part in parts)
    found = unpack(b"".join(parts))
    assert found["x"][0] is found["x"][1]
    assert not found["x"][0].flags.writeable
    assert same(found["y"], grid)
    found["n"][0] = 7


def a_row(n: int, **more: Any) -> CutflowRow:
    counts = {"n_unweighted_in": n, "n_unweighted_out": n // 2, "sumw_in": 1.5 * n, "sumw_out": float("nan")}
    words = {"dataset": "signal", "name": f"All[{n}]", "selection": "All", "index": n, "label": "cut", "expr": "x > 1"}
    facts = {"kind": "expression", "parents": ("a", "b")[:n], "weighted": True, "sumw2_in": 0.1, "sumw2_out": -0.0}
    return CutflowRow(**{**words, **facts, **counts, **more})


@pytest.mark.parametrize(
    "product",
    [
        Cutflow(()),
        Cutflow((a_row(1),)),
        Cutflow(tuple(map(a_row, range(5)))),
        {"signal": Cutflow((a_row(1, sumw_in=np.float64(3)),))},
        GroupedTable(("hour",), (("n", "sum"),), {}),
        GroupedTable(("h", "d"), (("n", "sum"),), {(1, "a"): (Total(3, 1.5, 1, 2),), (np.int64(2), "b"): (Total(0),)}),
        [{"path": "a.root", "entries": 3}, {"path": "b.root", "entries": 4, "shown": True}],
    ],
    ids=["no cut", "one cut", "cuts", "by dataset", "no group", "groups", "files"],
)
def test_cutflows_tables_and_lists_of_files_are_data(product: Any) -> None:
    found = through(product)
    assert repr(found) == repr(product)
    assert pickle.loads(pickle.dumps(found)).__class__ is type(product)


def test_one_product_is_read_without_the_others() -> None:
    whole = bytearray(packed({"good": [1, 2], "bad": "x" * 100}))
    whole[-101] = 0xC1  # no value begins so
    found = unpack(bytes(whole))
    assert found["good"] == [1, 2]
    assert [*found] == ["good", "bad"]
    assert found["good"] is found["good"]
    with pytest.raises(NotPackedError):
        found["bad"]


def test_a_bundle_is_made_of_parts_of_others_without_reading_them() -> None:
    one = bodies_of(packed({"a": np.arange(5000.0), "b": 1}))
    other = bodies_of(packed({"c": Thing()}))
    made = {"c": other["c"], "x": one["a"], "b": one["b"]}
    found = unpack(b"".join(packed_bundle((name, body.codec, [body.content]) for name, body in made.items())))
    assert isinstance(found, PackedProducts)
    assert {**found, "x": 0} == {"c": Thing(), "x": 0, "b": 1}
    assert_array_equal(found["x"], np.arange(5000.0))
    assert found["x"].__array_interface__["data"][0] % 16 == 0


def test_products_that_travel_further_are_an_ordinary_mapping() -> None:
    found = pickle.loads(pickle.dumps(unpack(packed({"a": 1, "b": Thing()}))))
    assert type(found) is dict
    assert found == {"a": 1, "b": Thing()}


def test_what_is_packed_whole_has_what_its_parts_share_once() -> None:
    column = np.arange(100_000.0)
    found = unpack(b"".join(pack_whole({"a": [column], "b": [column]})))
    assert type(found) is dict
    assert found["a"][0] is found["b"][0]


def test_only_mappings_by_names_are_bundles() -> None:
    assert unpack(packed([1, 2])) == [1, 2]
    assert unpack(packed({1: 2})) == {1: 2}
    assert unpack(packed({})) == {}
    with pytest.raises(NotPackedError):
        unpack(b"something else entirely")


def test_a_forged_histogram_takes_no_more_memory_than_its_numbers() -> None:
    form, attributes, bins = histogram_data(a_histogram(hist.axis.Regular(100, 0, 1)))
    storage, axes, own = msgspec.msgpack.decode(form)
    axes[0][1][0] = 200_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotDataError):
        histogram_from(msgspec.msgpack.encode((storage, axes, own)), attributes, bins)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 500_000  # KB


@given(st.data())
def test_forged_data_is_refused_or_harmless(data: st.DataObject) -> None:
    product = [a_histogram(AXES[0]), a_row(2), {"x": np.arange(3)}, (1, 2.5)]
    whole = bytearray(bodies_of(packed({"P": product}))["P"].content)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    body = bodies_of(b"".join(packed_bundle([("P", DATA, [bytes(whole)])])))["P"]
    with suppress(NotPackedError):
        decoded(body)
