"""Tables are read in blocks of rows: the same values however they are cut, and no more bytes than the rows have."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

from builders.file_servers import FileServer
from cenote.analysis.sources.arrow import ArrowSource
from cenote.analysis.sources.csv import CsvSource
from cenote.analysis.sources.hdf5 import Hdf5Source
from cenote.analysis.sources.interface import Source
from cenote.analysis.sources.json import JsonSource
from cenote.analysis.sources.support import byte_files, text_blocks
from cenote.analysis.sources.support import text_blocks as blocks
from cenote.common.errors import CenoteError

ROWS = 200
WORDS = ("plain", "two\nlines", 'a "quote"', "a,comma", "5'10\" stray")


def rows() -> list[dict[str, Any]]:
    """Types that only show late, texts with everything that separates values, gaps."""
    return [
        {
            "n": row,
            "late": row / 4 if row > 150 else row,
            "text": WORDS[row % len(WORDS)],
            "gap": None if row % 7 == 0 else row,
            "last": 2.5 if row > 190 else None,
        }
        for row in range(ROWS)
    ]


def write(path: Path) -> Source:
    """A file of the format that its name says, and the source that reads it."""
    match path.name.partition(".")[2]:
        case "csv" | "csv.gz":
            opened: Any = gzip.open if path.suffix == ".gz" else open
            with opened(path, "wt", newline="") as file:
                writer = csv.DictWriter(file, list(rows()[0]))
                writer.writeheader()
                writer.writerows(rows()[:50])
                file.write("\n")
                writer.writerows(rows()[50:])
            return CsvSource()
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows()))
            return JsonSource()
        case "json":
            path.write_text(json.dumps(rows(), indent=1))
            return JsonSource()
        case "feather":
            feather.write_feather(pa.Table.from_pylist(rows()), path, chunksize=30, compression="lz4")
            return ArrowSource()
        case "stream":
            table = pa.Table.from_pylist(rows())
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table, max_chunksize=45)
            return ArrowSource()
    table = np.array([(row["n"], row["late"]) for row in rows()], [("n", "i8"), ("late", "f8")])
    with h5py.File(path, "w") as made:
        made.create_dataset("events", data=table, chunks=(32,), compression="gzip")
    return Hdf5Source()


FORMATS = ["a.csv", "a.csv.gz", "a.jsonl", "a.json", "a.feather", "a.stream", "a.h5"]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK", 500)
    blocks._looked_through.cache_clear()
    text_blocks._kept.cache_clear()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", FORMATS)
def test_any_cut_gives_the_same(tmp_path: Path, name: str) -> None:
    source, url = write(tmp_path / name), str(tmp_path / name)
    info = source.describe(url)
    assert info.entries == ROWS
    names = list(info.columns)
    for size in (23, 70, ROWS):
        cuts = [*range(0, ROWS, size), ROWS]
        ranges = list(pairwise(cuts))
        placed = source.cut_places(info.places, names, ranges) if info.places else [b""] * len(ranges)
        for (start, stop), places in zip(ranges, placed, strict=True):
            found = source.read(url, names, start, stop)
            for column in names:
                assert ak.to_list(found[column]) == [row[column] for row in rows()[start:stop]], (column, start, stop)
            if places:
                there = source.read_placed(url, names, start, stop, places)
                assert {column: ak.to_list(there[column]) for column in names} == {
                    column: ak.to_list(found[column]) for column in names
                }


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_task_reads_its_own_part_of_a_text_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, url = write(tmp_path / name), str(tmp_path / name)
    read: list[int] = []

    @contextmanager
    def counted(url: str) -> Iterator[Any]:
        with byte_files.byte_file(url) as file:

            class Counted:
                def read_at(self, start: int, size: int) -> bytes:
                    found = file.read_at(start, size)
                    read.append(len(found))
                    return found

            yield Counted()

    monkeypatch.setattr(text_blocks, "byte_file", counted)
    info = source.describe(url)
    assert sum(read) == info.size
    read.clear()
    cuts = [0, *info.boundaries[3:-1:3], ROWS]
    ranges = list(pairwise(cuts))
    for (start, stop), places in zip(ranges, source.cut_places(info.places, ["n"], ranges), strict=True):
        blocks._looked_through.cache_clear()  # as in a process that has not seen the file
        source.read_placed(url, ["n"], start, stop, places)
    assert len(ranges) > 3
    assert sum(read) == info.size


@pytest.mark.usefixtures("small_blocks")
def test_a_file_that_changes_is_looked_through_again(tmp_path: Path) -> None:
    source, file = write(tmp_path / "a.csv"), tmp_path / "a.csv"
    info = source.describe(str(file))
    (places,) = source.cut_places(info.places, ["n"], [(100, 110)])
    file.write_text("n\n" + "".join(f"{row * 2}\n" for row in range(300)))
    found = source.read_placed(str(file), ["n"], 100, 110, places)
    assert found["n"].tolist() == [row * 2 for row in range(100, 110)]


@pytest.mark.parametrize("name", FORMATS)
def test_tables_are_read_from_servers(tmp_path: Path, name: str) -> None:
    source = write(tmp_path / name)
    with FileServer(tmp_path).serving() as server:
        url = f"{server.url}/{name}"
        info = source.describe(url)
        assert (info.entries, info.size) == (ROWS, (tmp_path / name).stat().st_size)
        assert ak.to_list(source.read(url, ["late"], 140, 160)["late"]) == [row["late"] for row in rows()[140:160]]
        with pytest.raises(CenoteError, match=f"{server.url}/lost.{name} does not exist"):
            source.describe(f"{server.url}/lost.{name}")


def test_two_columns_of_a_name_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,x\n1,2\n")
    with pytest.raises(CenoteError, match="two columns are called 'x'"):
        CsvSource().describe(str(tmp_path / "a.csv"))
