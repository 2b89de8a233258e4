"""The operation `aggregate`: numbers of groups of rows, as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from cenote.analysis.expressions.arrays import dimensions
from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import evaluate, event_column
from cenote.analysis.operations.support.events import Column, DatasetInfo, Events
from cenote.analysis.products.table import GroupedTable, Total
from cenote.common.arrays import ak, is_awkward
from cenote.language.plugins.quantities import InOrder
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import OneOrMany


class Aggregated(Settings):
    """A column of the table."""

    op: Literal["count", "sum", "mean", "min", "max"]
    """What is made of the values of a group."""
    of: ExpressionText | None = None
    """The values: a column, or an expression; `count` needs none."""


class Aggregate(Operation):
    """Groups rows by the values of columns and makes one line of each group; missing values are left out. Rows whose
    group is missing, or NaN, are a group. `min` and `max` pass over what is not a number (NaN).

    Sums are added in the order of partitions, so they are equal on every backend.
    """

    example: ClassVar[str] = """
    - id: ByHour
      op: aggregate
      params:
        by: hour
        values: {trips: {op: count}, fastest: {op: max, of: speed}, mean_km: {op: mean, of: kilometres}}
    """
    product: ClassVar[str | None] = "table"

    by: Annotated[tuple[str, ...], OneOrMany()] = ()
    """Columns whose values make the groups; none for one line of everything."""
    values: Annotated[dict[str, Aggregated], InOrder(), Field(min_length=1)]
    """Name of a column of the table → what stands there: `{op: sum, of: weight}`."""
    by_dataset: bool = False
    """Whether datasets are groups of their own."""

    def reads(self) -> Collection[str]:
        """The columns of groups and of expressions."""
        return tuple(dict.fromkeys((*self.by, *self.names_in(*(one.of for one in self.values.values())))))

    def looks_at(self, dataset: DatasetInfo, datasets: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG002  # its own alone
        """The name of the dataset, which may be a group."""
        return {"dataset": dataset.name} if self.by_dataset else {}

    def run(self, events: Events) -> Result:
        """Sum each group up; groups are in the order of their first row."""
        keys = [_plain(events[name], f"'{name}'") for name in self.by]
        order: dict[tuple[object, ...], int] = {}
        listed = [[None if value != value else value for value in column.tolist()] for column in keys]  # NaN
        dataset = (events.dataset.name,) if self.by_dataset else ()
        if keys:
            groups = np.array(
                [order.setdefault((*dataset, *key), len(order)) for key in zip(*listed, strict=True)], np.int64
            )
        else:
            order, groups = {dataset: 0}, np.zeros(events.size, np.int64)
        columns = {name: self._totals(one, events, groups, len(order)) for name, one in self.values.items()}
        names = (*(("dataset",) if self.by_dataset else ()), *self.by)
        lines = {key: tuple(columns[name][number] for name in columns) for key, number in order.items()}
        return Result(events, GroupedTable(names, tuple((name, one.op) for name, one in self.values.items()), lines))

    def _totals(self, one: Aggregated, events: Events, groups: Column, size: int) -> list[Total]:
        if one.of is None:
            return [Total(count) for count in np.bincount(groups, minlength=size).tolist()]
        values = event_column(evaluate(one.of, events), events, f"'{one.of}'")
        missing = np.zeros(len(values), np.bool_)
        if is_awkward(values) and dimensions(values) == 1:
            missing = ak.to_numpy(ak.is_none(values))
            values = ak.fill_none(values, 0)
        plain = _plain(values, f"'{one.of}'")
        number = np.where(missing, 0, plain) if plain.dtype.kind in "biuf" else plain
        if number.dtype.kind not in "biuf":
            raise ValueError(f"'{one.of}' is not a number: only `count` goes without")
        kind = {"f": np.float64, "u": np.uint64}.get(number.dtype.kind, np.int64)
        number, groups = number.astype(kind)[~missing], groups[~missing]
        low, high = (np.full(size, limit, number.dtype) for limit in _limits(number.dtype))
        np.fmin.at(low, groups, number)
        np.fmax.at(high, groups, number)
        counts, sums = np.bincount(groups, minlength=size), _sums(number, groups, size)
        return [Total(*each) for each in zip(counts.tolist(), sums, low.tolist(), high.tolist(), strict=True)]


def _sums(number: Column, groups: Column, size: int) -> list[float]:
    """Of each group; those of whole numbers are exact, whatever their size: both halves of the bits are added up."""
    if number.dtype.kind == "f":
        return _added(number, groups, size)
    upper, lower = (_added(half, groups, size) for half in (number >> 32, number & 0xFFFF_FFFF))
    return [(one << 32) + other for one, other in zip(upper, lower, strict=True)]


def _added(number: Column, groups: Column, size: int) -> list[Any]:  # Any: whole numbers or fractions
    sums = np.zeros(size, number.dtype)
    np.add.at(sums, groups, number)
    return list(sums.tolist())


def _plain(values: Column, what: str) -> Column:
    if dimensions(values) != 1:
        raise ValueError(f"{what} has lists: `explode` makes rows of them")
    return np.asarray(ak.to_list(values)) if is_awkward(values) else np.asarray(values)


def _limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """What is larger than any value, and what is smaller: all that is known of a group whose values are NaN."""
    if dtype.kind == "f":
        return np.inf, -np.inf
    limits = np.iinfo(dtype)
    return int(limits.max), int(limits.min)
