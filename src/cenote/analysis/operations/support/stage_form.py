"""Define StageForm: what an operation writes its compiled form with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from cenote.analysis.compiled.lowering import Lowering
from cenote.analysis.compiled.stage import BinSearch, EventTally, HistogramFill, Sink, StageResults
from cenote.analysis.compiled.values import (
    BOOL,
    FLOAT64,
    INT64,
    Base,
    Lowered,
    Masked,
    NotCompiledError,
    Nth,
    Picked,
    Reduced,
    Space,
    Value,
    Values,
)
from cenote.analysis.operations.support.evaluation import value_of
from cenote.analysis.operations.support.events import Events
from cenote.common.values import dataclass


def as_lowered(value: Any) -> Lowered:  # Any: what names may stand for
    """What a name stands for, if that is a column or a number."""
    if not isinstance(value, Value | bool | int | float):
        raise NotCompiledError("a name stands for something that is not a number")
    return value


@dataclass(eq=False)
class StageForm:
    """A stage in the making: its operation asks for values of expressions, and says what becomes of them."""

    values: Values
    events: Events
    """As `run` would have them, with typed values for columns; those that were added are among them."""
    added: dict[str, Value] = field(default_factory=dict)
    kept: Value | None = None
    """Which events go on; None for all."""
    sinks: list[Sink] = field(default_factory=list)
    histograms: list[Callable[[], Any]] = field(default_factory=list)
    """Make them, empty. Any: hist publishes no types."""
    product: Callable[[StageResults], Any] | None = None
    """Makes the product of the stage. Any: whatever its kind is."""

    @cached_property
    def lowering(self) -> Lowering:
        """Turns expressions into values."""
        return self.with_names(lambda name: value_of(name, self.events))

    def with_names(self, lookup: Callable[[str], Any]) -> Lowering:
        """Turns expressions into values whose names mean something else. Any: what names may stand for."""
        return Lowering(self.values, lambda name: as_lowered(lookup(name)))

    def column(self, name: str) -> Lowered:
        """A column that is there."""
        return as_lowered(self.events[name])

    def value(self, text: str) -> Lowered:
        """Of an expression."""
        return self.lowering.text(text)

    def condition(self, text: str) -> Value:
        """Of an expression that is true or false for each event."""
        return self.as_condition(self.value(text))

    def as_condition(self, value: Lowered) -> Value:
        """A value that is true or false for each event."""
        if isinstance(value, bool):
            return self.values.constant(value, BOOL)
        if not isinstance(value, Value) or value.space is not None or value.dtype != BOOL:
            raise NotCompiledError("a condition is not true or false for each event")
        return value

    def element_condition(self, value: Lowered, space: Space) -> Value:
        """A condition on the elements of a space; one per event counts for all of them."""
        if isinstance(value, bool):
            return self.values.constant(value, BOOL)
        if not isinstance(value, Value) or value.dtype != BOOL:
            raise NotCompiledError("a condition is not true or false")
        if value.space is not None:
            self.lowering.unite(space, value.space)
        return value

    def both(self, one: Value, other: Value) -> Value:
        """Where both hold."""
        return self.values.truth(self.lowering.binary("and", one, other))

    def either(self, one: Value, other: Value) -> Value:
        """Where one of them holds."""
        return self.values.truth(self.lowering.binary("or", one, other))

    def number(self, value: Lowered) -> Value:
        """As a fraction of 64 bits; a condition counts 0 or 1."""
        return self.values.cast(value, FLOAT64)

    def define(self, name: str, value: Lowered) -> None:
        """Add or replace a column."""
        if not isinstance(value, Value):
            value = self.values.constant(value, np.asarray(value).dtype)
        self.added[name] = value
        self.events = self.events.with_columns({name: value})

    def per_event(self, value: Lowered) -> Lowered:
        """A value that is not a list."""
        if isinstance(value, Value) and value.space is not None:
            raise NotCompiledError("there is a list per event where one value is needed")
        return value

    def elements(self, values: Sequence[Lowered]) -> Space:
        """The space that values share which have to be lists."""
        space = self.lists(values)
        if space is None or any(not isinstance(value, Value) or value.space is None for value in values):
            raise NotCompiledError("there is one value per event where a list is needed")
        return space

    def lists(self, values: Sequence[Lowered]) -> Space | None:
        """The space that values share which are lists; None where all are one per event."""
        spaces = [value.space for value in values if isinstance(value, Value) and value.space is not None]
        for space in spaces[1:]:
            self.lowering.unite(spaces[0], space)
        return spaces[0] if spaces else None

    def pick(self, space: Space, condition: Value | None, key: Value | None, *, descending: bool) -> Picked:
        """Choose elements once, in an order."""
        if not isinstance(space, Base):
            raise NotCompiledError("elements are chosen from elements that were chosen")
        return self.values.make(Picked, space, condition, key, descending)

    def masked(self, space: Space, condition: Value) -> Masked:
        """The elements that fulfil a condition."""
        return self.values.make(Masked, space, condition)

    def element(self, value: Lowered, space: Space, position: int) -> Value:
        """One element of each event as a fraction; 0 where there are too few. The value is that of all elements."""
        chosen = self.number(value)
        if isinstance(space, Masked):
            chosen = self.lowering.taken(chosen, space)
        return self.values.make(Nth, chosen, position, self.values.constant(0.0, FLOAT64), FLOAT64)

    def taken(self, value: Lowered, space: Picked) -> Value:
        """The values of the elements that were chosen, out of those of all."""
        return self.lowering.taken(value if isinstance(value, Value) else self.number(value), space)

    def length(self, space: Space) -> Value:
        """How many elements each event has."""
        return self.values.make(Reduced, "count", space, None, INT64)

    def tally(self, condition: Value | None, weight: Value | None) -> EventTally:
        """Count the events that fulfil a condition."""
        made = EventTally(condition, weight)
        self.sinks.append(made)
        return made

    def fill(
        self,
        histogram: int,
        axes: Sequence[tuple[BinSearch, Value]],
        weight: Value | None,
        space: Space | None,
        *,
        weighted: bool,
        moments: Sequence[tuple[int, ...]] = (),
    ) -> None:
        """Fill one of the stage's histograms with these values, for each element of a space (None: each event)."""
        bins, values = tuple(bins for bins, _ in axes), tuple(value for _, value in axes)
        self.sinks.append(HistogramFill(histogram, bins, values, weight, weighted, space, tuple(moments)))
