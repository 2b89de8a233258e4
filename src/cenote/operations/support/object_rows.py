"""Hold objects, pairs or candidates as rows: one long array per field, and how many rows each event has.

Expressions see the fields by their short names. Work on rows needs numpy alone, several times faster than lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import Column, dimensions
from cenote.expressions.expression import expression
from cenote.expressions.lists import ListLengths, Lists, common_counts, lists_of
from cenote.expressions.missing import fulfilled, nan_as_missing
from cenote.expressions.problems import EvaluationError
from cenote.jagged import ak
from cenote.operations.support.evaluation import value_of
from cenote.operations.support.events import Events
from cenote.values import dataclass

RowPositions = NDArray[np.int64]


@dataclass(frozen=True)
class ObjectRows:
    """Fields of equal length."""

    fields: Mapping[str, Column]
    counts: ListLengths
    """How many rows each event has."""
    events: Events
    """For what is not a field: columns with one value per event, constants, facts of the dataset."""

    @property
    def size(self) -> int:
        """The number of rows of all events."""
        return int(self.counts.sum())

    def value(self, name: str) -> Column:
        """A field; where there is none of the name, what the event has, for each of its rows."""
        if name in self.fields:
            return self.fields[name]
        value = value_of(name, self.events)
        if dimensions(value) > 1:
            raise EvaluationError(f"'{name}' is neither a field nor one value per event")
        return np.repeat(value, self.counts) if dimensions(value) == 1 else value

    def chosen(self, conditions: Iterable[str]) -> ObjectRows:
        """The rows that fulfil all of these."""
        mask = np.ones(self.size, np.bool_)
        for text in conditions:
            mask &= self._mask(text)
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def _mask(self, text: str) -> NDArray[np.bool_]:
        value = fulfilled(expression(text).evaluate(self.value))
        if np.asarray(value).dtype != np.bool_ and np.size(value):
            raise EvaluationError(f"'{text}' gives numbers, a selection needs true or false: write '({text}) != 0'")
        return np.broadcast_to(np.asarray(value, np.bool_), self.size)

    def take(self, positions: RowPositions) -> ObjectRows:
        """These rows, which come in the order of their events."""
        fields = {name: values[positions] for name, values in self.fields.items()}
        left = np.searchsorted(positions, np.cumsum(self.counts)) if _rises(positions) else self._counted(positions)
        return replace(self, fields=fields, counts=np.diff(left, prepend=0))

    def _counted(self, positions: RowPositions) -> NDArray[np.int64]:
        events = np.repeat(np.arange(len(self.counts)), self.counts)[positions]
        return np.cumsum(np.bincount(events, minlength=len(self.counts)))

    def in_order(self, by: str, *, ascending: bool) -> ObjectRows:
        """Sorted within their events by an expression; equal ones stay in their order."""
        keys = np.broadcast_to(expression(by).evaluate(self.value), self.size)
        return self.take(order_within(Lists(keys, self.counts), ascending=ascending))

    def with_fields(self, added: Mapping[str, Column]) -> ObjectRows:
        """With more fields."""
        return replace(self, fields={**self.fields, **added})

    def columns(self, output: str, names: Collection[str], field: str = "{}") -> dict[str, Column]:
        """Fields as columns `<output>_<name>` with a list per event; `field` is what a name is called here."""
        return {f"{output}_{name}": Lists(self.fields[field.format(name)], self.counts).column() for name in names}


def fields_in(columns: Collection[str], collection: str) -> tuple[str, ...]:
    """The fields of a collection: what its columns are called after `<collection>_`."""
    prefix = f"{collection}_"
    return tuple(name.removeprefix(prefix) for name in columns if name.startswith(prefix))


def rows_of(events: Events, collection: str, fields: Collection[str]) -> ObjectRows:
    """The objects of a collection. Raises EvaluationError where fields have different numbers of elements."""
    names = {name: f"{collection}_{name}" for name in fields}
    lists = {name: lists_of(_listed(events, column)) for name, column in names.items()}
    counts = common_counts([(names[name], found) for name, found in lists.items()])
    if counts is None:
        raise EvaluationError(f"no field of the collection '{collection}' is read")
    return ObjectRows({name: found.content for name, found in lists.items()}, counts, events)


def _listed(events: Events, column: str) -> Column:
    values = events[column]
    if dimensions(values) < 2:
        raise EvaluationError(f"'{column}' has one value per event, not one for each object")
    return values


def one_after_the_other(parts: Sequence[ObjectRows]) -> ObjectRows:
    """The objects of several collections as one, in this order within each event."""
    first = parts[0]
    if len(parts) == 1:
        return first
    joined = {}
    for name in first.fields:
        whole = ak.concatenate([Lists(part.fields[name], part.counts).column() for part in parts], axis=1)
        joined[name] = lists_of(whole).content
    return replace(first, fields=joined, counts=sum((part.counts for part in parts[1:]), first.counts))


def order_within(keys: Lists, *, ascending: bool) -> RowPositions:
    """Positions that sort the elements within their events; equal ones stay in their order, NaN and missing ones are
    last."""
    sizes = Lists(nan_as_missing(keys.content), keys.counts).column()
    within: RowPositions = lists_of(ak.argsort(sizes, axis=1, ascending=ascending, stable=True)).content
    ends = np.cumsum(keys.counts)
    return np.repeat(ends - keys.counts, keys.counts) + within


def _rises(positions: RowPositions) -> bool:
    return bool(np.all(positions[1:] > positions[:-1]))
