"""Check what is noted of a file: it is what uproot says, and enough to read by, as long as the file stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from builders.file_servers import FileServer
from builders.root_files import Branch, LeafOfBytes, flat, lists, objects, vector3, write_root_file
from cenote.analysis.sources.root_tree import plain_file, reading, tree_record
from cenote.analysis.sources.root_tree import plain_file as readers
from cenote.analysis.sources.root_tree.places import Places, cut, read_places
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.analysis.sources.root_tree.tree_record import UnfamiliarError

RANGES = [(0, 700), (0, 400), (400, 700), (10, 20), (390, 410), (699, 700), (0, 0), (400, 400)]


ZSTD = uproot.ZSTD(1)


def written_by_uproot(path: Path, compression: Any = ZSTD) -> str:
    random = np.random.default_rng(3)
    with uproot.recreate(path, compression=compression) as file:
        tree = None
        for size in (400, 300):
            counts = random.poisson(1.5, size)
            total = int(counts.sum())
            arrays = {
                **{f"flat_{kind}": random.integers(0, 2, size).astype(kind) for kind in ("?", "i1", "u2", "i8", "f4")},
                "fixed": random.normal(size=(size, 2, 3)),
                "Muon": ak.zip({name: ak.unflatten(random.normal(size=total), counts) for name in ("pt", "eta")}),
                "alone": ak.unflatten(random.integers(0, 9, total).astype("u1"), counts),
                "Mu.x": random.normal(size=size),
            }
            if tree is None:
                types = {
                    name: a.type.content if isinstance(a, ak.Array) else np.dtype((a.dtype, a.shape[1:]))
                    for name, a in arrays.items()
                }
                tree = file.mktree("Events", types)
            tree.extend(arrays)
    return str(path)


def written_by_hand(path: Path) -> str:
    """In the layouts of ROOT 5: other versions of TTree and TBranch than uproot writes."""
    numbers = [1, 0, 2]
    branches = [
        flat("n", "i4", numbers, [3]),
        lists("x", "f4", "n", [[1], [], [2, 3]], [[4, 5, 6]]),
        flat("y", "f8", [1, 2, 3, 4]),
        flat("b", "b1", [1, 0, 1, 0]),
        Branch("triple", (LeafOfBytes("triple", "f8", length=3),), (np.arange(12.0).astype(">f8").tobytes(),), (4,)),
        Branch("never", (LeafOfBytes("never", "f4"),)),
    ]
    write_root_file(path, {"Events": (4, branches)}, compression="zlib")
    return str(path)


def with_an_object(path: Path) -> str:
    branches = [flat("x", "f4", [1, 2, 3]), objects("v", "TVector3", [vector3(n, n, n) for n in range(3)])]
    write_root_file(path, {"Events": (3, branches)})
    return str(path)


def empty(path: Path) -> str:
    with uproot.recreate(path) as file:
        file.mktree("Events", {"x": np.dtype("f4"), "y": ak.types.from_datashape("var * float64", highlevel=False)})
    return str(path)


def several_trees(path: Path) -> str:
    with uproot.recreate(path) as file:
        for name in ("Runs", "Events", "Lumi"):
            file.mktree(name, {name: np.dtype("i4")}).extend({name: np.arange(5)})
    return str(path)


PLAIN = [written_by_uproot, written_by_hand, empty, several_trees]


@pytest.mark.parametrize("write", PLAIN)
def test_our_description_is_that_of_uproot(tmp_path: Path, write: Any) -> None:
    url = write(tmp_path / "a.root")
    ours, theirs = plain_file.plain_file(url, None).describe(), reading.describe(url, None)
    assert ours == theirs
    assert list(ours.columns) == list(theirs.columns)
    assert list(ours.boundaries) == list(theirs.boundaries)
    every = list(ours.columns)
    for some in ((0, ours.entries), (1, 2)):
        mine, others = (read_places(cut(info.places, every, [some])[0]) for info in (ours, theirs))
        for name, branch in others.branches.items():
            found = mine.branches[name]
            assert (found.type, found.entries, found.seeks, found.sizes) == (
                branch.type,
                branch.entries,
                branch.seeks,
                branch.sizes,
            )
        assert together(mine) == together(others) or not ours.entries


def together(places: Places) -> set[frozenset[str]]:
    """The lists that share their offsets."""
    found: dict[str, set[str]] = {}
    for name, branch in places.branches.items():
        if branch.type.jagged:
            found.setdefault(branch.counter, set()).add(name)
    return set(map(frozenset, found.values()))


@pytest.mark.parametrize("compression", [uproot.ZSTD(1), uproot.ZLIB(1), uproot.LZ4(1), uproot.LZMA(1), None], ids=str)
def test_trees_that_are_compressed_in_any_way_are_known(tmp_path: Path, compression: Any) -> None:
    url = written_by_uproot(tmp_path / "a.root", compression)
    assert plain_file.plain_file(url, None).describe() == reading.describe(url, None)


@pytest.mark.parametrize(("start", "stop"), RANGES)
def test_what_is_read_at_noted_places_is_what_is_read_otherwise(tmp_path: Path, start: int, stop: int) -> None:
    url, source = written_by_uproot(tmp_path / "a.root"), RootTreeSource()
    info = source.describe(url)
    names = [*info.columns, "Mu.x"]
    (places,) = source.cut_places(info.places, names, [(start, stop)])
    found = source.read_placed(url, names, start, stop, places)
    by_uproot = reading.read(url, None, names, start, stop)
    assert list(found) == names
    for name in names:
        assert ak.array_equal(found[name], by_uproot[name], dtype_exact=True), name
        assert type(found[name]) is type(by_uproot[name])


def test_places_are_those_of_the_entries_that_are_asked_for(tmp_path: Path) -> None:
    info = RootTreeSource().describe(written_by_uproot(tmp_path / "a.root"))
    both = [read_places(one).branches["Muon_pt"] for one in cut(info.places, ["Muon_pt"], [(0, 400), (0, 401)])]
    assert [len(branch.seeks) for branch in both] == [1, 2]
    assert len(cut(info.places, ["Muon_pt"], [(0, 400)])[0]) < 100


def test_a_file_that_has_changed_is_looked_at_again(tmp_path: Path) -> None:
    path, source = tmp_path / "a.root", RootTreeSource()
    url = written_by_uproot(path)
    (places,) = source.cut_places(source.describe(url).places, ["flat_f4"], [(0, 3)])
    with uproot.recreate(path) as file:
        file.mktree("Events", {"flat_f4": np.dtype("f4")}).extend({"flat_f4": np.array([7, 8, 9], "f4")})
    assert source.read_placed(url, ["flat_f4"], 0, 3, places)["flat_f4"].tolist() == [7, 8, 9]
    with uproot.recreate(path) as file:
        file.mktree("Events", {"flat_f4": np.dtype("f4")}).extend({"flat_f4": np.array([1, 2, 3], "f4")})
    os.utime(path, (1, 1))
    assert source.read_placed(url, ["flat_f4"], 0, 3, places)["flat_f4"].tolist() == [1, 2, 3]


def test_of_a_tree_with_objects_the_numbers_have_places(tmp_path: Path) -> None:
    url, source = with_an_object(tmp_path / "a.root"), RootTreeSource()
    with pytest.raises(UnfamiliarError):
        plain_file.plain_file(url, None)
    info = source.describe(url)
    names = ["x", "v_fX"]
    (places,) = source.cut_places(info.places, names, [(1, 3)])
    assert list(read_places(places).branches) == ["x"]
    found = source.read_placed(url, names, 1, 3, places)
    assert found["x"].tolist() == [2, 3]
    assert found["v_fX"].tolist() == [1, 2]


@pytest.mark.parametrize("damage", range(0, 4_000, 131))
def test_a_damaged_tree_is_left_to_uproot(tmp_path: Path, damage: int) -> None:
    """What we understand of it is what uproot does; or nothing, and then uproot says what is wrong."""
    path = tmp_path / "a.root"
    written_by_uproot(path, None)
    with uproot.open(path) as file:
        key = file.key("Events")
        start, size = int(key.fSeekKey), int(key.fNbytes)
    data = bytearray(path.read_bytes())
    data[start + damage % size] ^= 0x55
    path.write_bytes(data)
    try:
        ours = plain_file.plain_file(str(path), None).describe()
    except UnfamiliarError:
        return
    try:
        theirs = reading.describe(str(path), None)
    except Exception:  # it knows a reason that we do not
        return
    assert list(ours.columns) == list(theirs.columns)


def test_numbers_are_read_without_uproot(tmp_path: Path) -> None:
    url = written_by_uproot(tmp_path / "a.root")
    program = f"""
