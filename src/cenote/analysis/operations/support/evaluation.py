"""Evaluate expressions on events, and turn what comes out into columns, masks and clear errors."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.expressions.arrays import ListLengths, dimensions, is_array, is_text
from cenote.analysis.expressions.functions import CONSTANTS
from cenote.analysis.expressions.parser import expression
from cenote.analysis.expressions.problems import EvaluationError
from cenote.analysis.expressions.whole_numbers import as_type, fulfilled, fulfilled_by_elements, may_be_missing
from cenote.analysis.operations.support.events import Column, Events
from cenote.common import errors
from cenote.common.arrays import ak, is_awkward
from cenote.common.text import did_you_mean
from cenote.common.values import dataclass


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
    """Why a value is not a condition."""

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


# Refuse missing values where every event needs one, in words that help; or set them aside and put them back.


def missing_values(what: str, missing: int, total: int, unit: str = "events") -> EvaluationError:
    """The error; `what` begins it: `column 'run'`."""
    return EvaluationError(
        f"{what} is missing for {missing:,} of {total:,} {unit}: give it a value there, as in first(x, default=0) or "
        f"fill_none(x, 0), or drop these events before"
    )


def every_value(column: Column, what: str) -> NDArray[Any]:
    """A column of one value per event as numpy's. Raises EvaluationError where values are missing."""
    if not is_awkward(column):
        return np.asarray(column)
    if may_be_missing(column) and (missing := int(ak.sum(ak.is_none(column)))):
        raise missing_values(what, missing, len(column))
    found: NDArray[Any] = np.asarray(ak.to_numpy(ak.drop_none(column)))
    return found


def there_in_all(columns: Iterable[Column]) -> NDArray[np.bool_] | None:
    """Which entries are there in all of these flat columns; None where their types allow for no missing ones."""
    masks = [~ak.to_numpy(ak.is_none(column)) for column in columns if may_be_missing(column)]
    return reduce(np.logical_and, masks) if masks else None


def only_there(column: Column, there: NDArray[np.bool_] | None) -> NDArray[Any]:
    """The entries that are there, as numpy's."""
    if there is not None:
        column = column[there]
    found: NDArray[Any] = np.asarray(ak.drop_none(column) if may_be_missing(column) else column)
    return found


def with_missing(values: NDArray[Any], there: NDArray[np.bool_] | None) -> Column:
    """Values of the entries that are there, with missing ones between them."""
    if there is None:
        return values
    index = np.where(there, np.cumsum(there) - 1, -1)
    return ak.Array(ak.contents.IndexedOptionArray(ak.index.Index64(index), ak.contents.NumpyArray(values)))


# Weights of events as numbers.


def weights_of(text: str, events: Events) -> NDArray[np.float64]:
    """What an expression gives, as one number per event. Raises where there are lists, or none for some."""
    column = event_column(evaluate(text, events), events, f"'{text}'")
    if dimensions(column) != 1:
        raise ValueError(f"'{text}' has a list per event: a weight is one number")
    return every_value(column, f"the weight '{text}'").astype(np.float64)


# Refuse to overwrite columns where that is nearly always a mistake.


def refuse_existing(name: str, columns: Collection[str], stage: str) -> None:
    """Raises `column-clash` when a column of this name is there already."""
    if name in columns:
        raise errors.error(
            errors.COLUMN_CLASH,
            f"stage '{stage}' would add the column '{name}', which already exists",
            hint="give the output another name",
        )


# Turn conditions on objects into one boolean per element of a collection.


def element_mask(value: Column, counts: ListLengths, text: str) -> NDArray[np.bool_]:
    """A condition as one boolean per element; one per event is repeated, a missing one fulfils nothing."""
    if isinstance(value, bool | np.bool_):
        return np.full(int(counts.sum()), bool(value))
    if dimensions(value) < 2:
        return np.repeat(_booleans(fulfilled(value), text), counts)
    try:
        return _booleans(fulfilled_by_elements(value, counts), text)
    except EvaluationError as problem:
        raise EvaluationError(f"'{text}' cannot choose elements: {problem}") from None


def _booleans(found: NDArray[Any], text: str) -> NDArray[np.bool_]:
    if found.dtype != np.bool_ and found.size:
        raise EvaluationError(f"'{text}' gives numbers ({found.dtype}), a selection needs true or false")
    return np.asarray(found, dtype=np.bool_)
