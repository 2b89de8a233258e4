"""Check that every branch that uproot reads is read, with equal values, however the entries are cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from builders.root_files import (
    VECTORS,
    Branch,
    Layout,
    LeafOfBytes,
    Member,
    as_table,
    flat,
    lists,
    lorentz_vector,
    objects,
    time_stamp,
    vector3,
    write_root_file,
)
from cenote.analysis.sources.root_tree import ttree as _ttree
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.common import errors

ENTRIES = 7
"""In two baskets, of 4 and 3 entries."""
LISTS = [[1.5], [], [2.5, 3.5], [4.5], [], [5.5, 6.5, 7.5], [8.5]]
NUMBERS = [1, 0, 2, 1, 0, 3, 1]
HIT = Layout("Hit", 2, (Member("position", "object", "TVector3"), Member("charge", "f4"), Member("cell", "u4")))
CUTS = [(0, 7), (0, 0, 4, 7), (0, 3, 6, 7), (0, 1, 2, 3, 4, 5, 6, 7)]


def cut(values: list[Any]) -> tuple[list[Any], list[Any]]:
    return values[:4], values[4:]


def some_branches() -> list[Branch]:
    rows = [(n / 8, n - 3, n / 3, [n, n + 1]) for n in range(ENTRIES)]
    packed = ">f4, >i4, >f8, (2,)>i2"
    p4s = [lorentz_vector(n, n / 3, -n, n * 10) for n in range(ENTRIES)]
    hits = [vector3(n, -n, n / 7) + as_table([(n / 3, n)], ">f4, >u4") for n in range(ENTRIES)]
    return [
        flat("count", "i4", *cut(NUMBERS)),
        *(flat(f"flat_{kind}", kind, *cut(NUMBERS)) for kind in ("b1", "i1", "u1", "i2", "u2", "u4", "i8", "u8", "f4")),
        flat("double32", "d32", *cut([0.1 * n for n in range(ENTRIES)])),
        lists("with_offsets", "f4", "count", *cut(LISTS)),
        lists("without_offsets", "f4", "count", *cut(LISTS), with_offsets=False),
        lists("double32_lists", "d32", "count", *cut(LISTS)),
        Branch(
            "leaf_list",
            (LeafOfBytes("a", "f4"), LeafOfBytes("b", "i4"), LeafOfBytes("c", "f8"), LeafOfBytes("d", "i2", length=2)),
            (as_table(rows[:4], packed), as_table(rows[4:], packed)),
            (4, 3),
        ),
        Branch("triple", (LeafOfBytes("triple", "f8", length=3),), (as_table(np.arange(21.0), ">f8"),), (7,)),
        objects("p4", "TLorentzVector", *cut(p4s)),
        objects("vertex", "TVector3", *cut([vector3(n, n / 3, -n) for n in range(ENTRIES)])),
        objects("time", "TTimeStamp", *cut([time_stamp(1_700_000_000 + n, n) for n in range(ENTRIES)])),
        objects("hit", "Hit", *cut(hits)),
        Branch("ss.", branches=(flat("ss.n", "i4", *cut(NUMBERS)), flat("ss.x", "f8", *cut(NUMBERS)))),
        Branch("group", branches=(flat("x", "f4", *cut(NUMBERS)),)),
        Branch("never", (LeafOfBytes("never", "f4"),)),
        objects("odd", "Mystery", *cut([b"odd!"] * ENTRIES)),
        Branch(
            "table", (LeafOfBytes("table", "f4", 2), LeafOfBytes("y", "f4", 2)), (as_table(np.arange(28), ">f4"),), (7,)
        ),
    ]


@pytest.fixture(params=["", "zlib", "zstd"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "a.root"
    trees = {"Events": (ENTRIES, some_branches())}
    write_root_file(file, trees, classes=(*VECTORS, HIT), compression=request.param)
    return file


COLUMNS = {
    "leaf_list": ("a", "b", "c", "d"),
    "p4": ("fP.fX", "fP.fY", "fP.fZ", "fE"),
    "vertex": ("fX", "fY", "fZ"),
    "time": ("fSec", "fNanoSec"),
    "hit": ("position.fX", "position.fY", "position.fZ", "charge", "cell"),
}
"""Branch → the numbers of its objects."""
WITHOUT_VALUES = {
    "never": "was never filled",
    "odd": "which no column of numbers or texts can hold",
    "table": "which no column of numbers or texts can hold",
}


@pytest.mark.parametrize("cuts", CUTS, ids=str)
def test_every_branch_has_the_values_that_uproot_reads(path: Path, cuts: tuple[int, ...]) -> None:
    expected = uproot_reads(path)
    pieces = [RootTreeSource().read(str(path), list(expected), *piece) for piece in pairwise(cuts)]
    for name, values in expected.items():
        found = ak.concatenate([piece[name] for piece in pieces])
        assert ak.array_equal(found, values, dtype_exact=True, check_regular=False), name
        assert len({str(ak.type(piece[name][:0])) for piece in pieces}) == 1, name


def uproot_reads(path: Path) -> dict[str, Any]:
    """The values of every branch that has some, by its path; of objects, those of each number."""
    found: dict[str, Any] = {}
    with uproot.open(path) as file:
        for name, branch in file["Events"].iteritems(full_paths=True):
            if branch.branches or name in WITHOUT_VALUES:
                continue
            if name == "leaf_list":
                array = branch.array(library="np")
                found |= {f"{name}.{part}": array[part] for part in COLUMNS[name]}
            else:
                array = branch.array()
                parts = COLUMNS.get(name, ())
                found |= {f"{name}.{part}": array[tuple(part.split("."))] for part in parts} or {name: array}
    assert len(found) > 30
    return found


def test_a_branch_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    write_root_file(tmp_path / "a.root", {"Events": (5, [flat("x", "f4", [1, 2, 3]), flat("y", "f4", range(5))])})
    url = str(tmp_path / "a.root")
    assert RootTreeSource().read(url, ["x"], 1, 3)["x"].tolist() == [2, 3]
    with pytest.raises(errors.CenoteError, match=r"'x' of .*a\.root was filled for some entries only"):
        RootTreeSource().read(url, ["y", "x"], 2, 5)


def test_objects_have_a_column_for_each_number(path: Path) -> None:
    columns = RootTreeSource().describe(str(path)).columns
    for name, parts in COLUMNS.items():
        flat_names = [f"{name}_{part}".replace(".", "_") for part in parts]
        assert [column for column in columns if column.startswith(f"{name}_")] == flat_names
    assert {"ss_n", "ss_x", "group_x", "triple", "without_offsets"} <= columns.keys()


def test_a_branch_that_cannot_be_a_column_says_why_and_the_others_are_read(path: Path) -> None:
    columns = RootTreeSource().describe(str(path)).columns
    unreadable = {name: column.unreadable for name, column in columns.items() if column.unreadable}
    assert unreadable.keys() == WITHOUT_VALUES.keys()
    for name, reason in WITHOUT_VALUES.items():
        assert reason in unreadable[name]
        with pytest.raises(errors.CenoteError, match=reason):
            RootTreeSource().read(str(path), ["count", name], 0, ENTRIES)


@pytest.mark.parametrize("entries", [(0, 0), (0, 7), (0, 4), (3, 5)])
def test_a_double32_is_double_precision_however_it_is_stored_and_cut(path: Path, entries: tuple[int, int]) -> None:
    found = RootTreeSource().read(str(path), ["double32", "double32_lists"], *entries)
    assert found["double32"].dtype == np.float64
    assert str(found["double32_lists"].type).endswith("var * float64")


def test_a_branch_is_found_by_its_path(path: Path) -> None:
    found = RootTreeSource().read(str(path), ["ss./ss.n", "ss.n", "ss_n", "group/x"], 0, ENTRIES)
    assert found["ss./ss.n"].tolist() == found["ss.n"].tolist() == found["ss_n"].tolist() == NUMBERS
    assert found["group/x"].tolist() == NUMBERS


def test_a_branch_below_another_is_not_taken_for_a_column_of_its_name(tmp_path: Path) -> None:
    nested = [Branch("other", branches=(flat("a_b", "i4", [1, 2]),)), Branch("a", branches=(flat("b", "i4", [3, 4]),))]
    write_root_file(tmp_path / "a.root", {"Events": (2, nested)})
    assert RootTreeSource().read(str(tmp_path / "a.root"), ["a_b"], 0, 2)["a_b"].tolist() == [3, 4]


@pytest.mark.parametrize("begin", [64, 100, 256])
def test_files_whose_first_record_is_elsewhere_are_root_files(tmp_path: Path, begin: int) -> None:
    write_root_file(tmp_path / "a.root", {"Events": (3, [flat("x", "f8", [1, 2, 3])])}, begin=begin)
    assert RootTreeSource().describe(str(tmp_path / "a.root")).entries == 3
    assert RootTreeSource().read(str(tmp_path / "a.root"), ["x"], 1, 3)["x"].tolist() == [2, 3]


@pytest.mark.parametrize("entries", [0, 5])
def test_a_tree_without_baskets_is_described(tmp_path: Path, entries: int) -> None:
    write_root_file(tmp_path / "a.root", {"Events": (entries, [Branch("x", (LeafOfBytes("x", "f4"),))])})
    info = RootTreeSource().describe(str(tmp_path / "a.root"))
    assert (info.entries, list(info.columns), info.boundaries[-1]) == (entries, ["x"], entries)
    assert bool(info.columns["x"].unreadable) == (entries > 0)


def test_branches_whose_names_differ_in_dots_keep_their_own_names(tmp_path: Path) -> None:
    clashing = [flat("a.b", "i4", [1, 2]), flat("a_b", "i4", [3, 4]), flat("c.d", "i4", [5, 6])]
    write_root_file(tmp_path / "a.root", {"Events": (2, clashing)})
    url = str(tmp_path / "a.root")
    assert set(RootTreeSource().describe(url).columns) == {"a.b", "a_b", "c_d"}
    found = RootTreeSource().read(url, ["a_b", "a.b"], 0, 2)
    assert {name: column.tolist() for name, column in found.items()} == {"a_b": [3, 4], "a.b": [1, 2]}


@pytest.mark.parametrize(("dims", "is_refused"), [((3,), True), ((), False)])
def test_lists_of_arrays_of_packed_numbers_are_refused_because_uproot_gives_wrong_values(
    dims: tuple[int, ...], is_refused: bool
) -> None:
    """Seen in ROOT's `Event.root`, `fTracks.fVertex[3]`, with uproot 5.7: each read gave other values."""
    packed = uproot.interpretation.numerical.AsDouble32(-30.0, 30.0, 16, dims)
    assert _ttree._is_read_wrongly(uproot.AsJagged(packed)) is is_refused
    assert not _ttree._is_read_wrongly(packed)
