"""What histograms, tables of cuts and skims should hold, calculated with numpy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Numbers = dict[str, Values]
"""Histogram or cut or column, with its stage and dataset → its numbers."""
Bins = tuple[int, float, float]


@dataclass(frozen=True)
class ComparedWorkflow:
    """A workflow as its author would write it."""

    name: str
    flow: str
    write: Callable[[Path], None]
    """Makes its data."""
    calculate: Callable[[Path], Numbers]
    """All its numbers."""
    chunks: tuple[int, int] = (80, 1000)
    others: Mapping[str, str] = field(default_factory=dict)
    """Files beside the workflow."""
    pictures: int = 0
    """Files beside products: pictures in each format, and tables of what they compare."""


def filled(values: Sequence[tuple[Any, Bins]], weights: Any = None) -> Values:
    """A histogram with what lies below and above each axis; with weights, the sums and then those of their squares."""
    places = [
        np.searchsorted(np.linspace(low, high, size + 1), ak.to_numpy(column), side="right")
        for column, (size, low, high) in values
    ]
    shape = [size + 2 for _, (size, _, _) in values]

    def added(what: Any) -> Values:
        sums = np.zeros(shape)
        np.add.at(sums, tuple(places), what)
        return sums

    if weights is None:
        return added(1)
    each = np.asarray(ak.to_numpy(weights), dtype=float)
    return np.stack([added(each), added(each**2)])


def per_element(column: Any, weights: Any) -> tuple[Any, Any]:
    """The elements of lists, each with the weight of its event."""
    return ak.flatten(column), ak.flatten(ak.broadcast_arrays(weights, column)[0])


def counted(name: str, cuts: Sequence[Any], weights: Any = None) -> Numbers:
    """Rows of a table: events that come to each cut and pass it, their weights, and the squares of these."""
    kept = np.ones(len(cuts[0]), dtype=bool)
    each = np.ones(len(kept)) if weights is None else np.asarray(ak.to_numpy(weights), dtype=float)
    found = {}
    for number, cut in enumerate(cuts):
        before, kept = kept, kept & ak.to_numpy(cut)
        of_events = [before.sum(), kept.sum()]
        of_weights = [each[one].sum() for one in (before, kept)]
        found[f"{name}[{number}]"] = np.array(
            [*of_events, *of_weights, *((each[one] ** 2).sum() for one in (before, kept))]
        )
    return found


def written(name: str, columns: Mapping[str, Any]) -> Numbers:
    """Columns of a skim: values, and for lists how many each event has."""
    found = {}
    for column, values in columns.items():
        if ak.Array(values).ndim > 1:
            found[f"{name}/n({column})"] = ak.to_numpy(ak.num(values))
            values = ak.flatten(values)
        found[f"{name}/{column}"] = ak.to_numpy(values)
    return found
