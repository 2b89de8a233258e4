"""The operation `hep.clean`: a collection without the objects that overlap with others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from cenote.analysis.expressions.arrays import lists_of
from cenote.analysis.expressions.combinations import nearest_delta_r
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.object_rows import FieldNames, fields_in, refuse_all_existing, rows_of
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import OneOrMany

_ANGLES = ("eta", "phi")


class CleanDiagnostics(Settings):
    """What is told of the objects that were removed."""

    removed_count: str | Literal[False] | None = None
    """The column with their number, `nremoved_<output>` by default; `false` for none."""
    keep_removed: bool = False
    """Whether they become a collection of their own, `<output>_removed`."""


class Clean(Operation):
    """Copies the objects of a collection that have no object of others near them, and counts them in `n<output>`."""

    example: ClassVar[str] = """
    - id: CleanJets
      op: hep.clean
      params: {source: Jet, clean_against: [Muon], output: CleanJet, min_delta_r: 0.4, fields: [pt]}
    """

    source: str
    """The collection to clean; it has `eta` and `phi`."""
    clean_against: Annotated[tuple[str, ...], OneOrMany(), Field(min_length=1)]
    """Collections whose objects remove those that are near them."""
    output: str | None = None
    """The new collection, `cleaned_<source>` by default."""
    metric: Literal["delta_r"] = "delta_r"
    """How distances are measured: in η and φ."""
    min_delta_r: float = Field(0.4, ge=0)
    """Objects that are nearer than this are removed."""
    mode: Literal["remove_source_on_overlap"] = "remove_source_on_overlap"
    """What happens to objects that overlap; the other collections stay as they are."""
    sort_by: str | None = None
    """A field to sort by; by default objects stay in their order."""
    sort_order: Literal["ascending", "descending"] = "descending"
    """Which come first: `descending` puts the largest first."""
    diagnostics: CleanDiagnostics | Literal[False] | None = None
    """What is told of the objects that were removed."""
    fields: FieldNames | None = None
    """Fields of the new collection; by default those that later stages read."""

    @property
    def _output(self) -> str:
        return self.output or f"cleaned_{self.source}"

    @property
    def _removed_count(self) -> str | None:
        told = self.diagnostics.removed_count if isinstance(self.diagnostics, CleanDiagnostics) else None
        return None if told is False else told or f"nremoved_{self._output}"

    @property
    def _outputs(self) -> tuple[str, ...]:
        """The collections that it makes."""
        keep = isinstance(self.diagnostics, CleanDiagnostics) and self.diagnostics.keep_removed
        return (self._output, f"{self._output}_removed") if keep else (self._output,)

    def _fields(self, columns: Collection[str]) -> tuple[str, ...]:
        """Of the new collection: as named, or whatever the source has."""
        return fields_in(columns, self.source) if self.fields is None else self.fields

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where the new collection is there already."""
        resolved = super().resolve(columns)
        refuse_all_existing(resolved.adds(), columns, self.stage)
        return resolved

    def reads(self) -> Collection[str]:
        """Angles of all collections, and the key of the order."""
        own = (*_ANGLES, *((self.sort_by,) if self.sort_by else ()), *(self.fields or ()))
        others = (f"{name}_{angle}" for name in self.clean_against for angle in _ANGLES)
        return tuple(dict.fromkeys([*(f"{self.source}_{name}" for name in own), *others]))

    def copies(self) -> Mapping[str, str]:
        """Each field of the new collection is one of the old."""
        fields = self._fields(self._columns)
        return {f"{output}_{name}": f"{self.source}_{name}" for output in self._outputs for name in fields}

    def adds(self) -> Collection[str]:
        """The fields, and how many objects were kept and removed."""
        counts = [f"n{self._output}", *((self._removed_count,) if self._removed_count else ())]
        return (*self.copies(), *counts)

    def _is_read(self, field: str, events: Events) -> bool:
        names = {f"{output}_{field}" for output in self._outputs}
        return self.fields is not None or events.live is None or not names.isdisjoint(events.live)

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Keep what is far from everything else."""
        wanted = [name for name in self._fields(events.names) if self._is_read(name, events)]
        own = dict.fromkeys([*_ANGLES, *wanted, *((self.sort_by,) if self.sort_by else ())])
        objects = rows_of(events, self.source, own)
        far = np.ones(objects.size, np.bool_)
        for other in self.clean_against:
            angles = [events[f"{name}_{angle}"] for name in (self.source, other) for angle in _ANGLES]
            far &= ~(lists_of(nearest_delta_r(*angles)).content < self.min_delta_r)
        kept, removed = objects.take(np.flatnonzero(far)), objects.take(np.flatnonzero(~far))
        if self.sort_by is not None:
            kept = kept.in_order(self.sort_by, ascending=self.sort_order == "ascending")
        added = {f"n{self._output}": kept.counts}
        if self._removed_count:
            added[self._removed_count] = removed.counts
        for output, rows in zip(self._outputs, (kept, removed), strict=False):
            added |= rows.columns(output, wanted)
        return Result(events.with_columns(added))
