"""Define what a comparison of two runs finds, as `cenote diff --json` has it."""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["equal", "differs", "not comparable", "only before", "only after"]
SharedData = Literal["all", "some", "none", "unknown"]


class Causes(msgspec.Struct, frozen=True):
    """What went into the runs and is not the same, in words."""

    workflow: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    software: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there are some."""
        return bool(self.workflow or self.code or self.data or self.software)


class BinDiff(msgspec.Struct, frozen=True):
    """A bin of a histogram that is not the same."""

    at: dict[str, str]
    """Axis → the interval, or the category."""
    before: float
    after: float
    pull: float | None = None
    """(after − before) / √(sum of both variances); null where neither has one, or a side is not finite."""


class HistogramDiff(msgspec.Struct, frozen=True):
    """How the numbers of a histogram differ, under- and overflow included."""

    bins: int
    """That both have."""
    differ: int
    sum_before: float
    sum_after: float
    largest: BinDiff | None = None
    """The bin with the largest pull."""
    shared: SharedData = "unknown"
    """How much of the data both runs read: pulls take them as independent, which they are for `none` alone."""
    worst: tuple[BinDiff, ...] = ()
    """Bins that differ, largest pulls first; not all, where there are many."""


class RowDiff(msgspec.Struct, frozen=True):
    """A number of a table that is not the same; null on the side that has no such row."""

    row: str
    column: str
    before: float | str | None
    after: float | str | None


class ProductDiff(msgspec.Struct, frozen=True):
    """A product of either run."""

    name: str
    kind: str
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    """What differs besides numbers, or why it cannot be compared."""
    histogram: HistogramDiff | None = None
    rows: tuple[RowDiff, ...] = ()
    """Of cutflows and tables."""
    pictures: tuple[str, ...] = ()
    """Both over each other, where they were asked for."""


class RunDiff(msgspec.Struct, frozen=True):
    """Two runs compared."""

    before: str
    after: str
    """Their folders."""
    causes: Causes
    products: tuple[ProductDiff, ...]

    @property
    def same_numbers(self) -> bool:
        """Whether all products are the same, to the last bit."""
        return all(one.outcome == "equal" for one in self.products)
