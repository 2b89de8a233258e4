"""Check the contract of sources on every source there is."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot

from cenote import errors
from cenote.plugins.kinds import PluginKind
from cenote.plugins.registry import load, names
from cenote.sources.interface import Source

EVENTS = 100
CLUSTER = 40


def some_columns(first: int = 0, last: int = EVENTS) -> dict[str, Any]:
    number = np.arange(EVENTS)
    counts = number % 4
    columns = {
        "number": number.astype(np.int64),
        "weight": np.sqrt(number),
        "MET_pt": number.astype(np.float32) / 3,
        "trigger": number % 3 == 0,
        "Muon_pt": ak.unflatten(np.arange(counts.sum(), dtype=np.float32), counts),
        "Muon_charge": ak.unflatten(np.arange(counts.sum(), dtype=np.int32) % 2, counts),
    }
    return {name: values[first:last] for name, values in columns.items()}


def write_ttree(path: Path) -> None:
    with uproot.recreate(path) as file:
        tree = file.mktree("Events", {name: _type(values) for name, values in some_columns().items()})
        for start in range(0, EVENTS, CLUSTER):
            tree.extend(some_columns(start, min(EVENTS, start + CLUSTER)))


def write_rntuple(path: Path) -> None:
    with uproot.recreate(path) as file:
        ntuple = file.mkrntuple("Events", some_columns(0, CLUSTER))
        for start in range(CLUSTER, EVENTS, CLUSTER):
            ntuple.extend(some_columns(start, min(EVENTS, start + CLUSTER)))


def write_parquet(path: Path) -> None:
    arrays = {
        name: ak.to_arrow(values, extensionarray=False) if isinstance(values, ak.Array) else pa.array(values)
        for name, values in some_columns().items()
    }
    pq.write_table(pa.table(arrays), path, row_group_size=CLUSTER)


def _type(values: Any) -> Any:
    return values.type.content if isinstance(values, ak.Array) else values.dtype


WRITERS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "root_tree": ("root_tree", write_ttree),
    "root_tree, RNTuple": ("root_tree", write_rntuple),
    "parquet": ("parquet", write_parquet),
}


@pytest.fixture(params=WRITERS)
def source_and_url(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Source, str]:
    kind, write = WRITERS[request.param]
    path = tmp_path / "events.file"
    write(path)
    return load(PluginKind.SOURCE, kind)(), str(path)


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and ak.type(left) == ak.type(right) and ak.to_list(left) == ak.to_list(right)


def problem_of(call: Callable[[], object]) -> errors.Problem:
    with pytest.raises(errors.CenoteError) as caught:
        call()
    (problem,) = caught.value.problems
    return problem


def test_every_source_is_checked_here() -> None:
    assert {kind for kind, _ in WRITERS.values()} == set(names(PluginKind.SOURCE))


def test_it_describes_entries_columns_and_boundaries(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    info = source.describe(url)
    assert (info.url, info.entries, info.size) == (url, EVENTS, Path(url).stat().st_size)
    assert set(some_columns()) <= set(info.columns)
    assert all(info.columns[name].bytes > 0 and info.columns[name].type for name in some_columns())
    assert list(info.boundaries) == [0, 40, 80, 100]


def test_it_reads_exactly_the_columns_asked_for(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    found = source.read(url, ["Muon_pt", "weight"], 0, EVENTS)
    assert list(found) == ["Muon_pt", "weight"]


def test_one_number_per_event_comes_as_numpy_and_lists_as_awkward(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    found = source.read(url, list(some_columns()), 0, EVENTS)
    assert all(same(found[name], expected) for name, expected in some_columns().items())


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 40), (7, 93), (39, 41), (80, 100), (99, 100)])
def test_any_range_gives_what_the_whole_has_there(source_and_url: tuple[Source, str], start: int, stop: int) -> None:
    source, url = source_and_url
    found = source.read(url, list(some_columns()), start, stop)
    assert all(same(found[name], expected) for name, expected in some_columns(start, stop).items())


def test_no_events_still_have_their_types(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    found = source.read(url, list(some_columns()), 0, 0)
    assert all(same(found[name], expected[:0]) for name, expected in some_columns().items())


def test_no_columns_are_no_columns(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    assert source.read(url, [], 0, EVENTS) == {}


def test_dotted_names_read_the_flat_column(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    assert same(source.read(url, ["Muon.pt"], 0, EVENTS)["Muon.pt"], some_columns()["Muon_pt"])


def test_a_column_that_is_not_there_is_named_with_the_file_and_the_nearest(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    problem = problem_of(lambda: source.read(url, ["weigth"], 0, EVENTS))
    assert problem.kind is errors.UNREADABLE_INPUT
    assert url in problem.message
    assert "'weigth'" in problem.message
    assert problem.hint == "did you mean 'weight'?"


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut in half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut early": lambda path: path.write_bytes(path.read_bytes()[:10]),
    "something else": lambda path: path.write_text("these are not events\n" * 100),
    "a folder": replace_by_folder,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_explained_and_names_the_file(source_and_url: tuple[Source, str], damage: str) -> None:
    source, url = source_and_url
    DAMAGE[damage](Path(url))
    while_planning = problem_of(lambda: source.describe(url))
    assert while_planning.kind is errors.BAD_INPUT
    assert url in while_planning.message
    while_running = problem_of(lambda: source.read(url, ["weight"], 0, 10))
    assert while_running.kind is errors.UNREADABLE_INPUT
    assert url in while_running.message


def test_a_file_written_anew_is_noticed(source_and_url: tuple[Source, str], tmp_path: Path) -> None:
    source, url = source_and_url
    before = source.describe(url)
    copy = tmp_path / "copy"
    copy.write_bytes(Path(url).read_bytes())
    os.utime(copy, ns=(1, 1))
    copy.replace(url)
    assert source.describe(url).stamp != before.stamp


def test_it_travels_to_workers(source_and_url: tuple[Source, str]) -> None:
    source, url = source_and_url
    source.read(url, ["weight"], 0, 1)
    assert pickle.loads(pickle.dumps(source)) == source
