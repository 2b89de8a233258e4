"""Define what a compiled stage leaves besides columns: counts of events, filled histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.compiled.values import Space, Value
from cenote.common.values import dataclass


@dataclass(frozen=True, eq=False)
class EventTally:
    """Counts events, and keeps their weights in order: numpy adds those up, in pairs, as it does otherwise."""

    condition: Value | None
    weight: Value | None


@dataclass(frozen=True, eq=False)
class BinSearch:
    """How one axis of a histogram finds its bin."""

    kind: str
    """`regular`, `variable`, `integer`, `boolean`, or `fixed`, which is always the bin `low`."""
    count: int
    """Of bins, those beyond the limits left out."""
    flow: bool
    """Whether there are bins beyond the limits."""
    low: float = 0.0
    high: float = 0.0
    edges: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """Of bins that are `regular` or `variable`."""

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
    moments: tuple[tuple[int, ...], ...] = ()
    """What is summed up of the entries that lie within the bins of all axes: the weight times the values of these axes.
    One that is longer follows on the one that it begins with."""


LANES = 32
"""Sums of moments are kept in as many lanes: entry i is added to lane i % LANES. So numpy can add rows of them, fast,
in the order of a loop over entries."""


def lanes_added(lanes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sums of rows of lanes, in the one order."""
    with np.errstate(over="ignore", invalid="ignore"):  # as in a loop
        total: NDArray[np.float64] = np.add.reduce(np.ascontiguousarray(lanes), axis=-1)
    return total


Sink = EventTally | HistogramFill


@dataclass(frozen=True)
class Counted:
    """What a tally found."""

    events: int
    weights: Any
    """An array of them, or None. Any: numpy."""


@dataclass(frozen=True)
class Filled:
    """What was summed up of the entries that filled a histogram."""

    entries: int
    sums: NDArray[np.float64]
    """One for each of the moments."""


@dataclass(frozen=True)
class StageResults:
    """What a stage found for one partition."""

    histograms: Sequence[Any]
    """Filled. Any: hist publishes no types."""
    tallies: Mapping[EventTally, Counted]
    fills: Mapping[HistogramFill, Filled]
    """Of those that sum up moments."""