import sys
from cenote.analysis.sources.root_tree.source import RootTreeSource
source = RootTreeSource()
info = source.describe({url!r})
(places,) = source.cut_places(info.places, list(info.columns), [(0, 700)])
assert len(source.read_placed({url!r}, list(info.columns), 0, 700, places)) == len(info.columns) > 5
assert "uproot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_neighbours_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, source = written_by_uproot(tmp_path / "a.root"), RootTreeSource()
    info = source.describe(url)
    asked: list[int] = []
    pread = os.pread

    def counting(file: int, size: int, seek: int) -> bytes:
        asked.append(size)
        return pread(file, size, seek)

    monkeypatch.setattr(os, "pread", counting)
    readers.read(url, None, list(info.columns), 0, 700)
    assert len(asked) <= 2


def test_of_files_made_alike_one_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[object] = []
    tree = tree_record._Parser.tree
    monkeypatch.setattr(tree_record._Parser, "tree", lambda parser: parsed.append(parser) or tree(parser))
    random = np.random.default_rng(1)
    urls = []
    for number, (size, name) in enumerate([(400, "x"), (500, "x"), (400, "y"), (400, "x"), (600, "x")]):
        counts = random.poisson(2, size)
        lists = ak.unflatten(random.normal(size=int(counts.sum())), counts)
        with uproot.recreate(tmp_path / f"{number}.root") as file:
            opened = file.mktree("Events", {name: np.dtype("f4"), "l": lists.type.content})
            opened.extend({name: random.normal(size=size).astype("f4"), "l": lists})
        urls.append(str(tmp_path / f"{number}.root"))
    found = [plain_file.plain_file(url, None).describe() for url in urls]
    assert len(parsed) == 3
    for url, info in zip(urls, found, strict=True):
        assert info == reading.describe(url, None)
        assert ak.array_equal(RootTreeSource().read(url, ["l"], 0, info.entries)["l"], by_uproot(url, "l"))


