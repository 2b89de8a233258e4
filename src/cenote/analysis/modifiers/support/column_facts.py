"""Look at all values of a column, whatever its structure, and state what there is to know of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.modifiers.support.measures import Value
from cenote.analysis.operations.support.events import Column
from cenote.common.arrays import ak, is_awkward

LONGEST_TYPE = 160
"""Characters of a type that are told: those of collections may fill pages."""

_Layout = Any  # awkward publishes no types


@dataclass
class ColumnFacts:
    """What there is in a column."""

    type: str
    """Of one event."""
    values: int = 0
    """Numbers, flags and texts."""
    bytes: int = 0
    """Of the values, and of what tells where lists begin."""
    nan: int = 0
    infinite: int = 0
    missing: int = 0
    empty: int = 0
    """Lists without elements."""
    least: float | None = None
    most: float | None = None
    """Of the finite numbers."""

    @property
    def odd(self) -> bool:
        """Whether some numbers are none."""
        return bool(self.nan or self.infinite)

    def measures(self) -> dict[str, Value]:
        """As the modifier notes them."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def add_numbers(self, numbers: NDArray[Any]) -> None:
        """Count the values of a plain array, of any number of dimensions."""
        self.values += numbers.size
        self.bytes += numbers.nbytes
        if numbers.dtype.kind == "O":
            self.missing += sum(value is None for value in numbers.flat)
        if numbers.dtype.kind in "fc":
            finite = np.isfinite(numbers)
            nan = int(np.isnan(numbers).sum())
            self.nan += nan
            self.infinite += int(numbers.size - finite.sum()) - nan
            numbers = numbers if finite.all() else numbers[finite]
        if numbers.dtype.kind in "biuf" and numbers.size:
            number = float if numbers.dtype.kind == "f" else int
            self._extend(number(numbers.min()), number(numbers.max()))

    def _extend(self, low: float, high: float) -> None:
        self.least = low if self.least is None else min(self.least, low)
        self.most = high if self.most is None else max(self.most, high)

    def add_layout(self, layout: _Layout) -> None:
        """Count the values of an awkward array, however deep."""
        if layout.is_unknown:
            return
        if layout.is_option:
            whole = layout.project()
            self.missing += len(layout) - len(whole)
            self.add_layout(whole)
        elif layout.is_union:
            for number in range(len(layout.contents)):
                self.add_layout(layout.project(number))
        elif layout.is_indexed:
            self.add_layout(layout.project())
        elif layout.is_record:
            for field in range(len(layout.contents)):
                self.add_layout(layout.content(field))
        elif layout.is_list:
            self._add_lists(layout)
        else:
            self.add_numbers(np.asarray(layout.data))

    def _add_lists(self, layout: _Layout) -> None:
        lists = layout.to_ListOffsetArray64(True)
        offsets = np.asarray(lists.offsets.data)
        self.bytes += offsets.nbytes
        content = lists.content[: offsets[-1]]
        if layout.parameter("__array__") in ("string", "bytestring"):
            self.values += len(lists)
            self.bytes += len(content)
            return
        self.empty += int(np.count_nonzero(np.diff(offsets) == 0))
        self.add_layout(content)


def facts_by_name(name: str, column: Column) -> Iterator[tuple[str, ColumnFacts]]:
    """Of a column, or of each of its fields: `Muon.pt`, `Muon.eta`."""
    fields = ak.fields(column) if is_awkward(column) else ()
    if not fields:
        yield name, facts_of(column)
    for field in fields:
        yield from facts_by_name(f"{name}.{field}", column[field])


def facts_of(column: Column) -> ColumnFacts:
    """Look at all of it, wherever it lies."""
    column = _on_host(column)
    if is_awkward(column):
        facts = ColumnFacts(_shortened(str(column.type.content)))
        facts.add_layout(column.layout)
        return facts
    array = np.asarray(column)
    inner = "".join(f"{length} * " for length in array.shape[1:])
    facts = ColumnFacts(f"{inner}{array.dtype}")
    facts.add_numbers(array)
    return facts


def _on_host(column: Column) -> Column:
    """The same values where numpy can reach them: earlier stages may have left them in the memory of a GPU."""
    if is_awkward(column):
        return column if ak.backend(column) == "cpu" else ak.to_backend(column, "cpu")
    return column.get() if hasattr(type(column), "__cuda_array_interface__") else column


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TYPE else f"{text[: LONGEST_TYPE - 1]}…"
