"""Tell kinds of columns apart, align lists, and keep flat columns plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.expressions.problems import EvaluationError
from cenote.common.arrays import ak, is_awkward
from cenote.common.values import dataclass

Column = Any
"""A numpy array, an awkward array or a Python scalar; awkward publishes no types."""


def plain(value: Column) -> Column:
    """The same values as a numpy array where that costs nothing, or as lists of any length.

    Lists that happen to have one length each are lists too. As a table they would meet a value per event along the
    wrong axis: numpy and awkward (2.9) match axes of tables from the last one.
    """
    if is_awkward(value) and isinstance(value.layout, ak.contents.NumpyArray):
        value = value.layout.data
    return ak.from_regular(value, axis=None) if _has_tables(value) else value


def _has_tables(value: Column) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 1
    layout = value.layout if is_awkward(value) else None
    while layout is not None and not layout.is_record and not layout.is_union and not layout.parameter("__array__"):
        if layout.is_regular or (layout.is_numpy and len(layout.inner_shape) > 0):
            return True
        layout = getattr(layout, "content", None)
    return False


def is_array(value: Column) -> bool:
    """Whether it is more than one Python scalar."""
    flat = isinstance(value, np.ndarray) or is_on_device(value)
    return value.ndim > 0 if flat else is_awkward(value)


def is_on_device(value: Column) -> bool:
    """Whether it is an array in the memory of a GPU; those of awkward are arrays of awkward, wherever they lie."""
    return hasattr(type(value), "__cuda_array_interface__")


def on_host(value: Column) -> Column:
    """The same values where numpy can reach them."""
    return value.get() if is_on_device(value) else value


def is_text(value: Column) -> bool:
    """Whether it holds texts."""
    if is_awkward(value):
        return leaf_kind(value) == "U"
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind in "UST")


def dimensions(value: Column) -> int:
    """0 for a scalar, 1 for one value per event, more for jagged or fixed-size lists; texts count as values."""
    return int(value.ndim) if is_awkward(value) else int(np.ndim(value))


def leaf_kind(value: Column) -> str:
    """numpy's letter for what the innermost values are: `b`, `i`, `u`, `f`, `U` for text, `?` where unknown."""
    if isinstance(value, str):
        return "U"
    found = leaf_type(value)
    return "?" if found is None else found.kind


def leaf_type(value: Column) -> np.dtype[Any] | None:
    """numpy's type of the innermost values; None where it is unknown, as for records."""
    if not is_awkward(value):
        return np.asarray(value).dtype
    layout = value.layout
    while layout.parameter("__array__") not in ("string", "bytestring") and hasattr(layout, "content"):
        if layout.is_record:  # whose `content` is a function
            return None
        layout = layout.content
    if layout.parameter("__array__") in ("string", "bytestring"):
        return np.dtype(np.str_)
    found: np.dtype[Any] | None = layout.dtype if isinstance(layout, ak.contents.NumpyArray) else None
    return found


# Take jagged columns apart into one long array and a length per event, and put them together again.
#
# Work on the long array is several times faster than through awkward, which walks and allocates at every step.


ListLengths = NDArray[np.int64]


@dataclass(frozen=True)
class Lists:
    """A jagged column: the elements of all events in a row, and how many each event has."""

    content: Column
    """One entry per element: numpy where it is plain numbers, awkward otherwise."""
    counts: ListLengths

    def column(self) -> Column:
        """As a column again."""
        offsets = np.concatenate(([0], np.cumsum(self.counts)))
        content = ak.to_layout(self.content)
        return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), content))

    def where(self, chosen: NDArray[np.bool_]) -> Lists:
        """With the elements that are chosen, one boolean for each."""
        passed = np.concatenate(([0], np.cumsum(chosen)))
        ends = np.cumsum(self.counts)
        return Lists(self.content[np.flatnonzero(chosen)], passed[ends] - passed[ends - self.counts])


def lists_of(column: Column) -> Lists:
    """Take a column of lists apart; a missing list counts as empty. Nothing is copied if it was read in one piece."""
    if isinstance(column, np.ndarray):
        rows, width = column.shape[:2]
        return Lists(column.reshape(rows * width, *column.shape[2:]), np.full(rows, width, dtype=np.int64))
    layout = column.layout
    if isinstance(layout, ak.contents.ListArray):
        layout = layout.to_ListOffsetArray64(True)
    if isinstance(layout, ak.contents.ListOffsetArray):
        offsets = np.asarray(layout.offsets)
        content = layout.content[int(offsets[0]) : int(offsets[-1])]
        return Lists(plain(ak.Array(content)), np.diff(offsets))
    counts = ak.to_numpy(ak.fill_none(ak.num(column, axis=1), 0))
    return Lists(plain(ak.flatten(column, axis=1)), counts)


def common_counts(lists: Sequence[tuple[str, Lists]]) -> ListLengths | None:
    """The lengths that all these columns share; None without any. Names are for the error when they differ."""
    if not lists:
        return None
    first_name, first = lists[0]
    for name, other in lists[1:]:
        if not np.array_equal(other.counts, first.counts):
            raise EvaluationError(f"'{first_name}' and '{name}' have different numbers of elements in the same event")
    return first.counts


# Let a value that may be missing stand beside lists: each element is there or missing, and lists keep their
# lengths.
#
# awkward (2.14) makes the whole list of an event missing instead, which then is as long as no other list.


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
