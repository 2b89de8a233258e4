"""The operation `hep.build_lepton_met_candidate`: a lepton and the missing transverse momentum, as from a W."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Self

import numpy as np
from pydantic import field_validator

from cenote.analysis.expressions.combinations import transverse_mass
from cenote.analysis.operations.interface import Operation, Result
from cenote.analysis.operations.support.events import Events
from cenote.analysis.operations.support.object_rows import (
    FOUR_VECTOR,
    AllConditions,
    FieldNames,
    ObjectRows,
    fields_in,
    of_candidate,
    refuse_all_existing,
    rows_of,
    sum_of_two,
)
from cenote.language.plugins.settings import Settings

_CANDIDATE = (*FOUR_VECTOR, "MT")


class LeptonMetSelection(Settings):
    """What leptons and candidates must fulfil."""

    lepton: AllConditions = ()
    """Conditions on fields of the lepton."""
    candidate: AllConditions = ()
    """Conditions on `pt`, `eta`, `phi`, `mass` and `MT` of both together."""


class LeptonMetFields(Settings):
    """Which columns are added."""

    candidate: FieldNames
    """Of both together: `pt`, `eta`, `phi`, `mass`, and the transverse mass `MT`, as `<output>_W_<field>`."""
    lepton: FieldNames
    """Fields of the lepton, as `<output>_lepton_<field>`."""

    @field_validator("candidate")
    @classmethod
    def _of_candidates(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return of_candidate(names, _CANDIDATE)


class BuildLeptonMetCandidate(Operation):
    """Makes a candidate of every lepton and the missing momentum, which has no mass and no longitudinal part.

    `n<output>_lepton` counts the leptons that fulfil their conditions, `n<output>_W` the candidates.
    """

    example: ClassVar[str] = """
    - id: W
      op: hep.build_lepton_met_candidate
      params:
        lepton: Muon
        met: MET
        output: Leptonic
        selection: {lepton: ["pt > 25"], candidate: ["MT > 40"]}
        keep: {candidate: [pt, MT], lepton: [pt, charge]}
    """
    names_are_columns: ClassVar[bool] = False

    lepton: str
    """A collection with `pt`, `eta`, `phi` and `mass`."""
    met: str
    """Its columns are `<met>_pt` and `<met>_phi`."""
    output: str
    """How the names of the new columns begin."""
    selection: LeptonMetSelection = LeptonMetSelection()
    """What leptons and candidates must fulfil. Names that are no fields are columns of the event."""
    keep: LeptonMetFields
    """Which columns are added."""

    def _fields(self, columns: Collection[str]) -> tuple[str, ...]:
        """What is read of each lepton: a name in a condition is a field wherever the collection has it."""
        there = fields_in(columns, self.lepton)
        named = [name for name in self.names_in(*self.selection.lepton) if not columns or name in there]
        return tuple(dict.fromkeys([*FOUR_VECTOR, *self.keep.lepton, *named]))

    def resolve(self, columns: Collection[str]) -> Self:
        """Raises `column-clash` where a new column is there already."""
        refuse_all_existing(self.adds(), columns, self.stage)
        return super().resolve(columns)

    def reads(self) -> Collection[str]:
        """Four-vectors, fields that are kept, and what conditions name."""
        fields = self._fields(self._columns)
        of_leptons = (name for name in self.names_in(*self.selection.lepton) if name not in fields)
        of_candidates = (name for name in self.names_in(*self.selection.candidate) if name not in _CANDIDATE)
        own = (f"{self.lepton}_{name}" for name in fields)
        return tuple(dict.fromkeys([*own, f"{self.met}_pt", f"{self.met}_phi", *of_leptons, *of_candidates]))

    def adds(self) -> Collection[str]:
        """The fields that are kept, and the numbers of leptons and candidates."""
        candidate = (f"{self.output}_W_{name}" for name in self.keep.candidate)
        lepton = (f"{self.output}_lepton_{name}" for name in self.keep.lepton)
        return (*candidate, *lepton, f"n{self.output}_W", f"n{self.output}_lepton")

    def keeps_every_event(self) -> bool:
        """It adds columns."""
        return True

    def run(self, events: Events) -> Result:
        """Select leptons, add the missing momentum to each, and select candidates."""
        leptons = rows_of(events, self.lepton, self._fields(events.names)).chosen(self.selection.lepton)
        own = {f"lepton_{name}": values for name, values in leptons.fields.items()}
        made = ObjectRows({**own, **self._sums(leptons)}, leptons.counts, events)
        candidates = made.chosen(self.selection.candidate)
        added = candidates.columns(f"{self.output}_W", self.keep.candidate)
        added |= candidates.columns(f"{self.output}_lepton", self.keep.lepton, "lepton_{}")
        counts = {f"n{self.output}_lepton": leptons.counts, f"n{self.output}_W": candidates.counts}
        return Result(events.with_columns({**added, **counts}))

    def _sums(self, leptons: ObjectRows) -> dict[str, np.ndarray]:
        met, azimuth = (leptons.value(f"{self.met}_{field}") for field in ("pt", "phi"))
        nothing = np.zeros(leptons.size)
        pt, eta, phi, mass = (leptons.fields[name] for name in FOUR_VECTOR)
        together = sum_of_two([pt, eta, phi, mass], [met, nothing, azimuth, nothing])
        return {**together, "MT": transverse_mass(pt, phi, met, azimuth)}
