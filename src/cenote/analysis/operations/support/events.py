"""Define Events: the columns of one partition, as operations see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from cenote.analysis.expressions.arrays import Column as Column
from cenote.common.arrays import ak, is_awkward
from cenote.common.text import column_name, did_you_mean, listed
from cenote.common.values import dataclass
from cenote.language.workflow import DEFAULT_EVENTTYPE


class NoColumnError(KeyError):
    """A column was asked for that is not here."""


@dataclass(frozen=True)
class DatasetInfo:
    """What operations may know of the dataset that their events come from."""

    name: str
    eventtype: str = DEFAULT_EVENTTYPE
    group: str | None = None
    nevents: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    stands_in: str | None = None
    """Its own name, where it takes the place of the dataset `name` in a variation."""

    @property
    def own_name(self) -> str:
        """The name of the dataset that the files belong to."""
        return self.stands_in or self.name

    def facts(self) -> dict[str, Any]:
        """What expressions may ask of the dataset: `dataset_name`, `dataset_is_data`, `dataset_<metadata key>`."""
        own = {
            "name": self.name,
            "eventtype": self.eventtype,
            "group": self.group or self.name,
            "nevents": self.nevents,
            "is_data": self.eventtype == "data",
        }
        return {f"{DATASET}{key}": value for key, value in {**self.metadata, **own}.items()}


DATASET = "dataset_"
"""How names begin that ask for a fact about the dataset."""


def describes_dataset(name: str) -> bool:
    """Whether a name asks for a fact about the dataset, where no column is called so."""
    return name.startswith(DATASET)


@dataclass(frozen=True)
class Events:
    """Columns of equal length. A change gives a new value; columns themselves are shared, never copied."""

    columns: Mapping[str, Column]
    size: int
    dataset: DatasetInfo
    datasets: tuple[str, ...] = ()
    """The names of all datasets of the run, in order."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """`analysis.globals`."""
    index: Column | None = None
    """Entry numbers (within the partition) of the events still here; None while all of them are."""
    products: Mapping[str, Any] = field(default_factory=dict)
    """Products of run-scope and dataset-scope stages that this stage needs, by stage id."""

    live: frozenset[str] | None = None
    """The columns that a later stage reads; None where that is not known. A selection need not carry the others."""

    resident: Mapping[str, Column] = field(default_factory=dict)
    """Columns that lie on a device too, while a stage runs there: it computes with these. What goes on to other stages
    are always `columns`."""

    def __getitem__(self, name: str) -> Column:
        known = column_name(name, self.columns)
        column = self.resident[known] if known in self.resident else self.columns.get(known)
        if column is not None:
            return column
        hint = did_you_mean(name, self.columns)
        raise NoColumnError(f"no column '{name}' here" + (f"; {hint}" if hint else ""))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and column_name(name, self.columns) in self.columns

    def __len__(self) -> int:
        return self.size

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.columns)

    def product(self, stage: str) -> Any:
        """The product of an earlier run-scope or dataset-scope stage, such as a trained model."""
        if stage not in self.products:
            there = listed(self.products)
            raise KeyError(f"no product of a stage '{stage}' here, only: {there}; name '{stage}' under `needs`")
        return self.products[stage]

    def with_columns(self, added: Mapping[str, Column]) -> Events:
        """With these columns added or replaced."""
        resident = {name: column for name, column in self.resident.items() if name not in added}
        return replace(self, columns={**self.columns, **added}, resident=resident)

    def keep(self, names: Iterable[str]) -> Events:
        """With these columns only; names that are not here are passed over."""
        wanted = set(names)
        resident = {n: c for n, c in self.resident.items() if n in wanted}
        return replace(self, columns={n: c for n, c in self.columns.items() if n in wanted}, resident=resident)

    def where(self, mask: Column) -> Events:
        """The events for which the mask (one boolean per event) is true, with the columns that are still read."""
        chosen = np.asarray(mask)
        if chosen.dtype != np.bool_ or chosen.shape != (self.size,):
            raise ValueError(f"a selection needs one boolean per event, this is {chosen.dtype} of shape {chosen.shape}")
        positions = np.flatnonzero(chosen)
        if len(positions) == self.size:
            return self
        index = positions if self.index is None else self.index[positions]
        columns = {n: _taken(c, positions) for n, c in self.columns.items() if self.live is None or n in self.live}
        return replace(self, columns=columns, size=len(positions), index=index, resident={})


def _taken(column: Column, positions: Column) -> Column:
    """The values at these positions. awkward would import numpy's masked arrays to see that positions are none."""
    return column[ak.contents.NumpyArray(positions)] if is_awkward(column) else column[positions]


def flat(column: Column) -> Column:
    """A column of one value per event as numpy where that is free, unchanged otherwise."""
    if is_awkward(column) and column.ndim == 1 and isinstance(column.layout, ak.contents.NumpyArray):
        return column.layout.data
    return column
