"""A file is the one of an earlier run when the same is in it; a setting asks for less, or for every byte."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import cenote
from builders.file_servers import FileServer
from cenote.analysis.sources.interface import FileInfo
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.analysis.sources.toy import ToySource
from cenote.language.workflow import SourceUse
from cenote.planning.fingerprint import partition_digest
from cenote.planning.inputs.digests import as_asked, version_of
from cenote.planning.inputs.metadata import describe_all
from cenote.planning.inputs.metadata_cache import MetadataCache
from cenote.planning.plan import Fill, Partition

FLOW = """
data: {datasets: [{name: d, files: ["*.root"]}]}
sources: {events: {kind: root_tree, same_file: SAME}}
analysis:
  stages:
    - {id: X, op: hep.hist, params: {axes: [{name: x, source: x, bins: {nbins: 10, low: 0, high: 10}}]}, render: []}
"""
PARTITION = Partition("d", "events", "a.root", 0, 10, "stamp", ("x", "y"), "root-1")


def write(path: Path, value: float) -> None:
    with uproot.recreate(path, compression=None) as file:
        file.mktree("Events", {"x": "f8"}).extend({"x": np.full(100, value)})


def change_within(path: Path, value: float, other: float) -> None:
    """As a disk may: other bytes at the same place."""
    whole = path.read_bytes()
    path.write_bytes(whole.replace(np.array(value, ">f8").tobytes(), np.array(other, ">f8").tobytes(), 1))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MetadataCache:
    monkeypatch.setenv("CENOTE_CACHE", str(tmp_path / "cache"))
    return MetadataCache(tmp_path / "cache")


def described(same: Any, *paths: Path | str, cache: MetadataCache | None = None) -> list[str]:
    """The content of each as this setting has it."""
    use, source = SourceUse("events", "root_tree", same_file=same), RootTreeSource()
    answers = describe_all([(source, "root_tree", str(path)) for path in paths], cache=cache)
    found = as_asked([(use, source, answer) for answer in answers], all_seen=True, cache=cache)
    return [answer.content if isinstance(answer, FileInfo) else answer.message for answer in found]


def test_a_partition_is_its_events_and_what_is_in_its_file() -> None:
    same = [
        replace(PARTITION, url="/else/b.root"),
        replace(PARTITION, stamp="touched"),
        replace(PARTITION, dataset="e"),
    ]
    assert {partition_digest(one, {}) for one in same} == {partition_digest(PARTITION, {})}
    others = [replace(PARTITION, content="root-2"), replace(PARTITION, start=1), replace(PARTITION, stop=9)]
    assert len({partition_digest(one, {}) for one in (PARTITION, *others)}) == 4


def test_a_file_of_unknown_content_is_where_it_is_and_as_old_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = replace(PARTITION, content="")
    others = [replace(unknown, url="b.root"), replace(unknown, stamp="touched"), PARTITION]
    assert len({partition_digest(one, {}) for one in (unknown, *others)}) == 4
    absolute = replace(unknown, url=str(Path.cwd() / "a.root"))
    assert partition_digest(absolute, {}) == partition_digest(unknown, {})
    monkeypatch.chdir("/")
    assert partition_digest(absolute, {}) != partition_digest(unknown, {})


def test_what_fills_a_column_counts_where_a_file_lacks_it() -> None:
    fills = {"x": Fill("like.root", "float", 1.0), "z": Fill("like.root", "float", 1.0)}
    before = partition_digest(PARTITION, fills)
    for other in (Fill("like.root", "double", 1.0), Fill("like.root", "float", 2.0), Fill("like.root", "float", True)):
        assert partition_digest(PARTITION, {**fills, "x": other}) != before
    assert partition_digest(PARTITION, {**fills, "z": Fill("like.root", "double", 2.0)}) == before
    assert partition_digest(PARTITION, {**fills, "x": Fill("other.root", "float", 1.0)}) == before
    assert partition_digest(PARTITION, {"y": fills["x"]}) != before


def test_copies_in_one_dataset_are_read_each_and_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.root", 4.5)
    shutil.copy(tmp_path / "a.root", tmp_path / "b.root")
    (tmp_path / "flow.yaml").write_text(FLOW.replace("SAME", "content"))
    plan = cenote.load(tmp_path / "flow.yaml").plan()
    assert len({partition_digest(one, {}) for one in plan.partitions}) == 1
    assert len({plan.tasks.key(task) for task in range(len(plan.tasks))}) == 3, "two of the copies, and their merge"
    (warning,) = plan.warnings
    assert warning.startswith("dataset 'd' has files twice: ")
    assert f"{tmp_path}/b.root is a copy of {tmp_path}/a.root; " in warning


def test_the_content_of_a_file_is_remembered(tmp_path: Path, cache: MetadataCache) -> None:
    write(tmp_path / "a.root", 4.5)
    (first,) = described("content", tmp_path / "a.root", cache=cache)
    assert first.startswith("root-")
    assert described("content", tmp_path / "a.root", cache=cache) == [first]


@pytest.mark.parametrize(
    ("same", "moved", "changed_within"), [("content", True, True), ("stamp", False, False), ("checksum", True, False)]
)
def test_the_setting_says_which_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, same: str, moved: bool, changed_within: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flow.yaml").write_text(FLOW.replace("SAME", same))
    write(tmp_path / "a.root", 4.5)

    def digest() -> bytes:
        (partition,) = cenote.load(tmp_path / "flow.yaml").plan().partitions
        return partition_digest(partition, {})

    before = digest()
    assert digest() == before
    (tmp_path / "a.root").rename(tmp_path / "b.root")
    os.utime(tmp_path / "b.root", ns=(1, 1))
    there = digest()
    assert (there == before) is moved
    change_within(tmp_path / "b.root", 4.5, 5.5)
    assert (digest() == there) is changed_within


def test_a_checksum_is_computed_once_and_again_after_any_writing(tmp_path: Path, cache: MetadataCache) -> None:
    path = tmp_path / "a.root"
    write(path, 4.5)
    (first,) = described("checksum", path, cache=cache)
    assert first.startswith("sha256-")
    cache.remember_checksums({version_of(str(path)): "sha256-remembered"})
    assert described("checksum", path, cache=cache) == ["sha256-remembered"]
    times = path.stat()
    change_within(path, 4.5, 5.5)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # `touch -r`: size and time are as before
    (second,) = described("checksum", path, cache=cache)
    assert second not in (first, "sha256-remembered")


def test_a_replica_on_a_server_has_the_checksum_of_the_file(tmp_path: Path, cache: MetadataCache) -> None:
    write(tmp_path / "a.root", 4.5)
    with FileServer(tmp_path).serving() as server:
        here, there = described("checksum", tmp_path / "a.root", f"{server.url}/a.root", cache=cache)
    assert here == there


def test_what_is_generated_has_no_checksum() -> None:
    use, source = SourceUse("events", "toy", same_file="checksum"), ToySource()
    (info,) = as_asked([(use, source, source.describe("toy://dy"))], all_seen=True)
    assert isinstance(info, FileInfo)
    assert info.content == ""


def test_a_join_asks_for_as_much_as_the_most_careful_of_its_sources(tmp_path: Path) -> None:
    sources = "a: {tree: t, same_file: stamp}, b: {tree: t, same_file: checksum}, c: {tree: t}"
    text = f"sources: {{{sources}}}\njoins: {{j: {{inputs: [a, b, c]}}}}\nanalysis: {{stages: []}}\n"
    (tmp_path / "flow.yaml").write_text(text)
    (join,) = cenote.load(tmp_path / "flow.yaml").workflow.sources
    assert join.same_file == "checksum"