def by_uproot(url: str, name: str) -> Any:
    with uproot.open(url) as file:
        return file["Events"][name].array()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    with FileServer(tmp_path).serving() as serving:
        yield serving


def test_over_the_network_all_columns_are_asked_for_together(
    tmp_path: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_by_uproot(tmp_path / "a.root")
    url, source = f"{server.url}/a.root", RootTreeSource()
    monkeypatch.setattr(uproot, "open", lambda *_, **__: pytest.fail("uproot is not needed"))
    info = source.describe(url)
    assert len(server.ranges) == 3
    (places,) = source.cut_places(info.places, list(info.columns), [(0, 700)])
    server.ranges.clear()
    found = source.read_placed(url, list(info.columns), 0, 700, places)
    assert len(server.ranges) <= 2
    here = source.read(str(tmp_path / "a.root"), list(info.columns), 0, 700)
    for name in info.columns:
        assert ak.array_equal(found[name], here[name], dtype_exact=True), name


def test_a_remote_file_has_the_stamp_that_uproot_gives_it(tmp_path: Path, server: FileServer) -> None:
    written_by_uproot(tmp_path / "a.root")
    url = f"{server.url}/a.root"
    assert plain_file.plain_file(url, None).describe() == reading.describe(url, None)


def test_a_remote_file_that_has_changed_is_looked_at_again(tmp_path: Path, server: FileServer) -> None:
    path, source = tmp_path / "a.root", RootTreeSource()
    written_by_uproot(path)
    url = f"{server.url}/a.root"
    (places,) = source.cut_places(source.describe(url).places, ["flat_f4"], [(0, 3)])
    with uproot.recreate(path) as file:
        file.mktree("Events", {"flat_f4": np.dtype("f4")}).extend({"flat_f4": np.array([7, 8, 9], "f4")})
    assert source.read_placed(url, ["flat_f4"], 0, 3, places)["flat_f4"].tolist() == [7, 8, 9]
