"""Take jagged columns apart into one long array and a length per event, and put them together again.

Work on the long array is several times faster than through awkward, which walks and allocates at every step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cenote.expressions.arrays import Column, plain
from cenote.expressions.problems import EvaluationError
from cenote.jagged import ak
from cenote.values import dataclass

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
