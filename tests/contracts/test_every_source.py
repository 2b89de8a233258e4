"""Apply the contract of sources to every one, with files of each format that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uproot

from cenote.operations.support.events import Column
from cenote.plugins import registry
from cenote.plugins.kinds import PluginKind
from cenote.sources.interface import Source
from cenote.sources.parquet import ParquetSource
from cenote.sources.root_tree.source import RootTreeSource
from cenote.sources.zip import ZipSource
from cenote.testing.contracts import SourceContract

CLUSTER = 40


def in_clusters(columns: Mapping[str, Column]) -> list[dict[str, Any]]:
    size = len(next(iter(columns.values())))
    return [{name: c[start : start + CLUSTER] for name, c in columns.items()} for start in range(0, size, CLUSTER)]


class InClusters(SourceContract):
    """Files in clusters of events."""

    def test_its_boundaries_are_those_of_the_clusters(self, made: Source, url: str) -> None:
        assert list(made.describe(url).boundaries) == [0, 40, 80, 100]


class TestTTree(InClusters):
    plugin = RootTreeSource

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        types = {name: c.type.content if isinstance(c, ak.Array) else c.dtype for name, c in columns.items()}
        with uproot.recreate(path) as file:
            tree = file.mktree("Events", types)
            for cluster in in_clusters(columns):
                tree.extend(cluster)


class TestRNTuple(InClusters):
    plugin = RootTreeSource

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        first, *rest = in_clusters(columns)
        with uproot.recreate(path) as file:
            ntuple = file.mkrntuple("Events", first)
            for cluster in rest:
                ntuple.extend(cluster)


class TestParquet(InClusters):
    plugin = ParquetSource

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        arrays = {
            name: ak.to_arrow(values, extensionarray=False) if isinstance(values, ak.Array) else pa.array(values)
            for name, values in columns.items()
        }
        pq.write_table(pa.table(arrays), path, row_group_size=CLUSTER)


class TestZip(SourceContract):
    """Two trees of one file."""

    plugin = ZipSource

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        types = {name: c.type.content if isinstance(c, ak.Array) else c.dtype for name, c in columns.items()}
        with uproot.recreate(path) as file:
            file.mktree("Events", types).extend(dict(columns))
            file.mktree("l1UpgradeTree", {"n": np.int64}).extend({"n": np.arange(len(next(iter(columns.values()))))})


def test_every_source_is_checked_here() -> None:
    checked = {one.plugin for one in (*InClusters.__subclasses__(), TestZip)}
    assert checked == {registry.load(PluginKind.SOURCE, name) for name in registry.built_in_names(PluginKind.SOURCE)}
