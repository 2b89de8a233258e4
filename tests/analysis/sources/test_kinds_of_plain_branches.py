"""Check the kinds of branches that we decode ourselves against uproot: bit for bit, type for type."""

from __future__ import annotations

import struct
from itertools import accumulate
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from builders.root_files import Branch, flat, lists, write_root_file
from cenote.analysis.sources.root_tree import plain_file, reading
from cenote.analysis.sources.root_tree.source import RootTreeSource

RANGES = [(0, 7), (0, 4), (4, 7), (1, 3), (3, 6), (6, 7)]


def read_by_uproot(path: Path, name: str, start: int, stop: int) -> Any:
    with uproot.open(path) as file:
        found = file["Events"][name].array(entry_start=start, entry_stop=stop)
    return ak.from_regular(found, axis=None) if found.ndim > 1 else found


def assert_the_same(path: Path, name: str, start: int, stop: int) -> None:
    found, expected = (
        RootTreeSource().read(str(path), [name], start, stop)[name],
        read_by_uproot(path, name, start, stop),
    )
    assert ak.array_equal(found, expected, dtype_exact=True), (name, found, expected)
    assert ak.type(ak.Array(found)) == ak.type(expected)


@pytest.fixture
def decoded_by_uproot(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The branches that are left to it."""
    asked: list[str] = []
    array = uproot.behaviors.TBranch.TBranch.array

    def counted(branch: Any, *args: Any, **options: Any) -> Any:
        asked.append(branch.name)
        return array(branch, *args, **options)

    monkeypatch.setattr(uproot.behaviors.TBranch.TBranch, "array", counted)
    return asked


def vector_of(kind: str, entry: list[float]) -> bytes:
    """A `std::vector` as ROOT stores it: byte count, version, length, values."""
    values = np.asarray(entry).astype(np.dtype(kind).newbyteorder(">")).tobytes()
    return struct.pack(">IHI", (len(values) + 6) | 0x4000_0000, 9, len(entry)) + values


def vectors(name: str, class_name: str, kind: str, *pieces: list[list[float]]) -> Branch:
    entries = [[vector_of(kind, entry) for entry in piece] for piece in pieces]
    offsets = tuple(tuple(accumulate(map(len, piece[:-1]), initial=0)) for piece in entries)
    return Branch(name, (), tuple(map(b"".join, entries)), tuple(map(len, entries)), offsets, class_name=class_name)


PIECES = ([[1, 2, 3], [], [4], [5, 6]], [[7], [], [8, 9, 10, 11]])


@pytest.mark.parametrize("compression", ["", "zlib", "zstd"])
@pytest.mark.parametrize(("start", "stop"), RANGES)
@pytest.mark.parametrize(
    ("class_name", "kind"),
    [("vector<float>", "f4"), ("vector<double>", "f8"), ("vector<int>", "i4"), ("vector<unsigned short>", "u2"),
     ("vector<char>", "i1"), ("vector<bool>", "?"), ("vector<Long64_t>", "i8")],
)  # fmt: skip
def test_vectors(
    tmp_path: Path, decoded_by_uproot: list[str], class_name: str, kind: str, start: int, stop: int, compression: str
) -> None:
    path = tmp_path / "a.root"
    write_root_file(path, {"Events": (7, [vectors("v", class_name, kind, *PIECES)])}, compression=compression)
    assert plain_file.plain_file(str(path), None).describe() == reading.describe(str(path), None)
    found = RootTreeSource().read(str(path), ["v"], start, stop)["v"]
    assert decoded_by_uproot == []
    assert ak.num(found).to_list() == [len(entry) for piece in PIECES for entry in piece][start:stop]
    assert_the_same(path, "v", start, stop)


@pytest.mark.parametrize("compression", [uproot.ZSTD(1), uproot.ZLIB(1), uproot.LZ4(1), uproot.LZMA(1), None])
@pytest.mark.parametrize(("start", "stop"), [(0, 700), (0, 400), (100, 300), (399, 401), (500, 501)])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (1,)])
def test_arrays_of_a_fixed_size(
    tmp_path: Path, decoded_by_uproot: list[str], shape: tuple[int, ...], start: int, stop: int, compression: Any
) -> None:
    random, path = np.random.default_rng(5), tmp_path / "a.root"
    with uproot.recreate(path, compression=compression) as file:
        tree = file.mktree("Events", {kind: np.dtype((kind, shape)) for kind in ("f4", "i8", "?", "u1")})
        for size in (400, 300):
            tree.extend({kind: random.integers(0, 2, (size, *shape)).astype(kind) for kind in ("f4", "i8", "?", "u1")})
    for name in ("f4", "i8", "?", "u1"):
        RootTreeSource().read(str(path), [name], start, stop)
        assert decoded_by_uproot == []
        assert_the_same(path, name, start, stop)
        decoded_by_uproot.clear()


def test_double32_has_eight_bytes_in_memory(tmp_path: Path, decoded_by_uproot: list[str]) -> None:
    path = tmp_path / "a.root"
    counts = flat("n", "i4", [2, 0, 1])
    write_root_file(
        path, {"Events": (3, [counts, flat("x", "d32", [1.5, 2, 3]), lists("y", "d32", "n", [[1.1, 2], [], [3]])])}
    )
    found = RootTreeSource().read(str(path), ["x", "y"], 0, 3)
    assert decoded_by_uproot == []
    assert found["x"].dtype == np.float64
    assert found["y"].type.content.content.primitive == "float64"
    assert found["y"].to_list() == [[float(np.float32(1.1)), 2], [], [3]]


def test_lists_without_offsets_are_left_to_uproot(tmp_path: Path, decoded_by_uproot: list[str]) -> None:
    path = tmp_path / "a.root"
    branches = [flat("n", "i4", [2, 0, 1]), lists("y", "f4", "n", [[1, 2], [], [3]], with_offsets=False)]
    write_root_file(path, {"Events": (3, branches)})
    assert RootTreeSource().read(str(path), ["y"], 0, 3)["y"].to_list() == [[1, 2], [], [3]]
    assert "y" in decoded_by_uproot


def test_vectors_of_other_lengths_share_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    one, other = [[[1], [2, 3]]], [[[4, 5, 6], []]]
    branches = [vectors("v", "vector<float>", "f4", *one), vectors("w", "vector<float>", "f4", *other)]
    write_root_file(path, {"Events": (2, branches)})
    found = RootTreeSource().read(str(path), ["v", "w"], 0, 2)
    assert [found["v"].to_list(), found["w"].to_list()] == [one[0], other[0]]
