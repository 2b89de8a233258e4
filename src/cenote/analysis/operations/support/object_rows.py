"""Hold objects, pairs or candidates as rows, and find the columns of a collection.

Expressions see the fields by their short names. Work on rows needs numpy alone, several times faster than lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from cenote.analysis.expressions.arrays import Column, ListLengths, Lists, common_counts, dimensions, lists_of
from cenote.analysis.expressions.combinations import invariant_mass, momentum_x, momentum_y, momentum_z, pseudorapidity
from cenote.analysis.expressions.parser import ConditionText, ExpressionText, expression
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.expressions.whole_numbers import fulfilled, nan_as_missing
from cenote.analysis.operations.support.evaluation import refuse_existing, value_of
from cenote.analysis.operations.support.events import Events
from cenote.common.arrays import ak
from cenote.common.text import listed
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import OneOrMany

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


# Find the columns of a collection by the names that experiments give them.


CARTESIAN: Mapping[str, tuple[str, ...]] = {
    "px": ("px",),
    "py": ("py",),
    "pz": ("pz",),
    "energy": ("e", "energy"),
}
CYLINDRICAL: Mapping[str, tuple[str, ...]] = {"pt": ("pt",), "eta": ("eta",), "phi": ("phi",)}
MASS: tuple[str, ...] = ("mass", "m")


def column_of(collection: str, names: Collection[str], columns: Collection[str]) -> str | None:
    """The column `<collection>_<name>` for the first of these names, whatever its capital letters."""
    prefix = f"{collection}_"
    by_folded = {column.lower(): column for column in columns if column.startswith(prefix)}
    return next((by_folded[key] for name in names if (key := f"{prefix}{name}".lower()) in by_folded), None)


def columns_of(
    collection: str, wanted: Mapping[str, tuple[str, ...]], columns: Collection[str]
) -> dict[str, str] | None:
    """Component → column, if all of them are there."""
    found = {component: column_of(collection, names, columns) for component, names in wanted.items()}
    complete = {component: column for component, column in found.items() if column is not None}
    return complete if len(complete) == len(wanted) else None


# State how candidates made of several objects are selected, sorted and kept, and add their four-vectors.


FOUR_VECTOR = ("pt", "eta", "phi", "mass")
"""The fields that say where an object goes, and how heavy it is."""

AllConditions = Annotated[tuple[ConditionText, ...], OneOrMany()]
"""Conditions that must all hold: one, or a list."""


def without_dots(names: tuple[str, ...]) -> tuple[str, ...]:
    """These names, if each is that of a field alone; a settings error otherwise."""
    if dotted := next((name for name in names if "." in name), None):
        raise PydanticCustomError("bad_field", "'{name}' must be a field's name without dots", {"name": dotted})
    return names


FieldNames = Annotated[tuple[str, ...], OneOrMany(), Field(min_length=1), AfterValidator(without_dots)]
"""Names of fields, without the name of their collection."""


def of_candidate(names: tuple[str, ...], known: Collection[str]) -> tuple[str, ...]:
    """These names, if a candidate has all of them; a settings error otherwise."""
    if odd := next((name for name in names if name not in known), None):
        raise PydanticCustomError(
            "bad_field", "a candidate has no '{name}', only {known}", {"name": odd, "known": listed(known)}
        )
    return names


class CandidateOrder(Settings):
    """The order of candidates; equal ones stay as they were."""

    by: ExpressionText | None = None
    """An expression of the candidate's own fields."""
    order: Literal["ascending", "descending"] = "ascending"
    """Which come first: `ascending` puts the smallest first."""


def sum_of_two(one: Collection[Column], other: Collection[Column]) -> dict[str, Column]:
    """The four-vector of two objects together; of each pt, eta, phi and mass are given, as long arrays."""
    (pt_1, eta_1, phi_1, _), (pt_2, eta_2, phi_2, _) = one, other
    with np.errstate(all="ignore"):  # along the beam the pseudorapidity is infinite
        px = momentum_x(pt_1, phi_1) + momentum_x(pt_2, phi_2)
        py = momentum_y(pt_1, phi_1) + momentum_y(pt_2, phi_2)
        pz = momentum_z(pt_1, eta_1) + momentum_z(pt_2, eta_2)
        return {
            "pt": np.sqrt(px**2 + py**2),
            "eta": pseudorapidity(px, py, pz),
            "phi": np.arctan2(py, px),
            "mass": invariant_mass(*one, *other),
        }


def refuse_all_existing(names: Collection[str], columns: Collection[str], stage: str) -> None:
    """Raises `column-clash` for the first of these that is there already."""
    for name in names:
        refuse_existing(name, columns, stage)
