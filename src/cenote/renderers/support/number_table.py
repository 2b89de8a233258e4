"""Write the numbers that a picture compares as a table beside it: what is drawn is stored nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cenote import storage
from cenote.products.cutflow import csv_text
from cenote.renderers.support.bins import BinAxis, Floats
from cenote.renderers.support.compared import Compared
from cenote.values import dataclass

ENDING = "csv"
_NUMBERS = ("value", "down", "up")


@dataclass(frozen=True, eq=False)
class Side:
    """One of two samples that are compared."""

    name: str
    values: Floats
    down: Floats
    up: Floats
    """How far its interval reaches in each bin."""


@dataclass(frozen=True, eq=False)
class ComparedSides:
    """Two samples, and how they compare in each bin."""

    first: Side
    second: Side
    kind: str
    """What is drawn of them: `ratio`, `efficiency`, …"""
    found: Compared


def write_numbers(axes: Sequence[BinAxis], compared: Sequence[ComparedSides], target: Path, *, partial: bool) -> Path:
    """`<target>.csv`: a row for each bin of each pair. Blank where a comparison says nothing."""
    columns = [
        *(column for letter, axis in zip("xy", axes, strict=False) for column in _bin_columns(letter, axis)),
        *("first", "second", "comparison", *_NUMBERS),
        *(f"{side}_{number}" for side in ("first", "second") for number in _NUMBERS),
        *(["partial"] if partial else []),
    ]
    rows = [{**row, "partial": "true"} for pair in compared for row in _rows(axes, pair)]
    return storage.write_text(target.with_name(f"{target.name}.{ENDING}"), csv_text(columns, rows))


def _rows(axes: Sequence[BinAxis], pair: ComparedSides) -> Iterator[dict[str, Any]]:
    found = pair.found
    for place in np.ndindex(found.values.shape):
        row: dict[str, Any] = {"first": pair.first.name, "second": pair.second.name, "comparison": pair.kind}
        for letter, axis, number in zip("xy", axes, place, strict=False):
            row |= dict(zip(_bin_columns(letter, axis), _bin(axis, number), strict=True))
        if found.known[place]:
            row |= _numbers("", found.values[place], found.down[place], found.up[place])
        for called, side in (("first_", pair.first), ("second_", pair.second)):
            row |= _numbers(called, side.values[place], side.down[place], side.up[place])
        yield row


def _numbers(called: str, *numbers: Any) -> dict[str, float]:  # Any: numbers of numpy
    return {f"{called}{name}": float(number) for name, number in zip(_NUMBERS, numbers, strict=True)}


def _bin_columns(letter: str, axis: BinAxis) -> tuple[str, ...]:
    return (f"{letter}_low", f"{letter}_high") if axis.ticks is None else (letter,)


def _bin(axis: BinAxis, number: int) -> tuple[float | str, ...]:
    """Where a bin begins and ends; under- and overflow have no end on one side. Categories have a name."""
    if axis.ticks is not None:
        return (axis.ticks[number],)
    under, over = axis.flow
    low, high = float(axis.edges[number]), float(axis.edges[number + 1])
    last = len(axis.edges) - 2
    return ("-inf" if under and number == 0 else low, "inf" if over and number == last else high)
