"""The operation `hep.di_object_mass`: the invariant mass of the first two objects of a collection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.compiled.sample_types import obstacle_in_any
from cenote.analysis.expressions.arrays import ListLengths, Lists, common_counts, lists_of
from cenote.analysis.expressions.combinations import cartesian_mass, invariant_mass
from cenote.analysis.expressions.parser import ExpressionText
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.evaluation import element_mask, evaluate
from cenote.analysis.operations.support.events import Column, Events
from cenote.analysis.operations.support.object_rows import CARTESIAN, CYLINDRICAL, MASS, column_of, columns_of
from cenote.common import errors
from cenote.common.text import listed

if TYPE_CHECKING:
    from cenote.analysis.operations.support.stage_form import StageForm

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

    def leaves_nan(self) -> Collection[str]:
        """The mass, where there is no pair."""
        return (self._output,)

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

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
            masses[enough] = self._mass({component: _of_both(one, first, second) for component, one in lists.items()})
        return Result(events.with_columns({self._output: masses}))

    def why_not_compiled(self) -> str | None:
        """What in its mask has no compiled form."""
        return obstacle_in_any([self.mask])

    def write_compiled(self, form: StageForm) -> None:
        """The first two objects are found event by event; numpy computes their masses."""
        columns = {component: form.column(column) for component, column in self._fields.items()}
        space = form.elements(list(columns.values()))
        if self.mask is not None:
            space = form.masked(space, form.element_condition(form.value(self.mask), space))
        pairs = [form.element(one, space, position) for one in columns.values() for position in (0, 1)]
        masses = form.lowering.by_numpy(self._mass_of_arrays(tuple(columns)), pairs, np.dtype(np.float64))
        enough = form.lowering.is_there(space, 1)
        form.define(self._output, form.lowering.call("where", [enough, masses, np.nan], {}))

    def _mass_of_arrays(self, components: tuple[str, ...]) -> Callable[..., Column]:
        """The mass as a function of the first and the second object's value of each component."""

        def mass(*values: Column) -> Column:
            pairs = zip(values[::2], values[1::2], strict=True)
            with np.errstate(all="ignore"):
                return self._mass(dict(zip(components, pairs, strict=True)))

        return mass

    def _mass(self, given: Mapping[str, tuple[Column, Column]]) -> Column:
        def of_both(component: str) -> tuple[Column, Column]:
            return given.get(component, (self.mass or 0.0, self.mass or 0.0))

        if "px" in given:
            return cartesian_mass(*(sum(of_both(component)) for component in _CARTESIAN))
        ones, others = zip(*(of_both(component) for component in _CYLINDRICAL), strict=True)
        return invariant_mass(*ones, *others)


def _of_both(lists: Lists, first: NDArray[np.int64], second: NDArray[np.int64]) -> tuple[Column, Column]:
    content = np.asarray(lists.content)
    return content[first].astype(np.float64), content[second].astype(np.float64)


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
