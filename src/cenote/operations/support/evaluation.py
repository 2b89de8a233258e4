"""Evaluate expressions on events, and turn what comes out into columns, masks and clear errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions, is_array
from cenote.expressions.expression import expression
from cenote.expressions.functions import CONSTANTS
from cenote.expressions.missing import fulfilled
from cenote.expressions.problems import EvaluationError
from cenote.jagged import ak, is_awkward
from cenote.names import did_you_mean
from cenote.operations.support.events import Column, Events


def evaluate(text: str, events: Events) -> Column:
    """The value of an expression for these events: an array, or a scalar when it uses no column."""
    return expression(text).evaluate(lambda name: value_of(name, events))


def value_of(name: str, events: Events) -> Column:
    """A column; where there is none of the name: a constant of the workflow, a fact of the dataset, a number like π."""
    if name in events:
        return events[name]
    for known in (events.constants, events.dataset.facts(), CONSTANTS):
        if name in known:
            return known[name]
    hint = did_you_mean(name, [*events.names, *events.constants])
    raise EvaluationError(f"there is no column '{name}' here" + (f"; {hint}" if hint else ""))


def event_column(value: Column, events: Events, what: str) -> Column:
    """A value as a column: scalars are repeated for every event. `what` begins the error."""
    if not is_array(value):
        return np.full(events.size, value)
    if len(value) != events.size:
        raise EvaluationError(f"{what} has {len(value)} values for {events.size} events")
    return value


def event_mask(value: Column, events: Events, text: str) -> NDArray[np.bool_]:
    """A condition as one boolean per event; a missing value (the largest of no jets) fulfils nothing."""
    if isinstance(value, bool | np.bool_):
        return np.full(events.size, bool(value))
    depth = dimensions(value)
    if depth != 1:
        what = (
            ("a list" if depth == 2 else "lists of lists") + " per event" if depth > 1 else "one number for all events"
        )
        raise EvaluationError(
            f"'{text}' gives {what}, a selection needs one true or false per event: use any(…) or all(…)"
        )
    value = fulfilled(value)
    if value.dtype != np.bool_ and value.size:
        raise EvaluationError(
            f"'{text}' gives numbers ({value.dtype}), a selection needs true or false: write '({text}) != 0'"
        )
    return np.asarray(event_column(value, events, f"'{text}'"), dtype=np.bool_)


def cast(value: Column, dtype: str | None) -> Column:
    """The values as another numpy type, also within lists."""
    if dtype is None:
        return value
    with np.errstate(all="ignore"):  # NaN has no whole number, and says so nowhere
        if is_awkward(value):
            return ak.values_astype(value, np.dtype(dtype))
        return np.asarray(value).astype(np.dtype(dtype), copy=False)
