"""The operation `explode`: a row for each element of lists."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from cenote.analysis.expressions.arrays import common_counts, dimensions, lists_of
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events, flat
from cenote.language.schema.forms import OneOrMany

Names = Annotated[tuple[str, ...], OneOrMany()]


class Explode(Operation):
    """Makes a row of each element: lists become single values, and what an event has once is repeated.

    What follows goes over these rows; they cannot be joined with branches that still have one row per event.
    """

    example: ClassVar[str] = """
    - id: Muons
      op: explode
      params: {fields: [Muon_pt, Muon_eta], keep_fields: [MET_pt]}
    """

    fields: Annotated[Names, Field(min_length=1)]
    """Columns of lists, equally long in each event."""
    keep_fields: Names = ()
    """Columns that are repeated for each element. All others are gone."""

    def reads(self) -> Collection[str]:
        """Both."""
        return tuple(dict.fromkeys((*self.fields, *self.keep_fields)))

    def adds(self) -> Collection[str]:
        """They are replaced."""
        return self.reads()

    def keeps(self) -> Collection[str]:
        """Nothing else fits the new rows."""
        return self.reads()

    def run(self, events: Events) -> Result:
        """Lay the lists out."""
        for name in self.fields:
            if dimensions(events[name]) < 2:
                raise ValueError(f"explode: '{name}' has one value per event; name it under keep_fields")
        lists = [(name, lists_of(events[name])) for name in self.fields]
        common_counts(lists)  # raises where they differ
        rows = np.repeat(np.arange(events.size), lists[0][1].counts)
        columns = {name: flat(one.content) for name, one in lists}
        columns |= {name: events[name][rows] for name in self.keep_fields}
        index = rows if events.index is None else events.index[rows]
        return Result(replace(events, columns=columns, size=len(rows), index=index, resident={}))
