"""The operation `hep.select_objects`: a new collection with the objects that fulfil a selection."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from cenote.analysis.compiled.sample_types import obstacle_in_any
from cenote.analysis.expressions.arrays import ListLengths, Lists, common_counts, lists_of
from cenote.analysis.expressions.parser import ConditionText, ExpressionText, expression
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import element_mask, value_of
from cenote.analysis.operations.support.events import Column, Events, describes_dataset
from cenote.analysis.operations.support.object_rows import column_of, order_within, without_dots
from cenote.language.plugins.quantities import InOrder
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import OneOrMany

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm

ElementPositions = NDArray[np.int64]


class Sort(Settings):
    """The order of the objects of an event; equal ones stay as they were."""

    by: str
    """A field, or one of `derived`."""
    order: Literal["ascending", "descending"] = "descending"
    """Which come first: `descending` puts the largest first."""


class SelectObjects(Operation):
    """Copies objects of one collection (columns `<collection>_<field>`) into another, and counts them in `n<output>`.

    Names in expressions are fields of the collection; where it has no such field, columns of the event.
    """

    example: ClassVar[str] = """
    - id: GoodMuons
      op: hep.select_objects
      params:
        collection: Muon
        output: GoodMuon
        selection: ["pt > 25", "abs(eta) < 2.4"]
        keep: [pt, eta, phi, mass]
    """
    names_are_columns: ClassVar[bool] = False

    collection: str
    """Where the objects come from."""
    output: str
    """The new collection; the same name replaces the old one."""
    selection: Annotated[tuple[ConditionText, ...], OneOrMany()] = ()
    """Conditions on each object; all must hold."""
    keep: tuple[str, ...] = Field(min_length=1)
    """Fields of the new collection."""
    derived: Annotated[dict[str, ExpressionText], InOrder()] = Field(default_factory=dict)
    """Further fields, computed from those of the collection; kept if `keep` names them."""
    sort: Sort | Literal[False] | None = None
    """`{by, order}`, or `false` for the stored order. By default the largest `pt` comes first, if there is one."""
    missing_fields: Literal["error", "ignore"] = "error"
    """What happens when `keep` names a field that is not there."""

    @field_validator("keep")
    @classmethod
    def _plain_fields(cls, keep: tuple[str, ...]) -> tuple[str, ...]:
        return without_dots(keep)

    def reads(self) -> Collection[str]:
        """Fields and columns of the selection, of what is kept, and of the sort key."""
        found = [self._column(name, self._columns) for name in self._used()[1]]
        key = self._default_key(self._columns)
        return tuple(dict.fromkeys(column for column in [*found, key] if column is not None))

    def _used(self) -> tuple[frozenset[str], Collection[str]]:
        """Which of `derived` are used, and the names that come from elsewhere: they may be called the same."""
        names = dict.fromkeys([*self.keep, *self.names_in(*self.selection)])
        if isinstance(self.sort, Sort):
            names[self.sort.by] = None
        used: set[str] = set()
        for name, text in reversed(self.derived.items()):
            if name in names:
                used.add(name)
                del names[name]
                names |= dict.fromkeys(self.names_in(text))
        return frozenset(used), names

    def _column(self, name: str, columns: Collection[str]) -> str | None:
        """The column that a name means; None for a field that may be missing."""
        field = f"{self.collection}_{name}"
        if describes_dataset(name) and field not in columns:
            return name
        if field in columns or not columns:
            return field
        if name in self.keep:
            return None if self.missing_fields == "ignore" else field
        return name

    def _default_key(self, columns: Collection[str]) -> str | None:
        return column_of(self.collection, ("pt",), columns) if self.sort is None else None

    def adds(self) -> Collection[str]:
        """The fields kept, and the number of objects."""
        there = [name for name in self.keep if self._is_there(name, self._columns)]
        return (*(f"{self.output}_{name}" for name in there), f"n{self.output}")

    def _is_there(self, name: str, columns: Collection[str]) -> bool:
        missing = self.missing_fields == "ignore" and bool(columns) and f"{self.collection}_{name}" not in columns
        return name in self.derived or not missing

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Select, sort and copy."""
        objects = _Objects(self.collection, events)
        used, _ = self._used()
        for name, text in self.derived.items():
            if name in used:
                objects.derived[name] = objects.evaluate(text)
        kept = [name for name in self.keep if self._is_there(name, events.names)]
        fields = {name: lists_of(objects.value(name)) for name in kept}
        counts = common_counts([(f"{self.collection}_{name}", lists) for name, lists in fields.items()])
        counts = objects.counts() if counts is None else counts
        places, left = self._chosen(objects, counts)
        places = self._in_order(places, left, objects)
        added = {f"{self.output}_{name}": Lists(lists.content[places], left).column() for name, lists in fields.items()}
        return Result(events.with_columns({**added, f"n{self.output}": left}))

    def why_not_compiled(self) -> str | None:
        """What in its expressions has no compiled form."""
        return obstacle_in_any((*self.selection, *self.derived.values()))

    def write_compiled(self, form: StageForm) -> None:
        """Select and sort once; fields are those of the objects that were chosen."""
        objects = _Objects(self.collection, form.events)
        expressions = form.with_names(objects.value)
        used, _ = self._used()
        for name, text in self.derived.items():
            if name in used:
                objects.derived[name] = expressions.text(text)
        kept = [name for name in self.keep if self._is_there(name, form.events.names)]
        fields = {name: objects.value(name) for name in kept}
        key, ascending = self._key(objects)
        space = form.elements([*fields.values(), *([key] if key is not None else [])])
        masks = [form.element_condition(expressions.text(text), space) for text in self.selection]
        picked = form.pick(space, reduce(form.both, masks) if masks else None, key, descending=not ascending)
        for name, field in fields.items():
            form.define(f"{self.output}_{name}", form.taken(field, picked))
        form.define(f"n{self.output}", form.length(picked))

    def _chosen(self, objects: _Objects, counts: ListLengths) -> tuple[ElementPositions, ListLengths]:
        """Where the objects that fulfil the selection are in the collection, and how many each event has left."""
        chosen = np.ones(int(counts.sum()), dtype=np.bool_)
        for text in self.selection:
            chosen &= element_mask(objects.evaluate(text), counts, text)
        passed = np.concatenate(([0], np.cumsum(chosen)))
        ends = np.cumsum(counts)
        return np.flatnonzero(chosen), passed[ends] - passed[ends - counts]

    def _in_order(self, places: ElementPositions, counts: ListLengths, objects: _Objects) -> ElementPositions:
        key, ascending = self._key(objects)
        if key is None:
            return places
        return places[order_within(Lists(lists_of(key).content[places], counts), ascending=ascending)]

    def _key(self, objects: _Objects) -> tuple[Column | None, bool]:
        """What objects are ordered by, and whether the smallest comes first; None leaves them as they are."""
        default = self._default_key(objects.events.names)
        if isinstance(self.sort, Sort):
            return objects.value(self.sort.by), self.sort.order == "ascending"
        return None if default is None else objects.events[default], False


class _Objects:
    """The fields of a collection by their short names."""

    def __init__(self, collection: str, events: Events) -> None:
        self.collection = collection
        self.events = events
        self.derived: dict[str, Column] = {}

    def value(self, name: str) -> Column:
        """A derived field, a field of the collection, or a column of the event."""
        if name in self.derived:
            return self.derived[name]
        field = f"{self.collection}_{name}"
        return self.events[field] if field in self.events else value_of(name, self.events)

    def evaluate(self, text: str) -> Column:
        return expression(text).evaluate(self.value)

    def counts(self) -> ListLengths:
        """From any field, for a selection that keeps none."""
        field = next(name for name in self.events.names if name.startswith(f"{self.collection}_"))
        return lists_of(self.events[field]).counts
