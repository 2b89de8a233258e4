"""Evaluate expressions on events, and turn what comes out into columns, masks and clear errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import dimensions, is_array, is_text
from cenote.expressions.expression import expression
from cenote.expressions.functions import CONSTANTS
from cenote.expressions.missing import fulfilled
from cenote.expressions.problems import EvaluationError
from cenote.expressions.whole_numbers import as_type
from cenote.names import did_you_mean
from cenote.operations.support.events import Column, Events
from cenote.values import dataclass


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
    if unfit := no_condition(value, text):
        raise EvaluationError(f"{unfit.what}: {unfit.instead}")
    return np.asarray(event_column(fulfilled(value), events, f"'{text}'"), dtype=np.bool_)


@dataclass(frozen=True)
class Unfit:
    """Why a value is no condition."""

    what: str
    """What it gives, and what is needed."""
    instead: str | None = None
    """What to write, where that is known."""


def no_condition(value: Column, text: str) -> Unfit | None:
    """Why the value of an expression is not one true or false per event; None where it is, or nothing tells."""
    if isinstance(value, bool | np.bool_):
        return None
    depth = dimensions(value)
    if depth != 1:
        lists = ("a list" if depth == 2 else "lists of lists") + " per event"
        what = f"'{text}' gives {lists if depth else 'one number for all events'}"
        return Unfit(f"{what}, a selection needs one true or false per event", "use any(…) or all(…)")
    held = fulfilled(value)
    if held.dtype == np.bool_ or not held.size:
        return None
    what, instead = ("text", f'{text} == "…"') if is_text(held) else (f"numbers ({held.dtype})", f"({text}) != 0")
    return Unfit(f"'{text}' gives {what}, a selection needs true or false", f"write '{instead}'")


def cast(value: Column, dtype: str | None, what: str) -> Column:
    """The values as another numpy type, also within lists. `what` begins the error where it cannot hold them."""
    if dtype is None:
        return value
    try:
        return as_type(value, np.dtype(dtype))
    except EvaluationError as problem:
        raise EvaluationError(f"{what}: {problem}") from None
