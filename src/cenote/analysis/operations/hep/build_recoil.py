"""The operation `hep.build_recoil`: missing transverse momentum with visible objects added to it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from cenote.analysis.expressions.combinations import momentum_x, momentum_y
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.object_rows import (
    FOUR_VECTOR,
    AllConditions,
    ObjectRows,
    refuse_all_existing,
    rows_of,
)
from cenote.language.plugins.settings import Settings
from cenote.language.schema.forms import OneOrMany

_TRANSVERSE = ("pt", "phi")


class RecoilChoice(Settings):
    """Which of several candidates stays."""

    count: Literal["before"] = "before"
    """`n<output>` counts the candidates before one is chosen."""
    keep: Literal["highest_pt"] = "highest_pt"
    """The one with the largest transverse momentum."""


class BuildRecoil(Operation):
    """Adds visible objects to the missing transverse momentum, and keeps the candidate with the largest sum.

    Without visible objects there is one candidate per event. Columns of several collections belong together element by
    element, as those of `hep.build_pairs` do. `n<output>` counts the candidates.
    """

    example: ClassVar[str] = """
    - id: Recoil
      op: hep.build_recoil
      params: {met: MET, output: Recoil, selection: ["pt > 50"], keep: [pt, phi]}
    """
    names_are_columns: ClassVar[bool] = False

    met: str
    """Its columns are `<met>_pt` and `<met>_phi`."""
    visible: Annotated[tuple[str, ...], OneOrMany()] = ()
    """Collections with `pt` and `phi`."""
    output: str
    """How the names of the new columns begin."""
    selection: AllConditions = ()
    """Conditions on `pt`, `phi`, `eta` and `mass` of a candidate; the last two are 0."""
    keep: Annotated[tuple[Literal["pt", "eta", "phi", "mass"], ...], OneOrMany(), Field(min_length=1)]
    """Columns `<output>_<field>`, lists with at most one element."""
    reduce: RecoilChoice = RecoilChoice()
    """Which of several candidates stays."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where a new column is there already."""
        refuse_all_existing(self.adds(), columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """Momenta and azimuths, and what the conditions name."""
        momenta = (f"{name}_{field}" for name in (self.met, *self.visible) for field in _TRANSVERSE)
        named = (name for name in self.names_in(*self.selection) if name not in FOUR_VECTOR)
        return tuple(dict.fromkeys([*momenta, *named]))

    def adds(self) -> Collection[str]:
        """The fields that are kept, and the number of candidates."""
        return (*(f"{self.output}_{name}" for name in self.keep), f"n{self.output}")

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Add up, select, and keep the hardest."""
        candidates = self._candidates(events).chosen(self.selection)
        hardest = candidates.in_order("pt", ascending=False)
        firsts = (np.cumsum(hardest.counts) - hardest.counts)[hardest.counts > 0]
        added = hardest.take(firsts).columns(self.output, self.keep)
        return Result(events.with_columns({**added, f"n{self.output}": candidates.counts}))

    def _candidates(self, events: Events) -> ObjectRows:
        visible = [rows_of(events, name, _TRANSVERSE) for name in self.visible]
        counts = visible[0].counts if visible else np.ones(events.size, np.int64)
        for name, rows in zip(self.visible, visible, strict=True):
            if not np.array_equal(rows.counts, counts):
                raise ValueError(
                    f"'{name}' and '{self.visible[0]}' have different numbers of objects in the same event"
                )
        pt, phi = (np.repeat(events[f"{self.met}_{field}"], counts) for field in _TRANSVERSE)
        px, py = momentum_x(pt, phi), momentum_y(pt, phi)
        for rows in visible:
            px = px + momentum_x(rows.fields["pt"], rows.fields["phi"])
            py = py + momentum_y(rows.fields["pt"], rows.fields["phi"])
        nothing = np.zeros(len(px))
        fields = {"pt": np.hypot(px, py), "phi": np.arctan2(py, px), "eta": nothing, "mass": nothing}
        return ObjectRows(fields, counts, events)
