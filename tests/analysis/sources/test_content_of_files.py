"""What is in a file is the same in all its copies, and never the same in files with other events."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import awkward as ak
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import uproot
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

from builders.file_servers import FileServer
from builders.root_files import flat, write_root_file
from cenote.analysis.sources.arrow import ArrowSource
from cenote.analysis.sources.csv import CsvSource
from cenote.analysis.sources.hdf5 import Hdf5Source
from cenote.analysis.sources.interface import Source
from cenote.analysis.sources.json import JsonSource
from cenote.analysis.sources.parquet import ParquetSource
from cenote.analysis.sources.root_tree import reading
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.analysis.sources.support.byte_files import FEW_BYTES, checksum
from cenote.analysis.sources.zip import ZipInput, ZipSource
from cenote.common.errors import CenoteError

WRITTEN_BY_ROOT = sorted((Path(__file__).parent / "written_by_root").glob("*.root"))
ALONE = UUID("4e7de4c2-2b53-4098-a055-3a9446513d24")
Columns = Mapping[str, Any]


def ttree(path: Path, columns: Columns, compression: Any = None) -> None:
    """Uncompressed: what is in a basket changes nothing of its size."""
    with uproot.recreate(path, compression=compression) as file:
        file.mktree("Events", {name: values.dtype for name, values in columns.items()}).extend(dict(columns))


def ttree_of_objects(path: Path, columns: Columns) -> None:
    """In a folder, and so read by uproot."""
    with uproot.recreate(path, compression=None) as file:
        file.mkdir("in")
        file.mktree("in/Events", {name: values.dtype for name, values in columns.items()}).extend(dict(columns))


def rntuple(path: Path, columns: Columns, compression: Any = None) -> None:
    with uproot.recreate(path, compression=compression) as file:
        file.mkrntuple("Events", dict(columns))


def parquet(path: Path, columns: Columns, compression: Any = "none") -> None:
    pq.write_table(pa.table(dict(columns)), path, compression=compression, write_statistics=False)


def arrow(path: Path, columns: Columns, compression: Any = "uncompressed") -> None:
    feather.write_feather(pa.table(dict(columns)), path, compression=compression)


def hdf5(path: Path, columns: Columns, compression: Any = None) -> None:
    with h5py.File(path, "w") as file:
        for name, values in columns.items():
            file.create_dataset(name, data=values, compression=compression)


def csv(path: Path, columns: Columns) -> None:
    arrow_csv.write_csv(pa.table(dict(columns)), path)


def json(path: Path, columns: Columns) -> None:
    rows = pa.table(dict(columns)).to_pylist()
    path.write_text("".join(f"{row}\n".replace("'", '"') for row in rows))


@dataclass(frozen=True)
class Kind:
    """A format, who reads it, and how a file is compressed."""

    source: Source
    write: Callable[..., None]
    compressions: tuple[Any, ...] = field(default=())


KINDS = {
    "ttree": Kind(RootTreeSource(), ttree, (uproot.ZLIB(1), uproot.ZSTD(5))),
    "ttree read by uproot": Kind(RootTreeSource(), ttree_of_objects),
    "rntuple": Kind(RootTreeSource(), rntuple, (uproot.ZLIB(1), uproot.ZSTD(5))),
    "parquet": Kind(ParquetSource(), parquet, ("snappy", "zstd")),
    "arrow": Kind(ArrowSource(), arrow, ("lz4", "zstd")),
    "hdf5": Kind(Hdf5Source(), hdf5, ("gzip",)),
    "csv": Kind(CsvSource(), csv),
    "json": Kind(JsonSource(), json),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
COLUMNS = {"x": np.arange(40.0), "y": np.arange(40) % 7}


def known(kind: Kind, path: Path | str) -> str:
    content = kind.source.describe(str(path)).content
    assert content
    return content


@every_kind
def test_copied_touched_moved_linked_or_by_another_address_it_is_the_same(kind: Kind, tmp_path: Path) -> None:
    first, copy, moved, link = (tmp_path / f"{name}.file" for name in ("first", "copy", "moved", "link"))
    kind.write(first, COLUMNS)
    before = known(kind, first)
    shutil.copy(first, copy)
    os.utime(first, ns=(1, 1))
    link.symlink_to(first)
    assert {known(kind, one) for one in (first, copy, link, f"file://{first}")} == {before}
    copy.rename(moved)
    assert known(kind, moved) == before


@pytest.mark.parametrize("name", ["ttree", "ttree read by uproot", "rntuple", "csv", "json"])
def test_a_replica_on_a_server_is_the_same_as_a_file_here(name: str, tmp_path: Path) -> None:
    KINDS[name].write(tmp_path / "events.file", COLUMNS)
    with FileServer(tmp_path).serving() as server:
        assert known(KINDS[name], f"{server.url}/events.file") == known(KINDS[name], tmp_path / "events.file")


@pytest.mark.parametrize("path", WRITTEN_BY_ROOT, ids=lambda path: path.name)
def test_files_written_by_root_are_known_by_the_number_of_the_file(path: Path, tmp_path: Path) -> None:
    copy = shutil.copy(path, tmp_path / "copy.root")
    assert known(KINDS["ttree"], copy) == known(KINDS["ttree"], path)
    assert known(KINDS["ttree"], copy).startswith("root-")


@every_kind
def test_other_columns_and_compressions_are_another_content(kind: Kind, tmp_path: Path) -> None:
    number = count()

    def content(columns: Columns, *compression: Any) -> str:
        path = tmp_path / f"{next(number)}.file"
        kind.write(path, columns, *compression)
        return known(kind, path)

    renamed = {"z": COLUMNS["x"], "y": COLUMNS["y"]}
    found = [content(COLUMNS), content({"x": COLUMNS["x"]}), content(renamed)]
    found += [content(COLUMNS, one) for one in kind.compressions]
    assert len(set(found)) == len(found)


@every_kind
@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=30),
    st.sampled_from(["value", "entry more", "entry less", "order"]),
    st.data(),
)
def test_other_events_are_never_the_same_content(
    kind: Kind, tmp_path_factory: pytest.TempPathFactory, values: list[int], change: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    other = list(values)
    if change == "value":
        other[place] = (values[place] + data.draw(st.integers(1, 9))) % 10
    elif change == "entry more":
        other.insert(place, 5)
    elif change == "entry less":
        del other[place]
    else:
        other.sort()
    folder = tmp_path_factory.mktemp("files")
    for name, numbers in (("one", values), ("other", other)):
        kind.write(folder / name, {"x": np.array(numbers, float)})
    same = known(kind, folder / "one") == known(kind, folder / "other")
    assert not same or values == other
    shutil.rmtree(folder)


def with_number(path: Path, number: UUID, values: Any) -> str:
    """A file with this number, of one uncompressed basket."""
    with uproot.recreate(path, compression=None, uuid_function=lambda: number) as file:
        file.mktree("Events", {"x": "f8"}).extend({"x": np.asarray(values, float)})
    return str(path)


def test_a_file_that_was_written_into_is_another_although_it_keeps_its_number(tmp_path: Path) -> None:
    path = tmp_path / "events.root"
    before = known(KINDS["ttree"], with_number(path, ALONE, [1, 2, 3]))
    with uproot.update(path) as file:
        file["note"] = "more"
    assert uproot.open(path).file.uuid == ALONE
    assert known(KINDS["ttree"], path) != before


def test_a_tree_written_again_into_the_same_place_is_another(tmp_path: Path) -> None:
    """Same number, size and baskets: only the time of writing differs."""
    path = tmp_path / "events.root"
    with_number(path, ALONE, [1, 2, 3])
    date = uproot.open(path).key("Events").fDatime
    whole = bytearray(path.read_bytes())
    for found in list(re.finditer(rb"\x05TTree\x06Events", whole)):
        at = found.start() - 24  # with places of 64 bits
        assert whole[at : at + 4] == date.to_bytes(4, "big")
        whole[at : at + 4] = (date + 1).to_bytes(4, "big")
    later = tmp_path / "later.root"
    later.write_bytes(whole)
    assert uproot.open(later).key("Events").fDatime == date + 1
    assert known(KINDS["ttree"], later) != known(KINDS["ttree"], path)


NO_NUMBERS = (UUID(int=0), UUID("a3bb189e-8bf9-3888-9912-ace4e6543002"), UUID("a3bb189e-8bf9-0888-0912-ace4e6543002"))


@pytest.mark.parametrize("number", NO_NUMBERS, ids=str)
def test_a_number_that_other_files_may_have_says_nothing(tmp_path: Path, number: UUID) -> None:
    """Such as those that ROOT writes to be `reproducible`: their bytes are compared, if they are few."""
    one, other = (with_number(tmp_path / f"{n}.root", number, [n]) for n in (1, 2))
    assert known(KINDS["ttree"], one) != known(KINDS["ttree"], other)
    many = np.random.default_rng(1).normal(size=FEW_BYTES // 8)
    assert RootTreeSource().describe(with_number(tmp_path / "many.root", number, many)).content == ""


def test_files_of_programs_that_give_no_number_are_compared_whole(tmp_path: Path) -> None:
    for name, value in (("one", 1), ("other", 2)):
        write_root_file(tmp_path / name, {"Events": (1, [flat("x", "f4", [value])])})
    assert known(KINDS["ttree"], tmp_path / "one").startswith("bytes-")
    assert known(KINDS["ttree"], tmp_path / "one") != known(KINDS["ttree"], tmp_path / "other")


@pytest.mark.parametrize("trees", [["Events", "Runs"], ["in/Events", "in/Runs"]])
def test_trees_of_one_file_are_different(tmp_path: Path, trees: list[str]) -> None:
    path = tmp_path / "events.root"
    with uproot.recreate(path) as file:
        for name in trees:
            file.mktree(name, {"x": "f8"}).extend({"x": np.arange(3.0)})
    contents = {RootTreeSource(tree=name).describe(str(path)).content for name in trees}
    assert len(contents) == 2
    assert "" not in contents


def test_our_own_reader_and_uproot_say_the_same(tmp_path: Path) -> None:
    for path in (tmp_path / "short.root", tmp_path / f"{'long' * 60}.root"):
        ttree(path, COLUMNS, uproot.ZLIB(1))
        assert RootTreeSource().describe(str(path)).content == reading.describe(str(path), None).content


def test_an_ntuple_with_a_long_name_is_known(tmp_path: Path) -> None:
    path = tmp_path / f"{'long' * 60}.root"
    rntuple(path, COLUMNS)
    assert known(KINDS["rntuple"], path).startswith("root-")


def test_bytes_changed_within_a_basket_are_seen_by_a_checksum_alone(tmp_path: Path) -> None:
    """Nothing that a ROOT file says of itself tells of them: what `same_file: checksum` is for."""
    path = tmp_path / "events.root"
    ttree(path, {"x": np.full(1000, 4.5)})
    before, whole = (known(KINDS["ttree"], path), checksum(str(path))), path.read_bytes()
    path.write_bytes(whole.replace(np.array(4.5, ">f8").tobytes(), np.array(5.5, ">f8").tobytes(), 1))
    assert RootTreeSource().read(str(path), ["x"], 0, 1)["x"].tolist() == [5.5]
    assert known(KINDS["ttree"], path) == before[0]
    assert checksum(str(path)) != before[1]


def test_bytes_changed_in_what_a_tree_says_of_itself_are_another_content(tmp_path: Path) -> None:
    path = tmp_path / "events.root"
    ttree(path, {"x": np.arange(1000.0)})
    before, whole = known(KINDS["ttree"], path), path.read_bytes()
    file = uproot.open(path)
    seek = int(file["Events"]["x"].member("fBasketSeek")[0])
    at = whole.index(seek.to_bytes(8, "big"), file.key("Events").fSeekKey + file.key("Events").fKeylen)
    path.write_bytes(whole[:at] + (seek - 1).to_bytes(8, "big") + whole[at + 8 :])
    assert known(KINDS["ttree"], path) != before


def test_a_compressed_text_is_the_same_text(tmp_path: Path) -> None:
    csv(tmp_path / "x.csv", COLUMNS)
    with gzip.open(tmp_path / "x.csv.gz", "wb") as file:
        file.write((tmp_path / "x.csv").read_bytes())
    assert known(KINDS["csv"], tmp_path / "x.csv.gz") == known(KINDS["csv"], tmp_path / "x.csv")


def test_texts_of_any_size_are_known(tmp_path: Path) -> None:
    rows = np.arange(300_000)
    for name in ("one", "other"):
        csv(tmp_path / name, {"x": rows})
        assert (tmp_path / name).stat().st_size > FEW_BYTES
        rows[-1] = 1
    assert known(KINDS["csv"], tmp_path / "one") != known(KINDS["csv"], tmp_path / "other")


@pytest.mark.parametrize("name", ["parquet", "arrow", "hdf5"])
def test_of_large_files_that_have_no_number_nothing_is_claimed(name: str, tmp_path: Path) -> None:
    """Two files of Parquet with other values may well have one and the same footer."""
    kind = KINDS[name]
    kind.write(tmp_path / "x.file", {"x": np.random.default_rng(1).normal(size=FEW_BYTES // 8)})
    assert kind.source.describe(str(tmp_path / "x.file")).content == ""


@pytest.mark.parametrize("how", ["link", "virtual", "external"])
def test_a_file_of_hdf5_whose_values_are_in_another_one_is_refused(tmp_path: Path, how: str) -> None:
    """If that one were replaced, nothing here would tell, and results of the earlier one would be used for ever."""
    hdf5(tmp_path / "there.h5", COLUMNS)
    with h5py.File(tmp_path / "here.h5", "w") as file:
        if how == "link":
            file["events"] = h5py.ExternalLink(tmp_path / "there.h5", "/")
        elif how == "virtual":
            layout = h5py.VirtualLayout(shape=(40,), dtype=float)
            layout[:] = h5py.VirtualSource(tmp_path / "there.h5", "x", shape=(40,))
            file.create_virtual_dataset("x", layout)
        else:
            file.create_dataset("x", shape=(40,), dtype=float, external=[(tmp_path / "there.h5", 0, 320)])
    with pytest.raises(CenoteError, match=r"here\.h5 has values in another file, '.*there\.h5'"):
        Hdf5Source().describe(str(tmp_path / "here.h5"))


def test_sources_side_by_side_are_known_by_all_their_files(tmp_path: Path) -> None:
    inputs = (ZipInput(prefix=""), ZipInput(prefix="friend", file="{stem}_friend.root"))
    source = ZipSource(inputs=inputs)
    ttree(tmp_path / "a.root", COLUMNS)
    ttree(tmp_path / "a_friend.root", {"z": COLUMNS["x"]})
    before = source.describe(str(tmp_path / "a.root")).content
    assert before
    assert source.files_behind(str(tmp_path / "a.root")) == (
        str(tmp_path / "a.root"),
        str(tmp_path / "a_friend.root"),
    )
    os.utime(tmp_path / "a_friend.root", ns=(1, 1))
    assert source.describe(str(tmp_path / "a.root")).content == before
    ttree(tmp_path / "a_friend.root", {"z": ak.to_numpy(COLUMNS["x"]) + 1})
    assert source.describe(str(tmp_path / "a.root")).content != before
