"""Check the contract of sinks on every sink there is: what is written is read back equal."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

from cenote.operations.support.events import DatasetInfo, Events
from cenote.plugins.kinds import PluginKind
from cenote.plugins.registry import load, names

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "root_tree": ("root_tree", {}),
    "root_tree, TTree": ("root_tree", {"format": "ttree"}),
    "root_tree, zstd": ("root_tree", {"compression": "zstd", "compression_level": 5}),
    "root_tree, lz4": ("root_tree", {"format": "ttree", "compression": "lz4", "tree": "skim"}),
    "root_tree, not compressed": ("root_tree", {"compression": "none"}),
    "parquet": ("parquet", {}),
    "parquet, not compressed": ("parquet", {"compression": "none"}),
}


def some_events(size: int = 50) -> Events:
    number = np.arange(50)
    counts = number % 3
    columns: dict[str, Any] = {
        "number": number.astype(np.uint64),
        "small": number.astype(np.int8),
        "weight": np.sqrt(number),
        "MET_pt": number.astype(np.float32) / 3,
        "passes": number % 2 == 0,
        "nMuon": counts.astype(np.int32),
        "Muon_pt": ak.unflatten(np.arange(counts.sum(), dtype=np.float32), counts),
        "Muon_tight": ak.unflatten(np.arange(counts.sum()) % 2 == 0, counts),
        "Jet_pt": ak.unflatten(np.arange(100.0), 2 + 0 * counts),
        "Jet_extra": ak.unflatten(np.arange(counts.sum(), dtype=np.int32), counts),
    }
    columns = {name: values[:size] for name, values in columns.items()}
    return Events(columns, size, DatasetInfo("mc"))


@pytest.fixture(params=SETTINGS)
def use(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return SETTINGS[request.param]


def read_back(kind: str, path: Path, events: Events) -> dict[str, Any]:
    source = load(PluginKind.SOURCE, kind)()
    info = source.describe(str(path))
    assert info.entries == len(events)
    assert set(events.names) <= set(info.columns)
    columns: dict[str, Any] = source.read(str(path), events.names, 0, info.entries)
    return columns


def same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and ak.type(left) == ak.type(right) and ak.to_list(left) == ak.to_list(right)


def test_every_sink_is_checked_here() -> None:
    assert {kind for kind, _ in SETTINGS.values()} == set(names(PluginKind.SINK))


@pytest.mark.parametrize("size", [50, 1, 0])
def test_what_is_written_is_read_back_equal(use: tuple[str, dict[str, Any]], tmp_path: Path, size: int) -> None:
    kind, settings = use
    sink = load(PluginKind.SINK, kind)(**settings)
    events = some_events(size)
    target = tmp_path / f"skim{sink.suffix}"
    sink.write(events, target)
    found = read_back(kind, target, events)
    assert [name for name in events.names if not same(found[name], events[name])] == []


def test_columns_that_were_sliced_are_written_whole(use: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    kind, settings = use
    sink = load(PluginKind.SINK, kind)(**settings)
    events = some_events().where(np.arange(50) % 7 == 1)
    sink.write(events, tmp_path / "skim")
    found = read_back(kind, tmp_path / "skim", events)
    assert [name for name in events.names if not same(found[name], events[name])] == []


def test_columns_with_dots_are_found_again_by_their_name(use: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    kind, settings = use
    events = Events({"cuts.two_muons": np.array([True, False])}, 2, DatasetInfo("mc"))
    load(PluginKind.SINK, kind)(**settings).write(events, tmp_path / "skim")
    found = load(PluginKind.SOURCE, kind)().read(str(tmp_path / "skim"), ["cuts.two_muons"], 0, 2)
    assert found["cuts.two_muons"].tolist() == [True, False]


def test_it_travels_to_workers_and_says_its_suffix(use: tuple[str, dict[str, Any]]) -> None:
    kind, settings = use
    sink = load(PluginKind.SINK, kind)(**settings)
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert sink.suffix.startswith(".")


def test_parts_become_one_file_in_their_order(use: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    kind, settings = use
    sink, events = load(PluginKind.SINK, kind).model_validate(settings), some_events()
    cuts = [(0, 0), (0, 20), (20, 20), (20, 50)]
    parts = []
    for number, (first, last) in enumerate(cuts):
        part = Events({n: c[first:last] for n, c in events.columns.items()}, last - first, DatasetInfo("mc"))
        parts.append(tmp_path / f"{number}{sink.suffix}")
        sink.write(part, parts[-1])
    sink.merge(parts, tmp_path / f"all{sink.suffix}")
    sink.write(events, tmp_path / f"once{sink.suffix}")
    merged, once = (read_back(kind, tmp_path / f"{name}{sink.suffix}", events) for name in ("all", "once"))
    assert merged.keys() == once.keys()
    for name, column in once.items():
        assert ak.to_list(merged[name]) == ak.to_list(column)
        assert str(ak.type(merged[name])) == str(ak.type(column))


def test_parts_without_events_become_a_file_with_every_column(use: tuple[str, dict[str, Any]], tmp_path: Path) -> None:
    kind, settings = use
    sink, nothing = load(PluginKind.SINK, kind).model_validate(settings), some_events(0)
    parts = [tmp_path / f"{number}{sink.suffix}" for number in range(2)]
    for part in parts:
        sink.write(nothing, part)
    sink.merge(parts, tmp_path / f"all{sink.suffix}")
    read_back(kind, tmp_path / f"all{sink.suffix}", nothing)
