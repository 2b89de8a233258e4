"""Write ROOT files: an RNTuple or a TTree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import uproot
from pydantic import Field

from cenote.analysis.operations.support.events import Column, Events, flat
from cenote.analysis.sinks.interface import Sink
from cenote.analysis.sources.interface import flat_name
from cenote.common import errors
from cenote.common.arrays import ak, is_awkward


class RootTreeSink(Sink):
    """Writes all columns as branches of one tree."""

    example: ClassVar[str] = """
    - id: Skim
      op: hep.select
      params: {selection: ["nMuon >= 2"]}
      write: {kind: root_tree, path: "skims/{dataset}_{part}.root", keep: [Muon_pt, Muon_eta], tree: Events}
    """

    suffix: ClassVar[str] = ".root"

    tree: str = "events"
    """The name of the tree."""
    format: Literal["rntuple", "ttree"] = "rntuple"
    """ROOT's new format, or the one that every version of ROOT reads."""
    compression: Literal["zlib", "lz4", "zstd", "none"] = "zlib"
    """How the file is compressed: lz4 reads fastest, zstd is smallest."""
    compression_level: int = Field(default=1, ge=0, le=9)
    """From 1, fast, to 9, small."""
    mode: Literal["recreate"] = "recreate"
    """Files are always written anew."""

    def write(self, events: Events, target: Path) -> None:
        """One file; without events it still holds every column."""
        columns = {flat_name(name): _complete(column) for name, column in events.columns.items()}
        with uproot.recreate(target, compression=self._compression()) as file:
            self._begin(file, columns)

    def _begin(self, file: Any, columns: dict[str, Column]) -> None:  # Any: uproot publishes no types
        if self.format == "rntuple":
            file.mkrntuple(self.tree, columns)
        else:
            _write_ttree(file, self.tree, columns)

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Part after part; parts without events add nothing, and say nothing about types."""
        filled = [part for part in parts if self._entries(part)] or parts[:1]
        with uproot.recreate(target, compression=self._compression()) as file:
            for number, part in enumerate(filled):
                columns = self._columns_of(part)
                if number:
                    file[self.tree].extend(columns if self.format == "rntuple" else _with_counters(columns))
                else:
                    self._begin(file, columns)

    def _entries(self, part: Path) -> int:
        with uproot.open(part) as file:
            return int(file[self.tree].num_entries)

    def _columns_of(self, part: Path) -> dict[str, Column]:
        with uproot.open(part) as file:
            read = file[self.tree].arrays()
        return {name: _complete(flat(read[name])) for name in read.fields}

    def _compression(self) -> Any:  # Any: uproot publishes no types
        algorithms = {"zlib": uproot.ZLIB, "lz4": uproot.LZ4, "zstd": uproot.ZSTD}
        return None if self.compression == "none" else algorithms[self.compression](self.compression_level)


def _complete(column: Column) -> Column:
    """With a type even where nothing says which: an empty list of nothing is one of numbers."""
    if isinstance(column, np.ndarray) and column.dtype.kind not in "OUS" and column.ndim == 1:
        return column
    array = ak.Array(column) if not isinstance(column, np.ndarray) else ak.from_numpy(column)
    if "unknown" in str(array.type):
        array = ak.values_astype(array, np.float64, including_unknown=True)
    return ak.to_packed(array)


def _write_ttree(file: Any, name: str, columns: dict[str, Column]) -> None:
    for column, values in columns.items():
        _demand_simple(column, values)
    branches = _with_counters(columns)
    tree = file.mktree(name, {branch: _type(values) for branch, values in branches.items()}, counter_name="n{}".format)
    if any(len(values) for values in branches.values()):
        tree.extend(branches)


def _demand_simple(name: str, values: Column) -> None:
    kind = str(ak.type(values)) if is_awkward(values) else ""
    trouble = "missing values" if "?" in kind or "option" in kind else "lists of lists" if kind.count("var") > 1 else ""
    if trouble:
        raise errors.error(
            errors.STAGE_FAILED,
            f"column '{name}' holds {trouble}, which `format: ttree` cannot store",
            hint="write `format: rntuple`, or leave the column out with `keep`",
        )


def _with_counters(columns: dict[str, Column]) -> dict[str, Column]:
    """Jagged columns of one collection share a counter, as in NanoAOD: `nMuon` for `Muon_pt` and `Muon_eta`."""
    collections: defaultdict[str, dict[str, Column]] = defaultdict(dict)
    for name, values in columns.items():
        collection, _, field = name.partition("_")
        if field and is_awkward(values) and values.ndim == 2 and "string" not in str(values.type):
            collections[collection][field] = values
    result = dict(columns)
    for collection, fields in collections.items():
        counts = [np.asarray(ak.num(values)) for values in fields.values()]
        counter = columns.get(f"n{collection}", counts[0])
        if collection not in columns and all(np.array_equal(count, counter) for count in counts):
            for field in fields:
                del result[f"{collection}_{field}"]
            result.pop(f"n{collection}", None)
            result[collection] = ak.zip(fields)
    return result


def _type(values: Column) -> Any:
    return values.type.content if is_awkward(values) else values.dtype
