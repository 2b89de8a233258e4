"""Apply the contract of products to every kind of product."""

from __future__ import annotations

from typing import Any

import hist
import numpy as np

from cenote.analysis.operations.interface import Operation
from cenote.analysis.products.cutflow import CutflowProduct
from cenote.analysis.products.files import FilesProduct
from cenote.analysis.products.histogram import HistogramProduct
from cenote.analysis.products.object import ObjectProduct
from cenote.analysis.products.table import Table
from cenote.language.plugins import registry
from cenote.language.plugins.kinds import PluginKind
from cenote.testing.contracts import ProductContract
from cenote.testing.sample_events import sample_events


def made_by(op: str, settings: dict[str, Any]) -> list[Any]:
    """What an operation makes of some events, of none, and of others."""
    operation: Operation = registry.load(PluginKind.OPERATION, op).model_validate(settings).for_stage("Stage")
    return [operation.run(sample_events(size)).product for size in (40, 0, 60)]


class TestHistogram(ProductContract):
    plugin = HistogramProduct

    def parts(self) -> list[Any]:
        return made_by("hep.hist", {"axes": ["Muon_pt", "MET_pt"], "dataset_axis": True})


class TestGrowingHistogram(ProductContract):
    plugin = HistogramProduct

    def parts(self) -> list[Any]:
        return [
            hist.new.StrCat([], name="run", growth=True).Reg(3, 0, 3, name="x").Int64().fill(run=runs, x=[0.5, 1.5])
            for runs in (["b", "a"], ["c", "a"], ["b", "b"])
        ]


class TestTable(ProductContract):
    plugin = Table

    def parts(self) -> list[Any]:
        values = {"n": {"op": "count"}, "km": {"op": "max", "of": "hour * 2"}}
        return made_by("aggregate", {"by": ["hour", "HLT"], "values": values, "by_dataset": True})


class TestCutflow(ProductContract):
    plugin = CutflowProduct

    def parts(self) -> list[Any]:
        return made_by("hep.selection.cutflow", {"selection": {"A": ["nMuon >= 1", "HLT"], "B": ["MET_pt > 20"]}})


class TestFiles(ProductContract):
    plugin = FilesProduct

    def parts(self) -> list[Any]:
        return [[{"path": f"{name}.root", "dataset": "d", "entries": 7, "bytes": 900}] for name in "abc"]


class TestObjectThatIsJson(ProductContract):
    plugin = ObjectProduct

    def parts(self) -> list[Any]:
        return [{"mean": 1.5, "names": ["a", "b"]}]


class TestObjectOfArrays(ProductContract):
    plugin = ObjectProduct

    def parts(self) -> list[Any]:
        return [{"x": np.arange(3.0), "y": np.zeros((2, 2))}]

    def equal(self, left: Any, right: Any) -> bool:
        return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


class TestObjectOfAnyKind(ProductContract):
    plugin = ObjectProduct

    def parts(self) -> list[Any]:
        return [{1, 2, 3}]


def test_every_product_is_checked_here() -> None:
    checked = {one.plugin for one in ProductContract.__subclasses__() if one.__module__ == __name__}
    assert checked == {registry.load(PluginKind.PRODUCT, name) for name in registry.built_in_names(PluginKind.PRODUCT)}
