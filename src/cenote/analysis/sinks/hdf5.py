"""Write HDF5 files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cenote.analysis.expressions.arrays import dimensions, lists_of
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.sinks.interface import Sink
from cenote.analysis.sources.hdf5 import h5py_for
from cenote.analysis.sources.interface import flat_name
from cenote.common import errors
from cenote.common.arrays import is_awkward

_DOING = "writing HDF5 files"


class Hdf5Sink(Sink):
    """Writes a dataset per column with h5py; lists of numbers have variable length. It needs the extra `hdf5`."""

    example: ClassVar[str] = """
    - id: Table
      op: filter
      params: {expr: "minutes > 1"}
      write: {kind: hdf5, path: "tables/{dataset}_{part}.h5"}
    """
    suffix: ClassVar[str] = ".h5"

    group: str = "events"
    """The group that holds the columns."""
    compression: int = 1
    """From 0, none, to 9, smallest: gzip, which every reader of HDF5 knows. Lists are not compressed."""

    def write(self, events: Events, target: Path) -> None:
        """One file; without events it still holds every column."""
        with h5py_for(_DOING).File(target, "w") as file:
            group = file.create_group(self.group)
            for name, column in events.columns.items():
                self._add(group, flat_name(name), column)

    def merge(self, parts: Sequence[Path], target: Path) -> None:
        """Part after part, column by column."""
        h5py = h5py_for(_DOING)
        with h5py.File(target, "w") as file:
            group = file.create_group(self.group)
            with h5py.File(parts[0], "r") as first:
                kinds = {name: one.dtype for name, one in first[self.group].items()}
            for name, dtype in kinds.items():
                whole = self._dataset(group, name, dtype, 0)
                for part in parts:
                    with h5py.File(part, "r") as one:
                        values = one[self.group][name][...]
                    whole.resize(len(whole) + len(values), axis=0)
                    _fill(whole, len(whole) - len(values), values)

    def _dataset(self, group: Any, name: str, dtype: Any, size: int) -> Any:
        packed = {"compression": "gzip", "compression_opts": self.compression} if self.compression else {}
        lists = dtype.kind == "O"
        return group.create_dataset(name, (size,), maxshape=(None,), dtype=dtype, **({} if lists else packed))

    def _add(self, group: Any, name: str, column: Column) -> None:
        h5py = h5py_for(_DOING)
        if dimensions(column) == 1 and not is_awkward(column):
            self._dataset(group, name, column.dtype, len(column))[...] = column
            return
        lists = lists_of(column) if dimensions(column) == 2 else None
        if lists is None or is_awkward(lists.content):
            raise errors.error(
                errors.STAGE_FAILED,
                f"column '{name}' holds missing values, texts or lists of lists, which HDF5 files cannot hold",
                hint="write parquet, or leave the column out with `keep`",
            )
        made = self._dataset(group, name, h5py.vlen_dtype(lists.content.dtype), len(lists.counts))
        _fill(made, 0, np.split(lists.content, np.cumsum(lists.counts)[:-1]) if len(lists.counts) else [])


def _fill(dataset: Any, first: int, values: Sequence[Any]) -> None:
    """From this row on. Lists one by one: h5py 3.16 takes lists of one length for a table."""
    if dataset.dtype.kind != "O":
        dataset[first:] = values
        return
    for row, one in enumerate(values, start=first):
        dataset[row] = one
