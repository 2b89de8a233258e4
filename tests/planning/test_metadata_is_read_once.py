"""Check that metadata is read in parallel, remembered, and never trusted when the file has changed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pydantic import PrivateAttr

from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.analysis.sinks.root_tree import RootTreeSink
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, Source
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.common import errors
from cenote.common.cache_file import cache_folder
from cenote.common.errors import Problem, error
from cenote.planning.inputs import metadata
from cenote.planning.inputs.metadata import FileAnswer, describe_all
from cenote.planning.inputs.metadata_cache import MetadataCache, PackedColumns, Packer, one_of_each_schema


class Counting(Source):
    """Describes files by their text, and counts how often."""

    _calls: list[str] = PrivateAttr(default_factory=list)

    @property
    def calls(self) -> list[str]:
        return self._calls

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        raise AssertionError((url, columns, start, stop))

    def describe(self, url: str) -> FileInfo:
        self.calls.append(url)
        text = Path(url).read_text()
        if text == "bad":
            raise error(errors.BAD_INPUT, f"{url} is bad")
        columns = {name: ColumnInfo("float", 10 * len(name)) for name in text.split()}
        return FileInfo(url, len(text), self.stamp(url), len(text), columns, (0, 2, len(text)))


@pytest.fixture
def cache(tmp_path: Path) -> MetadataCache:
    return MetadataCache(tmp_path / "cache")


def files(folder: Path, *texts: str) -> list[str]:
    paths = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return [str(path) for path in paths]


def ask(source: Counting, urls: list[str], cache: MetadataCache) -> list[FileAnswer]:
    before = len(source.calls)
    answers = describe_all([(source, "counting", url) for url in urls], cache=cache)
    assert len(source.calls) - before <= len(set(urls))
    return answers


def test_what_was_read_is_remembered_exactly(tmp_path: Path, cache: MetadataCache) -> None:
    source = Counting()
    urls = files(tmp_path, "x y", "x y", "z")
    first = ask(source, urls, cache)
    again = ask(source, urls, cache)
    assert source.calls == urls
    assert [type(answer) for answer in first] == [FileInfo] * 3
    for before, after in zip(first, again, strict=True):
        assert isinstance(before, FileInfo)
        assert isinstance(after, FileInfo)
        assert dict(before.columns) == dict(after.columns)
        assert (before.url, before.size, before.stamp, before.entries) == (
            after.url,
            after.size,
            after.stamp,
            after.entries,
        )
        assert list(before.boundaries) == list(after.boundaries)


def test_a_file_that_changed_is_read_again(tmp_path: Path, cache: MetadataCache) -> None:
    source = Counting()
    (url,) = files(tmp_path, "x y")
    ask(source, [url], cache)
    Path(url).write_text("x z")
    os.utime(url, ns=(1, 1))
    (info,) = ask(source, [url], cache)
    assert isinstance(info, FileInfo)
    assert list(info.columns) == ["x", "z"]
    assert len(source.calls) == 2


def test_files_of_one_name_in_two_folders_are_two_files(
    tmp_path: Path, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where both are of one time and size, as archives leave them."""
    source = Counting()
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        os.utime(tmp_path / name / "file", ns=(1, 1))
        monkeypatch.chdir(tmp_path / name)
        (info,) = ask(source, ["file"], cache)
        assert isinstance(info, FileInfo)
        assert list(info.columns) == [name]


def test_other_settings_of_the_source_are_another_question(tmp_path: Path, cache: MetadataCache) -> None:
    (url,) = files(tmp_path, "x")
    describe_all([(RootTreeSource(), "root_tree", url)], cache=cache)
    one = describe_all([(Counting(), "counting", url)], cache=cache)
    assert isinstance(one[0], FileInfo)


def test_a_file_asked_for_twice_is_read_once(tmp_path: Path, cache: MetadataCache) -> None:
    source = Counting()
    (url,) = files(tmp_path, "x")
    first, second = ask(source, [url, url], cache)
    assert first == second
    assert source.calls == [url]


def test_a_bad_file_gives_its_problem_in_its_place_and_is_asked_again(tmp_path: Path, cache: MetadataCache) -> None:
    source = Counting()
    urls = files(tmp_path, "x", "bad", "y")
    for _ in range(2):
        good, bad, also_good = ask(source, urls, cache)
        assert isinstance(good, FileInfo)
        assert isinstance(also_good, FileInfo)
        assert isinstance(bad, Problem)
        assert urls[1] in bad.message
    assert source.calls == [*urls, urls[1]]


