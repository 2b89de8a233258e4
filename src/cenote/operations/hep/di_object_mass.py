"""The operation `hep.di_object_mass`: the invariant mass of the first two objects of a collection."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cenote import errors
from cenote.expressions.expression import ExpressionText
from cenote.expressions.kinematics import cartesian_mass, invariant_mass
from cenote.expressions.lists import ListLengths, Lists, common_counts, lists_of
from cenote.names import listed
from cenote.operations.interface import Operation, Result
from cenote.operations.support.element_masks import element_mask
from cenote.operations.support.evaluation import evaluate
from cenote.operations.support.events import Column, Events
from cenote.operations.support.object_columns import CARTESIAN, CYLINDRICAL, MASS, column_of, columns_of

_CARTESIAN = tuple(CARTESIAN)
_CYLINDRICAL = (*CYLINDRICAL, "mass")


class DiObjectMass(Operation):
    """Adds one number per event: NaN where there are fewer than two objects."""

    example: ClassVar[str] = """
    - id: DimuonMass
      op: hep.di_object_mass
      params: {collection: Muon, mask: "Muon_pt > 20", out_var: DiMuon_mass}
    """

    collection: str = "Muon"
    """Its columns are `<collection>_Px, _Py, _Pz, _E`, or else `_pt, _eta, _phi, _mass`, in any capitals."""
    mask: ExpressionText | None = None
    """Only objects that fulfil this; the first two of them in stored order are the pair."""
    out_var: str | None = None
    """The column to add; `Di<collection>_Mass` by default."""
    mass: float | None = None
    """Of each object, where there is no column for it."""
    fields: dict[str, str] | None = None
    """Component (`px`, `py`, `pz`, `energy`, or `pt`, `eta`, `phi`, `mass`) → column, where names are unusual."""

    def resolve(self, columns: Collection[str]) -> Self:
        """Find the columns of the four-vectors. Raises `unknown-column` when they are not there."""
        resolved = super().resolve(columns)
        if self.fields is not None:
            return resolved
        fields = columns_of(self.collection, CARTESIAN, columns) or self._cylindrical(columns)
        return resolved.model_copy(update={"fields": fields})

    def _cylindrical(self, columns: Collection[str]) -> dict[str, str]:
        fields = columns_of(self.collection, CYLINDRICAL, columns)
        mass = column_of(self.collection, MASS, columns)
        if fields is not None and (mass is not None or self.mass is not None):
            return fields | ({"mass": mass} if mass is not None else {})
        there = [name for name in columns if name.startswith(f"{self.collection}_")]
        what = "has no column for the mass" if fields is not None else "has neither px, py, pz, E nor pt, eta, phi"
        raise errors.error(
            errors.UNKNOWN_COLUMN,
            f"stage '{self.stage}': the collection '{self.collection}' {what}",
            details=(f"columns of it: {listed(there)}",),
            hint="give mass: 0.10566 (in the units of the momenta)" if fields is not None else None,
        )

    @property
    def _output(self) -> str:
        return self.out_var or f"Di{self.collection}_Mass"

    @property
    def _fields(self) -> Mapping[str, str]:
        return self.fields or {component: f"{self.collection}_{component}" for component in _CYLINDRICAL}

    def reads(self) -> Collection[str]:
        """The components, and the columns of the mask."""
        return tuple(dict.fromkeys([*self._fields.values(), *self.names_in(self.mask)]))

    def adds(self) -> Collection[str]:
        """The mass."""
        return (self._output,)

    def run(self, events: Events) -> Result:
        """The mass of the first two objects that fulfil the mask."""
        lists = {component: lists_of(events[column]) for component, column in self._fields.items()}
        counts = common_counts([(self._fields[component], found) for component, found in lists.items()])
        if counts is None:
            raise ValueError(f"the collection '{self.collection}' has no columns to compute a mass from")
        chosen = None if self.mask is None else element_mask(evaluate(self.mask, events), counts, self.mask)
        enough, first, second = _pairs(chosen, counts)
        masses = np.full(events.size, np.nan)
        with np.errstate(all="ignore"):
            masses[enough] = self._masses(lists, first, second)
        return Result(events.with_columns({self._output: masses}))

    def _masses(self, lists: Mapping[str, Lists], first: NDArray[np.int64], second: NDArray[np.int64]) -> Column:
        def of_both(component: str) -> tuple[Column, Column]:
            if component not in lists:
                return self.mass or 0.0, self.mass or 0.0
            content = np.asarray(lists[component].content)
            return content[first].astype(np.float64), content[second].astype(np.float64)

        if "px" in lists:
            return cartesian_mass(*(sum(of_both(component)) for component in _CARTESIAN))
        ones, others = zip(*(of_both(component) for component in _CYLINDRICAL), strict=True)
        return invariant_mass(*ones, *others)


def _pairs(
    chosen: NDArray[np.bool_] | None, counts: ListLengths
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Which events have two chosen objects (None: all are), and where the first two of each are."""
    ends = np.cumsum(counts)
    if chosen is None:
        enough = counts >= 2
        first = (ends - counts)[enough]
        return enough, first, first + 1
    places = np.flatnonzero(chosen)
    passed = np.concatenate(([0], np.cumsum(chosen)))
    before, after = passed[ends - counts], passed[ends]
    enough = after - before >= 2
    return enough, places[before[enough]], places[before[enough] + 1]
