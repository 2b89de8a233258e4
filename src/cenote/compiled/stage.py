"""Define what a compiled stage leaves besides columns: counts of events, filled histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cenote.compiled.values import Space, Value
from cenote.values import dataclass


@dataclass(frozen=True, eq=False)
class EventTally:
    """Counts events, and keeps their weights in order: numpy adds those up, in pairs, as it does otherwise."""

    condition: Value | None
    weight: Value | None


@dataclass(frozen=True)
class BinSearch:
    """How one axis of a histogram finds its bin, as boost-histogram (1.5) does."""

    kind: str
    """`regular`, `variable`, `integer`, `boolean`, or `fixed`, which is always the bin `low`."""
    count: int
    """Of bins, those beyond the limits left out."""
    flow: bool
    """Whether there are bins beyond the limits."""
    low: float = 0.0
    high: float = 0.0
    edges: tuple[float, ...] = ()

    @property
    def extent(self) -> int:
        """Of bins, those beyond the limits included."""
        return self.count + (2 if self.flow else 0)


@dataclass(frozen=True, eq=False)
class HistogramFill:
    """Fills a histogram, once per event or per element, in their order."""

    histogram: int
    """Which of the stage's: several fills may share one."""
    bins: tuple[BinSearch, ...]
    values: tuple[Value, ...]
    """One for each axis."""
    weight: Value | None
    weighted: bool
    """Whether it has sums of weights and of their squares rather than counts."""
    space: Space | None


Sink = EventTally | HistogramFill


@dataclass(frozen=True)
class Counted:
    """What a tally found."""

    events: int
    weights: Any
    """An array of them, or None. Any: numpy."""


@dataclass(frozen=True)
class StageResults:
    """What a stage found for one partition."""

    histograms: Sequence[Any]
    """Filled. Any: hist publishes no types."""
    tallies: Mapping[EventTally, Counted]