def test_files_of_the_same_schema_share_it(tmp_path: Path, cache: MetadataCache) -> None:
    urls = files(tmp_path, "x y", "x y", "z", "x y")
    for _ in range(2):
        infos = [answer for answer in ask(Counting(), urls, cache) if isinstance(answer, FileInfo)]
        assert [info.url for info in one_of_each_schema(infos)] == [urls[0], urls[2]]


def test_progress_counts_up_to_the_number_of_files(tmp_path: Path, cache: MetadataCache) -> None:
    told: list[tuple[int, int]] = []
    urls = files(tmp_path, "x", "y", "z")
    ask(Counting(), urls[:1], cache)
    describe_all([(Counting(), "counting", url) for url in urls], cache=cache, progress=lambda *n: told.append(n))
    assert told[0][1] == told[-1][0] == 3
    assert told == sorted(told)


@pytest.mark.parametrize("content", [b"", b"this is no database" * 100, b"SQLite format 3\x00" + b"\x01" * 5000])
def test_a_broken_cache_is_replaced(tmp_path: Path, cache: MetadataCache, content: bytes) -> None:
    urls = files(tmp_path, "x", "y")
    ask(Counting(), urls, cache)
    (database,) = (tmp_path / "cache").iterdir()
    database.write_bytes(content)
    assert all(isinstance(answer, FileInfo) for answer in ask(Counting(), urls, cache))
    ask(Counting(), urls, cache)
    source = Counting()
    ask(source, urls, cache)
    assert source.calls == []


def test_a_locked_cache_is_done_without(tmp_path: Path, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.common.cache_file._PATIENCE", 0.01)
    urls = files(tmp_path, "x", "y")
    ask(Counting(), urls[:1], cache)
    (database,) = (tmp_path / "cache").iterdir()
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("begin exclusive")
    assert all(isinstance(answer, FileInfo) for answer in ask(Counting(), urls, cache))
    other.close()
    assert database.exists()


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("a file")
    urls = files(tmp_path, "x")
    answers = ask(Counting(), urls, MetadataCache(tmp_path / "in the way" / "cache"))
    assert isinstance(answers[0], FileInfo)


def test_the_folder_of_the_cache_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CENOTE_CACHE", raising=False)
    assert cache_folder() == tmp_path / "cenote"
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def a_root_file(path: Path, size: int) -> str:
    RootTreeSink().write(Events({"x": np.arange(size)}, size, DatasetInfo("mc")), path)
    return str(path)


def test_many_files_are_read_by_processes(
    tmp_path: Path, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "SECONDS_ALONE", 0)
    monkeypatch.setattr(metadata, "SECONDS_FOR_HELP", 0)
    here: list[str] = []
    monkeypatch.setattr(metadata, "describe_one", lambda _source, url: here.append(url))
    urls = [a_root_file(tmp_path / f"{size}.root", size) for size in (1, 2, 3)]
    (tmp_path / "broken.root").write_text("not a ROOT file")
    urls.append(str(tmp_path / "broken.root"))
    answers = describe_all([(RootTreeSource(), "root_tree", url) for url in urls], cache=cache)
    assert [answer.entries for answer in answers if isinstance(answer, FileInfo)] == [1, 2, 3]
    assert isinstance(answers[3], Problem)
    assert here == []


def test_a_source_that_only_this_process_knows_is_read_here(
    tmp_path: Path, cache: MetadataCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "SECONDS_ALONE", 0)
    monkeypatch.setattr(metadata, "SECONDS_FOR_HELP", 0)
    answers = ask(Counting(), files(tmp_path, "x", "y", "z"), cache)
    assert all(isinstance(answer, FileInfo) for answer in answers)


def test_packed_columns_say_what_the_columns_said() -> None:
    columns = {"x": ColumnInfo("float", 40), "Muon_pt": ColumnInfo("float[]", 16_777_217)}
    packed = Packer().pack(FileInfo("a", 1, "s", 10, columns)).columns
    assert isinstance(packed, PackedColumns)
    assert packed["x"] == ColumnInfo("float", 40)
    assert packed["Muon_pt"].bytes == pytest.approx(16_777_217)
    assert list(packed) == ["x", "Muon_pt"]
    assert "y" not in packed
    assert len(packed) == 2
