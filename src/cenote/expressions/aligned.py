"""Let a value that may be missing stand beside lists: each element is there or missing, and lists keep their lengths.

awkward (2.14) makes the whole list of an event missing instead, which then is as long as no other list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import Column, dimensions
from cenote.expressions.lists import ListLengths, Lists, lists_of
from cenote.expressions.problems import EvaluationError
from cenote.jagged import ak, is_awkward

DIFFERENT_LENGTHS = (
    "the lists of an event have different numbers of elements, and are joined element by element; "
    "cross(x, y, i) and concat(x, y) take lists of different collections"
)


def aligned(*values: Column) -> tuple[Column, ...]:
    """The same values for whoever joins them element by element; what needs no care is passed on as it is.

    Beside a list, a missing value is one missing value for each element, and so is a missing list.
    """
    deepest = max(map(dimensions, values), default=0)
    if all(level >= deepest - 1 for value in values for level in _levels_with_missing(value)):
        return values
    lists = {place: _OptionalLists.of(value) for place, value in enumerate(values) if dimensions(value) > 1}
    counts, absent = _common(list(lists.values()))
    contents = {place: one.content(counts) for place, one in lists.items()}
    for place, value in enumerate(values):
        if dimensions(value) == 1 and may_be_absent(value):
            contents[place] = _repeated(value, counts)
    found = list(values)
    for place, content in zip(contents, aligned(*contents.values()), strict=True):
        column = Lists(content, counts).column()
        found[place] = column if absent is None else ak.mask(column, ~absent)
    return tuple(found)


def over_elements(value: Column, lists: Column) -> Column:
    """One value per event, as one for each element of these lists."""
    counts = lists_of(lists).counts
    return Lists(_repeated(value, counts), counts).column()


def _repeated(value: Column, counts: ListLengths) -> Column:
    return value[np.repeat(np.arange(len(counts)), counts)]


def may_be_absent(value: Column) -> bool:
    """Whether the value, or the list, of a whole event may be missing."""
    return 0 in _levels_with_missing(value)


def elements_may_be_missing(value: Column) -> bool:
    """Whether innermost elements may be missing."""
    return dimensions(value) - 1 in _levels_with_missing(value)


def _levels_with_missing(value: Column) -> set[int]:
    """0 where values (or lists) of whole events may be missing, 1 where elements may be, …"""
    layout, level, found = value.layout if is_awkward(value) else None, 0, set()
    while layout is not None and not layout.is_record and not layout.is_union:
        if layout.is_option:
            found.add(level)
        level += layout.is_list
        layout = getattr(layout, "content", None)
    return found


class _OptionalLists:
    """A column of lists of which some may be missing."""

    def __init__(self, lists: Lists, absent: NDArray[np.bool_] | None) -> None:
        self.lists, self.absent = lists, absent

    @classmethod
    def of(cls, column: Column) -> _OptionalLists:
        absent = ak.to_numpy(ak.is_none(column, axis=0)) if may_be_absent(column) else None
        return cls(lists_of(column), absent)

    def content(self, counts: ListLengths) -> Column:
        """The elements, as many missing ones as these lengths say in place of a missing list."""
        if self.absent is None:
            return self.lists.content
        there = np.repeat(~self.absent, counts)
        places = np.full(len(there), -1)
        places[there] = np.arange(len(self.lists.content))
        return picked_or_missing(self.lists.content, places)


def picked_or_missing(content: Column, places: NDArray[np.int64]) -> Column:
    """The entries at these places; missing where a place is -1."""
    index = ak.index.Index64(places)
    return ak.Array(ak.contents.IndexedOptionArray.simplified(index, ak.to_layout(content)))


def _common(lists: Sequence[_OptionalLists]) -> tuple[ListLengths, Any]:
    """The lengths that lists share, and where all of them are missing; None where that cannot be."""
    counts, known = np.zeros_like(lists[0].lists.counts), np.zeros(len(lists[0].lists.counts), np.bool_)
    for one in lists:
        there = np.ones_like(known) if one.absent is None else ~one.absent
        if len(there) != len(known) or (known & there & (counts != one.lists.counts)).any():
            raise EvaluationError(DIFFERENT_LENGTHS)
        counts, known = np.where(there, one.lists.counts, counts), known | there
    return counts, None if any(one.absent is None for one in lists) else ~known
