"""Apply the contract of sources to every one, with files of each format that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot
from pyarrow import csv as arrow_csv

from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.analysis.sinks.arrow import ArrowSink
from cenote.analysis.sinks.hdf5 import Hdf5Sink
from cenote.analysis.sinks.json import JsonSink
from cenote.analysis.sources.arrow import ArrowSource
from cenote.analysis.sources.csv import CsvSource
from cenote.analysis.sources.hdf5 import Hdf5Source
from cenote.analysis.sources.interface import Source
from cenote.analysis.sources.json import JsonSource
from cenote.analysis.sources.parquet import ParquetSource
from cenote.analysis.sources.root_tree.source import RootTreeSource
from cenote.analysis.sources.toy import ToySource
from cenote.analysis.sources.workshop.parquet import WorkshopParquet
from cenote.analysis.sources.workshop.toy_source import WorkshopToySource
from cenote.analysis.sources.zip import ZipSource
from cenote.common.errors import CenoteError
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.testing.contracts import SourceContract
from cenote.testing.sample_events import same_column

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


def plain_columns(*, lists: bool) -> dict[str, Column]:
    """What text can hold: whole numbers, doubles, flags; lists of doubles."""
    number = np.arange(100)
    counts = number % 4
    more = {"Muon_pt": ak.unflatten(np.arange(counts.sum()) / 4, counts)} if lists else {}
    return {"number": number, "weight_w": np.sqrt(number), "trigger": number % 3 == 0, **more}


class TestCsv(SourceContract):
    plugin = CsvSource
    unnoticed = ("cut in half", "cut early", "something else")

    def columns(self) -> Mapping[str, Column]:
        return plain_columns(lists=False)

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        arrow_csv.write_csv(pa.table(dict(columns)), path)


class TestJson(SourceContract):
    plugin = JsonSource
    unnoticed = ("cut in half",)

    def columns(self) -> Mapping[str, Column]:
        return plain_columns(lists=True)

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        JsonSink().write(Events(columns, 100, DatasetInfo("mc")), path)


class TestArrow(SourceContract):
    plugin = ArrowSource

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        ArrowSink().write(Events(columns, 100, DatasetInfo("mc")), path)


class TestHdf5(SourceContract):
    plugin = Hdf5Source

    def write(self, path: Path, columns: Mapping[str, Column]) -> None:
        Hdf5Sink().write(Events(columns, 100, DatasetInfo("mc")), path)


class TestWorkshopParquet(TestParquet):
    plugin = WorkshopParquet


@pytest.mark.parametrize("plugin", [ToySource, WorkshopToySource])
def test_what_is_generated_does_not_depend_on_how_it_is_cut(plugin: type[ToySource]) -> None:
    source = plugin(nevents=25_000, seed=3)
    info = source.describe("toy://ttbar")
    assert info.entries == 25_000
    whole = source.read("toy://ttbar", list(info.columns), 0, 25_000)
    cuts = [0, 1, 9_999, 10_000, 20_001, 25_000]
    parts = [source.read("toy://ttbar", list(info.columns), *ends) for ends in pairwise(cuts)]
    for name, column in whole.items():
        assert same_column(ak.concatenate([ak.Array(part[name]) for part in parts]), ak.Array(column)), name
    assert not np.array_equal(
        whole["MET"], plugin(nevents=25_000, seed=4).read("toy://ttbar", ["MET"], 0, 25_000)["MET"]
    )
    px = -(ak.sum(whole["Muon_Px"], axis=1) + ak.sum(whole["Jet_Px"], axis=1))
    assert np.allclose(whole["MET_Px"], px)


def test_the_workshop_s_events_are_those_of_fast_hep() -> None:
    """Sums of 1,000 events that its package, 2026.8.2, generates for this seed."""
    sums = {
        "Muon_Pz": 1278.0899440131393, "Jet_Pz": 3534.586400190368, "MET": 719366.8839967051,
        "RunNumber": 304956907, "Trigger": 983, "Muon_Charge": 20, "Muon_Iso": 73.61972981339943,
    }  # fmt: skip
    found = WorkshopToySource(nevents=1_000, seed=2602).read("toy://ttbar", list(sums), 0, 1_000)
    assert {name: float(ak.sum(column)) for name, column in found.items()} == pytest.approx(sums, rel=1e-12)


def test_a_process_that_is_none_is_named_with_the_nearest() -> None:
    with pytest.raises(CenoteError) as caught:
        ToySource().describe("toy://ttbr")
    (problem,) = caught.value.problems
    assert problem.hint == "did you mean 'toy://ttbar'?"


def test_every_source_is_checked_here() -> None:
    checked = {
        one.plugin for one in (*InClusters.__subclasses__(), *SourceContract.__subclasses__()) if hasattr(one, "plugin")
    }
    checked |= {WorkshopParquet, ToySource, WorkshopToySource}
    assert checked == {registry.load(PluginKind.SOURCE, name) for name in registry.built_in_names(PluginKind.SOURCE)}
