"""Define what modifiers measure, and how what they measured in many calls becomes one table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
import numpy as np

from cenote.common.errors import printable
from cenote.common.text import did_you_mean, listed
from cenote.common.values import dataclass

Value = int | float | str
"""A number, or words."""

Fold = Literal["sum", "most", "least", "words"]
"""How values of several calls become one: added up, the largest, the smallest; `words` counts how often each was
said."""


@dataclass(frozen=True)
class Measure:
    """One thing that a modifier measures."""

    title: str
    """As the report heads its column."""
    fold: Fold = "sum"
    unit: Literal["", "seconds", "bytes"] = ""


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a modifier measured in one call of a stage: of the call as a whole, and in rows, such as one per column."""

    values: dict[str, Value] = {}
    rows: dict[str, dict[str, Value]] = {}


Folded = int | float | dict[str, int]
"""A number; or for words, how many calls said each."""


class MeasuredStage(msgspec.Struct, frozen=True):
    """What a modifier measured of a stage, in all calls together."""

    name: str
    """Of the modifier."""
    calls: int = 0
    """Calls that it was around and that succeeded; those of tasks that were reused are not among them."""
    values: dict[str, Folded] = {}
    rows: dict[str, dict[str, Folded]] = {}


MOST_WORDS = 20
"""Different words that are kept of one measure."""
LONGEST_WORDS = 160
"""Characters of words that are kept."""
LARGEST = sys.float_info.max
"""Sums stay within: JSON has no infinity."""
LARGEST_WHOLE = 2**64
"""Larger whole numbers are noted with the precision of other numbers."""


class Tally:
    """Adds up what a modifier measured."""

    def __init__(self, measures: Mapping[str, Measure]) -> None:
        self._measures = measures
        self.calls = 0
        self.values: dict[str, Folded] = {}
        self.rows: dict[str, dict[str, Folded]] = {}

    def add(self, measured: Measured, *, calls: int = 1) -> None:
        """One more call."""
        self.calls += calls
        self._fold(self.values, measured.values)
        for row, values in measured.rows.items():
            self._fold(self.rows.setdefault(row, {}), values)

    def _fold(self, into: dict[str, Folded], values: Mapping[str, Value]) -> None:
        for name, value in values.items():
            if name in self._measures:  # a journal may be older than the modifier
                into[name] = _folded(self._measures[name].fold, into.get(name), value)

    def record(self, name: str) -> MeasuredStage:
        """What there is so far."""
        return MeasuredStage(
            name, self.calls, dict(self.values), {row: dict(found) for row, found in self.rows.items()}
        )


def _folded(fold: Fold, before: Folded | None, value: Value) -> Folded:
    if fold == "words" or isinstance(value, str):
        counts = dict(before) if isinstance(before, dict) else {}
        if str(value) in counts or len(counts) < MOST_WORDS:
            counts[str(value)] = counts.get(str(value), 0) + 1
        return counts
    if before is None or isinstance(before, dict):
        return value
    if fold == "sum":
        return min(max(before + value, -LARGEST), LARGEST)
    return max(before, value) if fold == "most" else min(before, value)


def joined(measures: Mapping[str, Measure], one: Measured, other: Measured) -> Measured:
    """Of two calls that count as one: the pieces of a partition that was split. Of words, the first are kept."""
    rows = {
        row: _joined(measures, one.rows.get(row, {}), other.rows.get(row, {})) for row in {**one.rows, **other.rows}
    }
    return Measured(_joined(measures, one.values, other.values), rows)


def _joined(measures: Mapping[str, Measure], one: Mapping[str, Value], other: Mapping[str, Value]) -> dict[str, Value]:
    both = {**other, **one}
    for name in one.keys() & other.keys():
        found = _folded(measures[name].fold, _folded(measures[name].fold, None, one[name]), other[name])
        if not isinstance(found, dict):
            both[name] = found
    return both


def plain_value(value: Any) -> Value | None:  # Any: numbers of numpy too
    """As the journal has it; None for nothing, and for numbers that JSON does not have. Others raise a TypeError."""
    if type(value) is float and abs(value) <= LARGEST:  # most of them, and this runs for every call of a stage
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if value is not None and not isinstance(value, str | int | float):
        raise TypeError(f"a number or text, not a value of type {type(value).__name__}")
    if isinstance(value, str):
        words = printable(value)
        return words if len(words) <= LONGEST_WORDS else f"{words[: LONGEST_WORDS - 1]}…"
    if isinstance(value, int) and abs(value) <= LARGEST_WHOLE:
        return int(value)  # a flag counts as 0 or 1
    return float(value) if isinstance(value, int | float) and abs(value) <= LARGEST else None  # NaN is not


def unfit(value: Any) -> str:  # Any: as above
    """Why `plain_value` makes nothing of it, in a word."""
    if value is None:
        return "None"
    return "NaN" if value != value else "infinite or beyond all numbers"  # whole numbers may be too large for `isnan`


def refuse_undeclared(modifier: str, measures: Mapping[str, Measure], names: Iterable[str]) -> None:
    """Raise for a measure that the modifier does not declare: nobody would know how to add it up."""
    for name in names:
        if name not in measures:
            hint = did_you_mean(name, measures) or f"it declares {listed(measures) or 'none'}"
            raise ValueError(f"modifier '{modifier}' notes '{name}', which is not among its measures; {hint}")


# Keep what modifiers warn of within bounds: code may warn for every event, in other words each time.


MOST_OF_TASK = 20
"""Different messages that a task keeps."""
MOST_OF_RUN = 100
"""Different messages of tasks that a run keeps."""


class KeptWarnings:
    """The first different messages, and how often something else was said."""

    def __init__(self, most: int = MOST_OF_TASK) -> None:
        self._most = most
        self._messages: dict[str, None] = {}
        self.more = 0
        """How often something was said that is not kept."""

    def add(self, message: str) -> bool:
        """Keep it; False where it is not new, or there are too many."""
        new = message not in self._messages
        if new and len(self._messages) < self._most:
            self._messages[message] = None
            return True
        self.more += new
        return False

    @property
    def messages(self) -> tuple[str, ...]:
        """Each once."""
        return tuple(self._messages)
